//! What the retries of an outage cost on AWS.

use schemars::JsonSchema;
use serde::Serialize;

use super::scenario::Run;

const MILLION: f64 = 1e6;

// generated: prices, by infra/contract/generate.py
/// The price of a million retries, in batches of ten and in batches of one.
const RETRIES: [f64; 2] = [1.64, 4.71];
/// A million further hops of waits that one visibility timeout can't cover, in batches of ten and in batches of one.
const HOPS: [f64; 2] = [0.41, 2.11];
/// A million dead letters, in batches of ten and in batches of one.
const DEAD_LETTERS: [f64; 2] = [1.25, 3.06];
/// A million requests of Lambda.
const REQUESTS: f64 = 0.2;
/// A second of Lambda with a GB of memory, on arm64.
const GB_SECOND: f64 = 0.000_013_333_4;
// end: prices

/// The costs of an outage's retries, in dollars.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Dollars {
    /// Comeback's costs with full batches, as in an outage with many events.
    pub comeback_in_full_batches: f64,
    /// Comeback's costs with a single event in each batch.
    pub comeback_each_alone: f64,
    pub target_runs: f64,
}

impl Dollars {
    pub(super) fn of(retries: f64, hops: f64, dead_letters: f64, run: Run) -> Self {
        let comeback = |kind: usize| {
            let waits = retries * RETRIES[kind] + hops * HOPS[kind];
            (waits + dead_letters * DEAD_LETTERS[kind]) / MILLION
        };
        let gb_seconds = f64::from(run.milliseconds) / 1000.0 * f64::from(run.memory_mb) / 1024.0;
        Self {
            comeback_in_full_batches: comeback(0),
            comeback_each_alone: comeback(1),
            target_runs: retries * (REQUESTS / MILLION + gb_seconds * GB_SECOND),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_retries_cost_what_the_cost_page_says() {
        let run = Run { milliseconds: 1000, memory_mb: 1024 };
        let dollars = Dollars::of(MILLION, 0.0, 0.0, run);
        assert_eq!([dollars.comeback_in_full_batches, dollars.comeback_each_alone], RETRIES);
        assert!((dollars.target_runs - 13.5334).abs() < 1e-9, "{dollars:?}");
    }
}
