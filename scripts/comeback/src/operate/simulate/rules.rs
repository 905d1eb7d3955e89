//! Simulates a policy before it is deployed: `attempts` of events that never succeed, and an `outage` of the target.
//!
//! `comeback_core::schedule` plans each step of an event's life, as in the retry handler. In a simulation, invocations
//! take no time and the handler is never late. On AWS each retry is up to a second later, because SQS counts whole
//! seconds. The costs of retries on AWS are from the figures in `infra/COST.md`, which explains how they were derived.

mod attempts;
mod candidate;
mod cost;
mod outage;
mod scenario;

use schemars::JsonSchema;
use serde::Serialize;

pub use crate::operate::simulate::rules::{
    attempts::{AttemptTimes, Attempts},
    candidate::{Candidate, Of},
    outage::{Outage, Point},
    scenario::{Run, Scenario},
};

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
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
        attempts: attempts::attempts(candidate, scenario.seed),
        outage: outage::simulate(candidate, scenario),
    }
}
