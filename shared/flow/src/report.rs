//! What became of the messages of a batch, and what Lambda is told of it.

use std::time::Duration;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse};
use comeback_core::reason::Reason;

use crate::ports::CallFault;

/// What became of a whole batch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One for each message, in their order.
    pub entries: Vec<Entry>,
    /// One for each target whose circuit was read.
    pub targets: Vec<TargetReport>,
}

/// What the circuit of a target did in a batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetReport {
    /// The name of the function.
    pub target: String,
    /// Whether it is down.
    pub is_open: bool,
    /// How many probes were made.
    pub probes: u32,
    /// How many events were brought forward.
    pub brought_forward: u32,
}

/// What became of one message.
#[derive(Clone, Debug)]
pub struct Entry {
    /// SQS's id of the message.
    pub message_id: String,
    /// The name of the function that it is about, where that is known.
    pub target: Option<String>,
    /// How long ago its event failed for the first time.
    pub age: Option<Duration>,
    /// What became of it.
    pub outcome: Outcome,
    /// What kept its invocation from being accepted.
    pub obstacle: Option<Obstacle>,
}

/// Whether a message is done, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Lambda has accepted its invocation.
    Invoked {
        /// From due time to the call.
        lateness: Duration,
    },
    /// The dead-letter queue has it.
    DeadLettered(Reason),
    /// Its failure was already acted on, after another delivery.
    Duplicate,
    /// It was put back until its time comes.
    Waits {
        /// How long that is.
        delay: Duration,
    },
    /// It was sent again, to be received after a delay.
    Delayed {
        /// How long it is until its time comes.
        delay: Duration,
    },
    /// It could not be put back: the queue's own visibility timeout brings it back.
    LeftToQueue(CallFault),
    /// Its dead letter could not be sent: the queue's own visibility timeout brings it back, and a person has to
    /// fix the cause.
    DeadLetterNotSent {
        /// The reason of the dead letter.
        reason: Reason,
        /// The dead-letter queue.
        queue_url: String,
        /// What SQS answered.
        fault: CallFault,
    },
    /// The handler ran out of time before there was an answer: it comes back likewise.
    NotReached,
}

/// What kept an invocation from being accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// It will pass by itself.
    Throttled,
    /// A person has to fix it.
    Configuration,
    /// A call to the ledger failed.
    Ledger,
}

impl Report {
    /// What Lambda is told: which messages stay in the queue.
    pub fn response(&self) -> SqsBatchResponse {
        let stays = |entry: &&Entry| match entry.outcome {
            Outcome::Waits { .. }
            | Outcome::LeftToQueue(_)
            | Outcome::DeadLetterNotSent { .. }
            | Outcome::NotReached => true,
            Outcome::Invoked { .. }
            | Outcome::DeadLettered(_)
            | Outcome::Duplicate
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
