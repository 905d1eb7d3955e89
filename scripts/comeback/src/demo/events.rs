//! The events of the demo: their functions, how they fail, and the expected outcome of each.
//!
//! Most are orders that fail until the upstream is back. The others, at most a third, each show another kind of
//! failure.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    reason::Reason,
    time::{later, rfc3339},
};
use comeback_local_client::deploy::Function;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::SliceRandom};
use serde_json::{Value, json};

use crate::functions::{Binaries, TARGET};

/// The function whose events are given up after [`CAPPED_ATTEMPTS`].
const CAPPED: &str = "capped-target";
/// The function whose reserved concurrency is 0 until the upstream is back.
pub const PAUSED: &str = "paused-target";

const CAPPED_ATTEMPTS: u32 = 3;

/// The time-out of the functions: enough for a cold start on a busy machine, but short enough to watch.
const TARGET_TIMEOUT: Duration = Duration::from_secs(3);

/// The delay that a rate-limited event asks for. It is longer than `MAX_BACKOFF`.
const RETRY_AFTER: Duration = Duration::from_secs(6);

/// How long after they are sent some events fail: in their first run, or in their first few. They have no envelope, so
/// a function can't count their runs.
const ONE_FAILURE: Duration = Duration::from_secs(1);
const FEW_FAILURES: Duration = Duration::from_secs(3);

/// Backoffs that are short enough to watch. SQS counts in whole seconds.
const BASE_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(4);

/// The age at which Lambda alone makes its last retry: one minute after the first failure, plus two after the second.
const LAST_RETRY_OF_LAMBDA: Duration = Duration::from_mins(3);

/// How much longer than the outage events may be retried. Even on a slow machine, none is given up for its age.
const MAX_AGE_AFTER_OUTAGE: Duration = Duration::from_mins(1);

/// All events are sent in the first quarter of the outage, but at most over [`SENDING_MAX`].
const SENDING_SHARE: u32 = 4;
const SENDING_MAX: Duration = Duration::from_secs(3);

/// One event in three has another scenario than [`Scenario::Order`], until [`SCENARIOS`] are used up.
const EVENTS_PER_SCENARIO: usize = 3;

/// The scenarios other than an order. A small demo uses only the first ones.
const SCENARIOS: [Scenario; 9] = [
    Scenario::Invalid,
    Scenario::AlwaysFails,
    Scenario::Crashes,
    Scenario::Paused,
    Scenario::TimesOut,
    Scenario::RateLimited,
    Scenario::Invalid,
    Scenario::AlwaysFails,
    Scenario::Invalid,
];

/// How an event fails, and whether it ever succeeds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scenario {
    Order,
    Invalid,
    /// It always fails, and the policy of its function allows only a few attempts.
    AlwaysFails,
    Crashes,
    TimesOut,
    /// It fails once, with a `RetryAfter` that is longer than the backoff.
    RateLimited,
    /// Its function is paused and does not run until the upstream is back.
    Paused,
}

