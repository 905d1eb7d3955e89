//! The events of the demo: their functions, how they fail, and how each should end.
//!
//! Most are orders that fail until the upstream is back. Each of the others shows another way to fail. At most a
//! third of the events are others, so that a small demo is not all exceptions.

use std::time::Duration;

use chrono::SecondsFormat;
use comeback_core::{Timestamp, reason::Reason, time::later};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::SliceRandom};
use serde_json::{Value, json};

use crate::{binaries::Binaries, deploy::Function};

/// The function of most events.
const TARGET: &str = "example-target";
/// The function whose events are given up after [`CAPPED_ATTEMPTS`].
const CAPPED: &str = "capped-target";
/// The function that has a reserved concurrency of 0 until the upstream is back.
pub const PAUSED: &str = "paused-target";

/// `MAX_ATTEMPTS` of [`CAPPED`].
const CAPPED_ATTEMPTS: u32 = 3;

/// The time-out of the functions: long enough for a cold start on a busy machine, short enough to watch.
const TARGET_TIMEOUT: Duration = Duration::from_secs(3);

/// The wait that a rate-limited event asks for, longer than any backoff here.
const ASKED_FOR: Duration = Duration::from_secs(6);

/// Short backoffs for a demo, in whole seconds as SQS counts.
const BASE_BACKOFF: Duration = Duration::from_secs(1);
/// The longest wait after the upstream is back.
const MAX_BACKOFF: Duration = Duration::from_secs(4);

/// Lambda alone makes its last retry at this age: a minute after the first failure, and two after the second.
const LAST_RETRY_OF_LAMBDA: Duration = Duration::from_mins(3);

/// How much longer than the outage an event may be retried: long enough that none is given up for its age, even
/// on a slow machine.
const MAX_AGE_AFTER_OUTAGE: Duration = Duration::from_mins(1);

/// All events are sent in the first quarter of the outage, or within [`SENDING_MAX`] if that is less.
const SENDING_PART: u32 = 4;
/// The longest time over which events are sent.
const SENDING_MAX: Duration = Duration::from_secs(3);

/// One event in three has another part than an order, as long as there are parts.
const EVENTS_PER_PART: usize = 3;

/// The other parts. A small demo has the first of them.
const PARTS: [Part; 9] = [
    Part::Invalid,
    Part::AlwaysFails,
    Part::Crashes,
    Part::Paused,
    Part::TimesOut,
    Part::RateLimited,
    Part::Invalid,
    Part::AlwaysFails,
    Part::Invalid,
];

/// The kind of failure that an event shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// It fails until the upstream is back.
    Order,
    /// Its error is permanent.
    Invalid,
    /// It fails every time, and the policy of its function allows only a few attempts.
    AlwaysFails,
    /// Its function crashes twice.
    Crashes,
    /// Its function times out once.
    TimesOut,
    /// Its error asks for a longer wait than the backoff.
    RateLimited,
    /// Its function is paused and does not run until the upstream is back.
    Paused,
}

impl Part {
    /// The name of its events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Invalid => "invalid",
            Self::AlwaysFails => "always-fails",
            Self::Crashes => "crashes",
            Self::TimesOut => "times-out",
            Self::RateLimited => "rate-limited",
            Self::Paused => "paused",
        }
    }

    fn function(self) -> &'static str {
        match self {
            Self::Order | Self::Invalid | Self::Crashes | Self::TimesOut | Self::RateLimited => {
                TARGET
            }
            Self::AlwaysFails => CAPPED,
            Self::Paused => PAUSED,
        }
    }

    /// The member `fail` of the payload, which tells the example target how to fail.
    fn fail(self, upstream_back: Timestamp) -> Option<Value> {
        let until = upstream_back.to_rfc3339_opts(SecondsFormat::Millis, true);
        let asks = format!("{}s: the upstream says 429", ASKED_FOR.as_secs());
        match self {
            Self::Order => Some(json!({ "until": until, "message": "the upstream says 503" })),
            Self::Invalid => {
                Some(json!({ "error": "PermanentFailure", "message": "no such item" }))
            }
            Self::AlwaysFails => {
                Some(json!({ "error": "Misconfigured", "message": "no database" }))
            }
            Self::Crashes => Some(json!({ "attempts": 2, "by": "crash" })),
            Self::TimesOut => Some(json!({ "attempts": 1, "by": "hang" })),
            Self::RateLimited => {
                Some(json!({ "attempts": 1, "error": "RetryAfter", "message": asks }))
            }
            Self::Paused => None,
        }
    }

    /// The reason for which an event of this part should be given up, or `None` if it should succeed.
    pub fn given_up_for(self) -> Option<Reason> {
        match self {
            Self::Invalid => Some(Reason::NotRetryable),
            Self::AlwaysFails => Some(Reason::MaxAttemptsExceeded),
            Self::Order | Self::Crashes | Self::TimesOut | Self::RateLimited | Self::Paused => None,
        }
    }
}

