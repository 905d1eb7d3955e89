//! A policy to simulate, and the life of an event under it.

use std::{borrow::Cow, fmt::Write};

use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    duration::format,
    envelope::Envelope,
    error_type::ErrorReport,
    policy::Policy,
    reason::Reason,
    record::{Condition, Event, Failure},
    schedule::Schedule,
    settings::{BadSettings, Settings},
    target::Target,
};
use serde_json::value::RawValue;

/// A placeholder: the settings require a dead-letter queue, which a simulation doesn't use.
const ANY_QUEUE: (&str, &str) =
    ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/0/any");

#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: String,
    pub policy: Policy,
    /// The maximum number of messages of a queue that wait in flight.
    pub in_flight_max: u32,
}

impl Candidate {
    /// Parses the settings of a retry handler, as the handler does it.
    pub fn read(name: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let (queue, any) = ANY_QUEUE;
        let settings = Settings::from_lookup(|name| {
            lookup(name).or_else(|| (name == queue).then(|| any.to_owned()))
        })?;
        Ok(Self {
            name: name.to_owned(),
            // No function has an empty name, so this is the general policy.
            policy: settings.rules.policies.of("").clone(),
            in_flight_max: settings.in_flight_max.get(),
        })
    }

    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let Policy { backoff, max_age, max_attempts, .. } = &self.policy;
        let attempts = max_attempts.map_or("none".to_owned(), |max| max.to_string());
        vec![
            ("BASE_BACKOFF", format(backoff.base)),
            ("MAX_BACKOFF", format(backoff.max)),
            ("MAX_AGE", format(*max_age)),
            ("MAX_ATTEMPTS", attempts),
            ("JITTER", format!("{:?}", backoff.jitter).to_lowercase()),
            ("IN_FLIGHT_MAX", self.in_flight_max.to_string()),
        ]
    }
}

pub(super) const START: Timestamp = Timestamp::UNIX_EPOCH;

/// An event that has just failed. The value is reused for one event after another to avoid allocations for millions.
pub(super) struct Life<'a> {
    policy: &'a Policy,
    pub(super) failure: Failure<'static>,
    event: (u64, u64),
}

impl<'a> Life<'a> {
    pub(super) fn new(policy: &'a Policy) -> Self {
        #[allow(clippy::expect_used, reason = "a constant")]
        let target = FunctionArn::parse("arn:aws:lambda:us-east-1:000000000000:function:any")
            .expect("the ARN of a function");
        let failure = Failure {
            target: Target::Function(target),
            request_id: String::new(),
            failed_at: START,
            condition: Condition::Failed,
            error: ErrorReport::default(),
            event: None,
            whole: None,
            has_no_envelope: false,
        };
        Self { policy, failure, event: (0, 0) }
    }

    /// Begins the life of a new event, whose first run fails at this time.
    pub(super) fn begin(&mut self, seed: u64, event: u64, failed_at: Timestamp) {
        self.event = (seed, event);
        self.failure.event = Some(Event::Fresh(Cow::Borrowed(RawValue::NULL)));
        self.fail(0, failed_at);
    }

    /// Plans the next attempt, or returns the reason why the event is given up.
    pub(super) fn plan(&self) -> Result<Schedule, Reason> {
        Schedule::of(&self.failure, self.policy)
    }

    /// Makes the attempt when it is due, and lets it fail.
    pub(super) fn fail_again(&mut self, schedule: &Schedule) {
        if let Some(Event::Retried(envelope)) = &mut self.failure.event {
            envelope.metadata.attempt = schedule.attempt;
        } else {
            let envelope = self.failure.envelope(schedule.attempt).map(Envelope::into_owned);
            self.failure.event = envelope.map(Event::Retried);
        }
        self.fail(schedule.attempt.get(), schedule.due);
    }

    /// Records a failure. Each failed invocation has its own request id, which determines the next draw of the jitter.
    fn fail(&mut self, attempt: u32, failed_at: Timestamp) {
        let (seed, event) = self.event;
        self.failure.request_id.clear();
        // Writing to a string can't fail.
        let _ = write!(self.failure.request_id, "{seed}-{event}-{attempt}");
        self.failure.failed_at = failed_at;
    }
}
