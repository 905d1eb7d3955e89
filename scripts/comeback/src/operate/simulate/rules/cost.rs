//! What the retries of an outage cost on AWS.

use schemars::JsonSchema;
use serde::Serialize;

use super::scenario::Run;

const MILLION: f64 = 1e6;

/// The prices of a million, in batches of ten and in batches of one.
struct Prices {
    retry: [f64; 2],
    /// A further hop of a wait that one visibility timeout can't cover.
    hop: [f64; 2],
    dead_letter: [f64; 2],
}

// generated: prices, by infra/contract/generate.py
/// With envelopes, and without a ledger.
const WITH_ENVELOPES: Prices =
    Prices { retry: [1.68, 4.75], hop: [0.41, 2.11], dead_letter: [1.26, 3.06] };
/// Without envelopes.
const DROP_IN: Prices =
    Prices { retry: [3.20, 6.43], hop: [0.51, 2.25], dead_letter: [2.60, 4.55] };
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
    /// The same without envelopes, and with the ledger that this needs.
    pub drop_in_in_full_batches: f64,
    pub drop_in_each_alone: f64,
    pub target_runs: f64,
}

impl Dollars {
    pub(super) fn of(retries: f64, hops: f64, dead_letters: f64, run: Run) -> Self {
        let comeback = |prices: &Prices, kind: usize| {
            let waits = retries * prices.retry[kind] + hops * prices.hop[kind];
            (waits + dead_letters * prices.dead_letter[kind]) / MILLION
        };
        let gb_seconds = f64::from(run.milliseconds) / 1000.0 * f64::from(run.memory_mb) / 1024.0;
        Self {
            comeback_in_full_batches: comeback(&WITH_ENVELOPES, 0),
            comeback_each_alone: comeback(&WITH_ENVELOPES, 1),
            drop_in_in_full_batches: comeback(&DROP_IN, 0),
            drop_in_each_alone: comeback(&DROP_IN, 1),
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
        assert_eq!(
            [dollars.comeback_in_full_batches, dollars.comeback_each_alone],
            WITH_ENVELOPES.retry
        );
        assert_eq!([dollars.drop_in_in_full_batches, dollars.drop_in_each_alone], DROP_IN.retry);
        assert!((dollars.target_runs - 13.5334).abs() < 1e-9, "{dollars:?}");
    }
}
