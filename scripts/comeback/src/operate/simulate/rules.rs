//! Simulates a policy before it is deployed.
//!
//! A simulation answers two questions for each policy:
//!
//! 1. *When are the attempts made of an event that never succeeds?* `attempts` simulates thousands of such events, and
//!    returns quantiles over the jitter.
//! 2. *What are the effects of an outage?* `outage` simulates every event that arrives while the target is down: the
//!    number of its retries, when it succeeds, how many events wait at the same time, and the costs.
//!
//! `comeback_core::schedule` plans each step of an event's life, as in the retry handler. In a simulation, invocations
//! take no time and the handler is never late. On AWS each retry is up to a second later, because SQS counts whole
//! seconds.

mod attempts;
mod candidate;
mod dollars;
mod life;
mod outage;

use std::time::Duration;

use serde::Serialize;

pub use crate::operate::simulate::rules::{
    attempts::{AttemptTimes, Attempts, Quantiles},
    candidate::Candidate,
    dollars::{Dollars, Run},
    outage::{Outage, Point},
};

/// The outage to simulate, and the duration and memory of the target's runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// The length of the outage, in which every run of the target fails.
    #[serde(rename = "outage_seconds", serialize_with = "seconds")]
    pub outage: Duration,
    /// The rate at which new events arrive, during the outage and after it.
    pub events_per_second: f64,
    /// A run of the target. Every retry causes one.
    pub run: Run,
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    pub policy: String,
    pub settings: Vec<(&'static str, String)>,
    /// The attempts of an event that never succeeds.
    pub attempts: Attempts,
    pub outage: Outage,
}

pub fn simulate(candidate: &Candidate, scenario: &Scenario) -> Forecast {
    Forecast {
        policy: candidate.name.clone(),
        settings: candidate.settings(),
        attempts: attempts::simulate(&candidate.policy, scenario.seed),
        outage: outage::simulate(candidate, scenario),
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
