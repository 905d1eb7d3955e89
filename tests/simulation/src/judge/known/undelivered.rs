//! Events that EventBridge or its Scheduler could not deliver to a target.
//!
//! The target has never run, so it gets the event as it is. What it then makes of it is a failure of its own, and the
//! first one of a chain.

use std::{borrow::Cow, num::NonZero};

use comeback_core::error_type::ErrorReport;
use comeback_local_model::sqs::Outgoing;

use super::{Known, Open, cases::Case};
use crate::payload::{Foreign, envelope};

/// What the message about such an event says, or the dead letter of one that SQS has moved back.
#[derive(Clone, Default)]
pub struct Undelivered {
    /// The ARN of the rule or the schedule.
    pub source: String,
    pub error: ErrorReport,
    /// Whether it names its function without a version, and not as the function's failure records do.
    pub is_plain: bool,
    pub is_of_queue: bool,
    /// Whether only a part of the event was kept.
    pub is_truncated: bool,
    /// The request id in the dead letter that was moved back.
    pub letter_of: Option<String>,
    /// Whether no target can be read of it.
    pub says_nothing: bool,
}

impl Known {
    /// Whether a handler may retry the target of a failure, as its message names it. Everybody who may send to a queue
    /// may send such events, so the queue has to be bound.
    pub fn may_retry(&self, case: &Case) -> bool {
        let Open { target, .. } = case.of;
        let is_bound = !case.is_undelivered() || self.plan.handler_of(target).binds_queues;
        is_bound && self.plan.targets[target].is_allowed()
    }

    /// The original bytes. An envelope around an event that was never delivered is part of the event.
    pub fn original(&self, case: &Case) -> Cow<'_, str> {
        let payload = self.payload(case.of.event);
        match self.events[case.of.event].foreign().filter(|_| case.is_undelivered()) {
            Some(foreign) => envelope(&foreign.metadata(), &payload).into(),
            None => payload,
        }
    }

    /// What the target of a failure must be given at its next attempt.
    pub fn retry_of(&self, case: &Case, attempt: u32) -> Outgoing {
        if case.is_undelivered() {
            return Outgoing { body: (*self.original(case)).into(), ..Outgoing::default() };
        }
        let initial = (!case.is_transparent).then(|| case.first.div_euclid(1000));
        self.expected(&case.of, attempt, initial)
    }

    /// The run in which a target gets an event for the first time, as if its client had sent it.
    pub fn first_run(&self, case: usize, request_id: &str, trace: &str) -> Open {
        let Open { event, target, .. } = self.cases[case].of;
        let foreign = self.events[event].foreign();
        Open {
            event,
            target,
            attempt: foreign.map_or(0, |foreign| foreign.attempt),
            initial: foreign.and_then(|Foreign { initial, .. }| NonZero::new(*initial)),
            first_request: request_id.into(),
            is_foreign: foreign.is_some(),
            is_unwrapped: false,
            trace: trace.into(),
        }
    }

    /// Whether the message of this case is about an event that was never delivered.
    pub fn is_undelivered(&self, case: usize) -> bool {
        self.cases[case].is_undelivered()
    }
}
