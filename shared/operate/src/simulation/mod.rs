//! What a policy means before it is deployed.
//!
//! Two questions are answered for each policy, side by side:
//!
//! 1. *When do the attempts of an event fall* that never succeeds? `attempts` plays thousands of such events and
//!    gives quantiles over the jitter.
//! 2. *What does an outage mean?* `outage` plays every event that arrives while the target is down: how often it is
//!    retried, when it comes back, how many wait at a time, and what that costs.
//!
//! Each step of an event's life is planned by `comeback_core::schedule`, as the retry handler does it. Invocations
//! take no time here, and the handler is never late: on AWS each retry falls up to a second later, because SQS counts
//! whole seconds.

mod attempts;
mod candidate;
mod dollars;
mod life;
mod outage;
mod quantiles;

use std::time::Duration;

pub use attempts::{AttemptTimes, Attempts};
pub use candidate::Candidate;
pub use dollars::{Dollars, Run};
pub use outage::{Outage, Point};
pub use quantiles::Quantiles;
use serde::Serialize;

/// The outage to play, and what a run of the target is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// How long the target fails every event.
    #[serde(rename = "outage_seconds", serialize_with = "seconds")]
    pub outage: Duration,
    /// How many events arrive in a second, during the outage and after it.
    pub events_per_second: f64,
    /// A run of the target, which every retry causes.
    pub run: Run,
    /// Decides the draws of the jitter.
    pub seed: u64,
}

/// What one policy means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The name of the policy.
    pub policy: String,
    /// Its settings.
    pub settings: Vec<(&'static str, String)>,
    /// An event that never succeeds.
    pub attempts: Attempts,
    /// The outage.
    pub outage: Outage,
}

/// Plays this scenario with a policy.
pub fn simulate(candidate: &Candidate, scenario: &Scenario) -> Forecast {
    Forecast {
        policy: candidate.name.clone(),
        settings: candidate.settings(),
        attempts: attempts::play(&candidate.policy, scenario.seed),
        outage: outage::play(candidate, scenario),
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
