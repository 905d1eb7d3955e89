//! The results of outages, and their rows in the tables.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use serde_json::Value;

use super::{
    BATCH_TAKES, Design,
    target::{Kind, Watched},
};

/// A second of the handler with 128 MB, in GB-seconds.
const GB: f64 = 0.125;

/// A price of AWS in dollars: of a GB-second, or of a million requests.
#[allow(clippy::expect_used, reason = "it is a file of this project")]
fn price(of: &str) -> f64 {
    let prices = include_str!("../../../../infra/cdk/contract/prices.json");
    let prices: Value = serde_json::from_str(prices).expect("the prices are JSON");
    prices[of]["dollars"].as_f64().expect("the price is known")
}

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
        millions(self.sqs_requests) * price("sqs_request")
            + millions(self.batches) * price("lambda_request")
            + seconds * GB * price("gb_second")
    }

    /// Whether nothing was lost and no rule was broken.
    pub fn is_good(&self) -> bool {
        let Watched { non_probe_retries, overlapping_probes, .. } = self.watched;
        self.lost == 0 && [self.forks, non_probe_retries, overlapping_probes] == [0; 3]
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

    pub fn design_row(&self, design: Design) -> String {
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

pub const DESIGNS_HEAD: &str = "\
| design | B late p50 | p99 | max | A late p50 | p99 | max | in flight | delayed | retries each | SQS requests | $ a million events | drained after | lost / forks / dead |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

pub const KINDS_HEAD: &str = "\
| A is | seeds | events | retries while down | probes | open after p50 | max | first retry after p50 | max | 95 % retried after p50 | max | open in vain | late while up | a step late max | B late max | writes | questions | not the probe / two probes / lost / forks / dead |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

/// The row of a kind: the sums, medians and maxima of all its outages.
pub fn kind_row(kind: Kind, all: &[Played]) -> String {
    let sum = |of: fn(&Played) -> u64| all.iter().map(of).sum::<u64>();
    let times = |of: fn(&Played) -> Option<Duration>| {
        let mut times: Vec<_> = all.iter().filter_map(of).map(|it| it.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let at =
            |share: f64| times.get(((times.len().max(1) - 1) as f64 * share) as usize).copied();
        let text = |at: Option<f64>| at.map_or("never".to_owned(), |at| format!("{at:.0} s"));
        format!("{} | {}", text(at(0.5)), text(at(1.0)))
    };
    let most =
        |of: fn(&Played) -> Duration| all.iter().map(of).max().unwrap_or_default().as_secs_f64();
    format!(
        "| {kind:?} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0} s | {:.0} s | {:.1} s | {} | {} | {} / {} / {} / {} / {} |",
        all.len(),
        sum(|it| it.events as u64),
        sum(|it| it.retries_while_down),
        sum(|it| it.watched.probes),
        times(|it| it.opened_after),
        times(|it| it.first_after),
        times(|it| it.most_after),
        sum(|it| it.watched.false_openings),
        most(|it| it.watched.late_while_up),
        most(|it| it.watched.late_step),
        most(|it| it.lateness(1, 1.0)),
        sum(|it| it.watched.writes),
        sum(|it| it.watched.questions),
        sum(|it| it.watched.non_probe_retries),
        sum(|it| it.watched.overlapping_probes),
        sum(|it| it.lost as u64),
        sum(|it| it.forks),
        sum(|it| it.letters),
    )
}
