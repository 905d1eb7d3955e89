//! The scenario in which policies are compared.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The outage to simulate, and the duration and memory of the target's runs.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Scenario {
    /// The length of the outage, in which every run of the target fails.
    #[serde(rename = "outage_seconds", serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub outage: Duration,
    /// The rate at which new events arrive, during the outage and after it.
    pub events_per_second: f64,
    pub run: Run,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Run {
    pub milliseconds: u32,
    pub memory_mb: u32,
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
