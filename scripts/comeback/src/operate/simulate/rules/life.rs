//! The life of one event in the retry loop, step by step.

use std::{borrow::Cow, fmt::Write};

use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    envelope::Envelope,
    error_type::ErrorReport,
    policy::Policy,
    reason::Reason,
    record::{Condition, Event, Failure},
    schedule::Schedule,
    target::Target,
};
use serde_json::value::RawValue;

pub(super) const START: Timestamp = Timestamp::UNIX_EPOCH;

/// An event that has just failed. The value is reused for one event after another to avoid allocations for millions.
pub(super) struct Life<'a> {
    policy: &'a Policy,
    failure: Failure<'static>,
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
        };
        Self { policy, failure, event: (0, 0) }
    }

    /// Begins the life of a new event, whose first run fails at this time.
    pub(super) fn begin(&mut self, seed: u64, event: u64, failed_at: Timestamp) {
        self.event = (seed, event);
        self.failure.event = Some(Event::Fresh(Cow::Borrowed(RawValue::NULL)));
        self.fail(0, failed_at);
    }

    /// When the event last failed.
    pub(super) fn failed_at(&self) -> Timestamp {
        self.failure.failed_at
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