impl Scenario {
    pub fn name(self) -> &'static str {
        self.plan().0
    }

    /// The reason with which the event should be given up, or `None` if it should succeed.
    pub fn expected_reason(self) -> Option<Reason> {
        self.plan().3
    }

    /// Its name and function, the member `fail` of the payload, which controls how the example target fails, and the
    /// reason with which the event should be given up.
    fn plan(self) -> (&'static str, &'static str, Value, Option<Reason>) {
        match self {
            Self::Order => ("order", TARGET, json!({ "message": "the upstream says 503" }), None),
            Self::Invalid => {
                let fail = json!({ "error": "PermanentFailure", "message": "no such item" });
                ("invalid", TARGET, fail, Some(Reason::NotRetryable))
            }
            Self::AlwaysFails => {
                let fail = json!({ "error": "Misconfigured", "message": "no database" });
                ("always-fails", CAPPED, fail, Some(Reason::MaxAttemptsExceeded))
            }
            Self::Crashes => ("crashes", TARGET, json!({ "by": "crash" }), None),
            Self::TimesOut => ("times-out", TARGET, json!({ "by": "hang" }), None),
            Self::RateLimited => {
                let asks = format!("{}s: the upstream says 429", RETRY_AFTER.as_secs());
                let fail = json!({ "error": "RetryAfter", "message": asks });
                ("rate-limited", TARGET, fail, None)
            }
            Self::Paused => ("paused", PAUSED, Value::Null, None),
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlannedEvent {
    /// Its name, which is also the `id` in its payload.
    pub name: String,
    pub scenario: Scenario,
    pub function: &'static str,
    pub payload: String,
    /// When it is sent, counted from the start of the demo.
    pub sent_after: Duration,
}

impl PlannedEvent {
    /// Whether the event comes back here, and Lambda without Comeback would have lost it, because neither of its two
    /// retries would have succeeded. Lambda makes no retries for a function with a reserved concurrency of 0.
    pub fn lost_by_lambda_alone(&self, outage: Duration) -> bool {
        match self.scenario {
            Scenario::Order => outage > self.sent_after + LAST_RETRY_OF_LAMBDA,
            Scenario::Paused => true,
            // The first two are given up here, too.
            Scenario::Invalid
            | Scenario::AlwaysFails
            | Scenario::Crashes
            | Scenario::TimesOut
            | Scenario::RateLimited => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub events: usize,
    pub outage: Duration,
    pub seed: u64,
}

impl Plan {
    /// The events of a demo that starts at `began`, in the order in which they are sent.
    pub fn schedule(&self, began: Timestamp) -> Vec<PlannedEvent> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let others = SCENARIOS.len().min(self.events / EVENTS_PER_SCENARIO);
        let mut scenarios = vec![Scenario::Order; self.events - others];
        scenarios.extend(&SCENARIOS[..others]);
        scenarios.shuffle(&mut random);
        let sending = SENDING_MAX.min(self.outage / SENDING_SHARE);
        let slot = sending.div_f64(self.events.max(1) as f64);
        let upstream_back = later(began, self.outage);
        let planned = |(nth, &scenario): (usize, &Scenario)| {
            let earlier = scenarios[..nth].iter().filter(|&&other| other == scenario).count();
            let (name, function, mut fail, _) = scenario.plan();
            let name = format!("{name}-{}", earlier + 1);
            let mut payload = json!({ "id": name });
            let sent_after = slot.mul_f64(nth as f64 + random.random_range(0.0..1.0));
            let until = match scenario {
                Scenario::Order => Some(upstream_back),
                Scenario::Crashes => Some(later(began, sent_after + FEW_FAILURES)),
                Scenario::TimesOut | Scenario::RateLimited => {
                    Some(later(began, sent_after + ONE_FAILURE))
                }
                Scenario::Invalid | Scenario::AlwaysFails | Scenario::Paused => None,
            };
            if let Some(until) = until {
                fail["until"] = json!(rfc3339(until));
            }
            if !fail.is_null() {
                payload["fail"] = fail;
            }
            let payload = payload.to_string();
            PlannedEvent { name, scenario, function, payload, sent_after }
        };
        scenarios.iter().enumerate().map(planned).collect()
    }

    pub fn targets(binaries: &Binaries) -> Vec<Function> {
        [TARGET, CAPPED, PAUSED].map(|name| binaries.target(name, TARGET_TIMEOUT)).into()
    }

    pub fn max_age(&self) -> Duration {
        self.outage + MAX_AGE_AFTER_OUTAGE
    }

    pub fn settings(&self) -> Vec<(String, String)> {
        let seconds = |duration: Duration| format!("{}s", duration.as_secs());
        let policies = json!({ CAPPED: { "MAX_ATTEMPTS": CAPPED_ATTEMPTS } });
        let settings = [
            ("BASE_BACKOFF", seconds(BASE_BACKOFF)),
            ("MAX_BACKOFF", seconds(MAX_BACKOFF)),
            ("MAX_AGE", seconds(self.max_age())),
            ("TRANSPARENT", "true".to_owned()),
            ("POLICIES", policies.to_string()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(events: usize, seed: u64) -> Vec<PlannedEvent> {
        Plan { events, outage: Duration::from_secs(8), seed }.schedule(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn most_events_are_orders_and_a_large_demo_has_every_scenario() {
        for (events, others) in [(1, 0), (2, 0), (3, 1), (10, 3), (26, 8), (30, 9), (200, 9)] {
            let schedule = schedule(events, 7);
            assert_eq!(schedule.len(), events);
            let orders = schedule.iter().filter(|event| event.scenario == Scenario::Order).count();
            assert_eq!(events - orders, others, "of {events}");
        }
        let schedule = schedule(30, 7);
        assert!(SCENARIOS.iter().all(|it| schedule.iter().any(|event| event.scenario == *it)));
    }

    #[test]
    fn the_same_seed_sends_the_same_events_early_in_the_outage() {
        assert_eq!(schedule(30, 1), schedule(30, 1));
        assert_ne!(schedule(30, 1), schedule(30, 2));
        let schedule = schedule(30, 3);
        let names: std::collections::BTreeSet<_> = schedule.iter().map(|it| &it.name).collect();
        assert_eq!(names.len(), 30);
        assert!(schedule.is_sorted_by_key(|event| event.sent_after));
        assert!(schedule.iter().all(|event| event.sent_after < Duration::from_secs(2)));
    }

    #[test]
    fn lambda_alone_would_have_lost_events_that_its_two_retries_do_not_reach() {
        let lost = |seconds: u64, scenario| {
            let outage = Duration::from_secs(seconds);
            let schedule = Plan { events: 30, outage, seed: 1 }.schedule(Timestamp::UNIX_EPOCH);
            let of_scenario = schedule.iter().filter(|event| event.scenario == scenario);
            of_scenario.filter(|event| event.lost_by_lambda_alone(outage)).count()
        };
        // An event that crashes twice succeeds in Lambda's last retry.
        for (seconds, scenario, expected) in [
            (8, Scenario::Order, 0),
            (180, Scenario::Order, 0),
            (240, Scenario::Order, 21),
            (8, Scenario::Invalid, 0),
            (240, Scenario::AlwaysFails, 0),
            (8, Scenario::Paused, 1),
            (8, Scenario::Crashes, 0),
        ] {
            assert_eq!(lost(seconds, scenario), expected, "{scenario:?} {seconds}");
        }
    }
}