/// An event to be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Role {
    /// Its name, and the `id` in its payload.
    pub name: String,
    /// The kind of failure that it shows.
    pub part: Part,
    /// The function that it is sent to.
    pub function: &'static str,
    /// Its payload.
    pub payload: String,
    /// How long after the beginning it is sent.
    pub sent_after: Duration,
}

impl Role {
    /// Whether Lambda alone would have lost the event, because neither of its two retries would have succeeded. For
    /// a function without concurrency Lambda makes no retry at all.
    pub fn lost_by_lambda_alone(&self, outage: Duration) -> bool {
        match self.part {
            Part::Order => outage > self.sent_after + LAST_RETRY_OF_LAMBDA,
            Part::Invalid | Part::AlwaysFails | Part::Paused => true,
            Part::Crashes | Part::TimesOut | Part::RateLimited => false,
        }
    }
}

/// The plan of a demo.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// How many events are sent.
    pub events: usize,
    /// How long the upstream is down.
    pub outage: Duration,
    /// Decides the order of the events.
    pub seed: u64,
}

impl Play {
    /// The events of a demo that begins at `began`, in the order in which they are sent.
    pub fn cast(&self, began: Timestamp) -> Vec<Role> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let others = PARTS.len().min(self.events / EVENTS_PER_PART);
        let mut parts = vec![Part::Order; self.events - others];
        parts.extend(&PARTS[..others]);
        parts.shuffle(&mut random);
        let sending = SENDING_MAX.min(self.outage / SENDING_PART);
        let slot = sending.div_f64(self.events.max(1) as f64);
        let upstream_back = later(began, self.outage);
        let role = |(nth, &part): (usize, &Part)| {
            let earlier = parts[..nth].iter().filter(|&&other| other == part).count();
            let name = format!("{}-{}", part.name(), earlier + 1);
            let payload = match part.fail(upstream_back) {
                Some(fail) => json!({ "id": name, "fail": fail }),
                None => json!({ "id": name }),
            };
            let sent_after = slot.mul_f64(nth as f64 + random.random_range(0.0..1.0));
            let (function, payload) = (part.function(), payload.to_string());
            Role { name, part, function, payload, sent_after }
        };
        parts.iter().enumerate().map(role).collect()
    }

    /// The functions that the events are sent to.
    pub fn targets(binaries: &Binaries) -> Vec<Function> {
        let binary = &binaries.example_target;
        [TARGET, CAPPED, PAUSED].map(|name| Function::of(name, binary, TARGET_TIMEOUT)).into()
    }

    /// How long an event may be retried.
    pub fn max_age(&self) -> Duration {
        self.outage + MAX_AGE_AFTER_OUTAGE
    }

    /// The settings of the retry handler.
    pub fn settings(&self) -> Vec<(String, String)> {
        let seconds = |duration: Duration| format!("{}s", duration.as_secs());
        let policies = json!({ CAPPED: { "MAX_ATTEMPTS": CAPPED_ATTEMPTS } });
        let settings = [
            ("BASE_BACKOFF", seconds(BASE_BACKOFF)),
            ("MAX_BACKOFF", seconds(MAX_BACKOFF)),
            ("MAX_AGE", seconds(self.max_age())),
            ("POLICIES", policies.to_string()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

#[cfg(test)]
mod tests {
    use comeback_core::settings::Settings;

    use super::*;

    fn play(events: usize, seed: u64) -> Play {
        Play { events, outage: Duration::from_secs(8), seed }
    }

    fn cast(events: usize, seed: u64) -> Vec<Role> {
        play(events, seed).cast(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn most_events_are_orders_and_a_large_demo_has_every_part() {
        for (events, others) in [(1, 0), (2, 0), (3, 1), (10, 3), (26, 8), (30, 9), (200, 9)] {
            let cast = cast(events, 7);
            assert_eq!(cast.len(), events);
            let orders = cast.iter().filter(|role| role.part == Part::Order).count();
            assert_eq!(events - orders, others, "of {events}");
        }
        let cast = cast(30, 7);
        assert!(PARTS.iter().all(|part| cast.iter().any(|role| role.part == *part)));
    }

    #[test]
    fn the_same_seed_gives_the_same_events_and_another_seed_others() {
        assert_eq!(cast(30, 1), cast(30, 1));
        assert_ne!(cast(30, 1), cast(30, 2));
    }

    #[test]
    fn events_have_different_names_and_are_sent_early_in_the_outage() {
        let cast = cast(30, 3);
        let mut names: Vec<_> = cast.iter().map(|role| &role.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 30);
        assert!(cast.is_sorted_by_key(|role| role.sent_after));
        assert!(cast.iter().all(|role| role.sent_after < Duration::from_secs(2)));
    }

    #[test]
    fn a_payload_says_how_its_event_fails() {
        let payload = |part| {
            let cast = cast(30, 1);
            cast.into_iter().find(|role| role.part == part).unwrap().payload
        };
        assert_eq!(
            payload(Part::Order),
            r#"{"fail":{"message":"the upstream says 503","until":"1970-01-01T00:00:08.000Z"},"id":"order-1"}"#
        );
        assert_eq!(payload(Part::Paused), r#"{"id":"paused-1"}"#);
        assert!(payload(Part::RateLimited).contains(r#""message":"6s: the upstream says 429""#));
    }

    #[test]
    fn lambda_alone_would_have_lost_events_that_its_two_retries_do_not_reach() {
        let lost = |seconds: u64| {
            let outage = Duration::from_secs(seconds);
            let cast = Play { events: 30, outage, seed: 1 }.cast(Timestamp::UNIX_EPOCH);
            let lost = cast.iter().filter(|role| role.lost_by_lambda_alone(outage));
            lost.filter(|role| role.part == Part::Order).count()
        };
        assert_eq!((lost(8), lost(180), lost(240)), (0, 0, 21));
        let part_is_lost = |part| {
            let cast = cast(30, 1);
            cast.iter()
                .find(|role| role.part == part)
                .unwrap()
                .lost_by_lambda_alone(play(30, 1).outage)
        };
        // Two crashes are followed by a success, at Lambda's last retry.
        for (part, lost) in [(Part::Invalid, true), (Part::Paused, true), (Part::Crashes, false)] {
            assert_eq!(part_is_lost(part), lost, "{part:?}");
        }
    }

    #[test]
    fn the_settings_are_valid_and_limit_the_attempts_of_one_function() {
        let variables = play(30, 1).settings();
        let settings = Settings::from_lookup(|name| match name {
            "DEAD_LETTER_QUEUE_URL" => Some("http://127.0.0.1/000000000000/dead".to_owned()),
            _ => variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()),
        });
        let policies = settings.unwrap().rules.policies;
        let attempts =
            |function| policies.of(function).max_attempts.map(comeback_core::Attempt::get);
        assert_eq!((attempts(CAPPED), attempts(TARGET)), (Some(CAPPED_ATTEMPTS), None));
        assert_eq!(policies.of(TARGET).backoff.max, MAX_BACKOFF);
        assert_eq!(policies.of(TARGET).max_age, Duration::from_secs(68));
    }
}
