//! A policy to simulate, and the life of an event under it.

use std::{borrow::Cow, fmt::Write};

use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    duration::format,
    envelope::Envelope,
    error_type::ErrorReport,
    reason::Reason,
    record::{Condition, Event, Failure, Wrapping},
    schedule::Schedule,
    settings::{BadSettings, Settings, policy::Policy},
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
    /// The name of that policy, if it is that of an error, such as `RateLimited* of orders`.
    pub decides: Option<String>,
    /// The error with which the function fails.
    pub error: ErrorReport,
    /// The maximum number of messages of a queue that wait in flight.
    pub in_flight_max: u32,
}

/// Which of a handler's policies is simulated.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    /// The one for events that fail with an error of this type, or with an unknown one, of any function.
    Error(Option<&'a str>),
    /// That of an error, by its name. If it has none, the general one.
    Named(&'a str),
}

impl Candidate {
    /// Parses the settings of a retry handler, as the handler does it.
    pub fn read(
        name: &str,
        of: Of<'_>,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadSettings> {
        let (queue, any) = ANY_QUEUE;
        let settings = Settings::from_lookup(|name| {
            lookup(name).or_else(|| (name == queue).then(|| any.to_owned()))
        })?;
        let policies = &settings.rules.policies;
        // No function has an empty name, so this is the general policy.
        let general = policies.of("");
        let error_type = match of {
            Of::Error(error_type) => error_type.map(str::to_owned),
            Of::Named(_) => None,
        };
        let error = ErrorReport { error_type, message: None };
        let own = match of {
            Of::Error(_) => general.of_error(&error),
            Of::Named(wanted) => policies.of_errors().find(|own| own.name == wanted),
        };
        Ok(Self {
            name: name.to_owned(),
            policy: own.map_or(general, |own| &own.policy).clone(),
            decides: own.map(|own| own.name.clone()),
            error,
            in_flight_max: settings.in_flight_max.get(),
        })
    }

    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let Policy { backoff, backoffs, max_age, max_attempts, .. } = &self.policy;
        let none = || "none".to_owned();
        let attempts = max_attempts.map_or_else(none, |max| max.to_string());
        let is_listed = !backoffs.is_empty();
        let unless_listed = |of| if is_listed { none() } else { format(of) };
        vec![
            ("ERRORS", self.decides.clone().unwrap_or_else(none)),
            ("BASE_BACKOFF", unless_listed(backoff.base)),
            ("MAX_BACKOFF", unless_listed(backoff.max)),
            ("BACKOFFS", if is_listed { backoffs.to_string() } else { none() }),
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
    pub(super) fn new(candidate: &'a Candidate) -> Self {
        let Candidate { policy, error, .. } = candidate;
        #[allow(clippy::expect_used, reason = "a constant")]
        let target = FunctionArn::parse("arn:aws:lambda:us-east-1:000000000000:function:any")
            .expect("the ARN of a function");
        let failure = Failure {
            target: Target::Function(target),
            request_id: String::new(),
            failed_at: START,
            condition: Condition::Failed,
            error: error.clone(),
            event: None,
            is_transparent: false,
            undelivered_by: None,
            wrapping: Wrapping::default(),
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
