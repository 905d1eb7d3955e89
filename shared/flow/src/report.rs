//! What became of the messages of a batch, and what Lambda is told of it.

use std::time::Duration;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse};
use comeback_core::dead_letter::Reason;

/// What became of a whole batch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One for each message, in their order.
    pub entries: Vec<Entry>,
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Lambda has accepted its invocation.
    Invoked {
        /// From due time to the call.
        lateness: Duration,
    },
    /// The dead-letter queue has it.
    DeadLettered(Reason),
    /// Its failure was acted on already, when another delivery told of it.
    Duplicate,
    /// It was put back until its time comes.
    Waits,
    /// A call failed: the queue's own visibility timeout brings it back.
    LeftToQueue,
    /// Its dead letter could not be sent: it comes back likewise, and so does the same fault until somebody
    /// mends it.
    DeadLetterNotSent,
    /// The time was up before there was an answer: it comes back likewise.
    NotReached,
}

/// What kept an invocation from being accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// It will pass by itself.
    Throttled,
    /// A person has to mend it.
    Configuration,
    /// A call to the ledger failed.
    Ledger,
}

impl Report {
    /// What Lambda is told: which messages stay in the queue.
    pub fn response(&self) -> SqsBatchResponse {
        let stays = |entry: &&Entry| match entry.outcome {
            Outcome::Waits
            | Outcome::LeftToQueue
            | Outcome::DeadLetterNotSent
            | Outcome::NotReached => true,
            Outcome::Invoked { .. } | Outcome::DeadLettered(_) | Outcome::Duplicate => false,
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
