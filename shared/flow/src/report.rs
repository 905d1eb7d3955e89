//! The outcomes of a batch's messages, and the response to Lambda.

use std::time::Duration;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse};
use comeback_core::reason::Reason;

use crate::ports::CallFault;

#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One entry for each message, in order.
    pub entries: Vec<Entry>,
    /// One report for each target whose circuit was read.
    pub targets: Vec<TargetReport>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetReport {
    pub target: String,
    pub is_open: bool,
    pub probes: u32,
    pub brought_forward: u32,
}

/// The outcome of one message, and the facts that metrics need.
#[derive(Clone, Debug)]
pub struct Entry {
    pub message_id: String,
    pub target: Option<String>,
    /// The time since the event's first failure.
    pub age: Option<Duration>,
    pub outcome: Outcome,
    pub obstacle: Option<Obstacle>,
}

/// Whether a message is done, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Lambda has accepted its invocation, or its queue the message that was sent back.
    Invoked {
        /// The time from the due time to the call.
        lateness: Duration,
        /// The request id of the run, if Lambda's answer names it.
        run: Option<String>,
    },
    DeadLettered(Reason),
    /// Its failure was already acted on, after another delivery.
    Duplicate,
    /// It was S3's test whether it may send to the queue.
    Tested,
    /// It was about a function that has succeeded.
    Succeeded,
    /// It was S3's notice of several objects, or of a batch that is too large for one invocation. One notice for each
    /// object or part was sent instead.
    Split,
    /// It was put back until the event's wait ends.
    Waits {
        delay: Duration,
    },
    /// It was sent again, to be received after a delay.
    Delayed {
        /// How long the event waits, which may be several delays.
        delay: Duration,
    },
    /// It could not be put back: the queue's own visibility timeout brings it back.
    LeftToQueue(CallFault),
    /// Its dead letter could not be sent: the queue's own visibility timeout brings it back, and a person has to
    /// fix the cause.
    DeadLetterNotSent {
        reason: Reason,
        queue_url: String,
        fault: CallFault,
    },
    /// The handler ran out of time before there was an answer: the queue's own visibility timeout brings it back.
    NotReached,
}

/// What prevented an invocation, or a claim or item in the ledger.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// Lambda, its queue or its bucket did not serve it now, because of a transient fault.
    Throttled,
    /// Lambda, its queue or its bucket will not serve it until a person fixes the cause.
    Configuration,
    Ledger,
}

impl Report {
    /// The response to Lambda, which names the messages that stay in the queue.
    pub fn response(&self) -> SqsBatchResponse {
        let stays = |entry: &&Entry| match entry.outcome {
            Outcome::Waits { .. }
            | Outcome::LeftToQueue(_)
            | Outcome::DeadLetterNotSent { .. }
            | Outcome::NotReached => true,
            Outcome::Invoked { .. }
            | Outcome::DeadLettered(_)
            | Outcome::Duplicate
            | Outcome::Tested
            | Outcome::Succeeded
            | Outcome::Split
            | Outcome::Delayed { .. } => false,
        };
        let mut response = SqsBatchResponse::default();
        response.batch_item_failures = self
            .entries
            .iter()
            .filter(stays)
            .map(|entry| {
                let mut failure = BatchItemFailure::default();
                failure.item_identifier.clone_from(&entry.message_id);
                failure
            })
            .collect();
        response
    }
}
