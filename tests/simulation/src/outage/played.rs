//! The results of an outage, and their row in the table.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use super::{BATCH_TAKES, Design};
use crate::target::Watched;

/// Dollars for a million requests of SQS and of Lambda, and for a second of a function with 128 MB on arm64, as in
/// `infra/cost/prices.py`.
const SQS_REQUESTS: f64 = 0.40;
const LAMBDA_REQUESTS: f64 = 0.20;
const LAMBDA_SECOND: f64 = 0.125 * 0.000_013_333_4;

/// The results of one outage.
#[derive(Default)]
pub struct Played {
    /// How many attempts of A and of B were late by each number of milliseconds.
    pub lateness: [BTreeMap<u64, u64>; 2],
    /// The most messages of A's queue that were in flight after the first minute, and the most that were delayed.
    pub in_flight_max: u64,
    pub delayed_max: u64,
    pub events: usize,
    pub retries: u64,
    /// Events that were neither retried to the end nor given up, attempts that were made twice, and dead letters.
    pub lost: usize,
    pub forks: u64,
    pub letters: u64,
    pub sqs_requests: u64,
    pub batches: u64,
    /// How long after the end of the outage the last event ended.
    pub drained: Duration,
    /// About A: when its circuit opened, after the beginning; its retries during the outage; when the first retry was
    /// made, and when 95 % of the backlog were retried, after the end of the outage; and the backlog at that end.
    pub opened_after: Option<Duration>,
    pub retries_while_down: u64,
    pub first_after: Option<Duration>,
    pub most_after: Option<Duration>,
    pub backlog: usize,
    pub watched: Watched,
}

impl Played {
    pub fn dollars(&self) -> f64 {
        let millions = |count: u64| count as f64 / 1e6;
        let seconds = self.batches as f64 * BATCH_TAKES.as_secs_f64();
        millions(self.sqs_requests) * SQS_REQUESTS
            + millions(self.batches) * LAMBDA_REQUESTS
            + seconds * LAMBDA_SECOND
    }

    /// The lateness that this share of A's or B's attempts did not exceed.
    pub fn lateness(&self, target: usize, share: f64) -> Duration {
        let all = &self.lateness[target];
        let mut rest = (all.values().sum::<u64>() as f64 * share).ceil() as u64;
        let nth = all.iter().find(|(_, attempts)| {
            rest = rest.saturating_sub(**attempts);
            rest == 0
        });
        nth.map_or(Duration::ZERO, |(&millis, _)| Duration::from_millis(millis))
    }

    /// The row of a table.
    pub fn row(&self, design: Design) -> String {
        let seconds = |target, share| self.lateness(target, share).as_secs_f64();
        let mut row = format!("| {design:?} |");
        for target in [1, 0] {
            for share in [0.5, 0.99, 1.0] {
                // Writing to a string can't fail.
                let _ = write!(row, " {:.1} |", seconds(target, share));
            }
        }
        let events = self.events as f64;
        let _ = write!(
            row,
            " {} | {} | {:.1} | {:.1} M | {:.2} | {:.1} h | {} / {} / {} |",
            self.in_flight_max,
            self.delayed_max,
            self.retries as f64 / events,
            self.sqs_requests as f64 / 1e6,
            self.dollars() / events * 1e6,
            self.drained.as_secs_f64() / 3600.0,
            self.lost,
            self.forks,
            self.letters,
        );
        row
    }
}

/// The header of the table.
pub const HEAD: &str = "\
| design | B late p50 | p99 | max | A late p50 | p99 | max | in flight | delayed | retries each | SQS requests | $ a million events | drained after | lost / forks / dead |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";
