//! A failed invocation: what identifies it, and when its event failed first.
//!
//! [`record`](crate::record) reads it from a message. [`retry`] is what its next attempt sends, and [`carried`] what it
//! takes along when its message is sent again to wait.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::{
    Timestamp,
    batch::Part,
    envelope::{Envelope, RetryMetadata},
    error_type::ErrorReport,
    key::Key,
    queued::Queued,
    target::Target,
};

mod carried;
mod retry;

/// One failed invocation, whatever form its message has.
#[derive(Clone, Debug)]
pub struct Failure<'a> {
    /// The function that failed, by the ARN in its record, or the queue whose consumer failed.
    pub target: Target,
    /// The request id of the failed invocation. A redriven event has that of its first invocation, and a queue's
    /// message has its message id.
    pub request_id: String,
    /// When it failed; of a redriven event, when it was moved back.
    pub failed_at: Timestamp,
    /// Why the event is in the retry queue.
    pub condition: Condition,
    pub error: ErrorReport,
    /// The payload to retry; `None` if the record has none.
    pub event: Option<Event<'a>>,
    /// Whether the function is retried without an envelope, so that the ledger may know of which event this run is.
    pub is_transparent: bool,
    /// The ARN of the rule or the schedule that could not deliver the event. The target has never run: once it accepts
    /// the event, a failure of it is another one.
    pub undelivered_by: Option<String>,
    pub wrapping: Wrapping<'a>,
}

/// Whether the payload was in an envelope, as far as that is known.
#[derive(Clone, Debug, Default)]
pub enum Wrapping<'a> {
    /// It was if it looks like it.
    #[default]
    AsItLooks,
    /// It is the function's own, even if it looks like an envelope: its note was found, or its dead letter says so.
    Own,
    /// It looks like an envelope although the function is retried without. The ledger may know that the whole payload,
    /// which is this, is the function's own.
    Unknown(Cow<'a, RawValue>),
    /// Only some records of a batch are to be retried, by the function's own answer. Its run may be a retry without an
    /// envelope, and the ledger knows that by the whole payload, which is this.
    Cut(Cow<'a, RawValue>),
}

/// The payload of a failed invocation, taken out of its envelope.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The failed invocation was Lambda's own.
    Fresh(Cow<'a, RawValue>),
    /// The failed invocation was one of our re-invocations.
    Retried(Envelope<'a>),
    /// A queue's consumer failed to process this message, or it could not be delivered to the queue.
    Queued(Queued<'a>),
    /// Only this part of the payload was kept by the service that could not deliver it.
    Truncated(&'a str),
    /// The payload is larger than that of any invocation. It stays in its bucket, because it would fill the memory.
    TooLarge,
    /// The payload is a batch that is too large for one invocation. It stays in its bucket, and each of these parts is
    /// an event of its own.
    InParts(Vec<Part>),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Condition {
    /// Lambda's own retries are used up, or the event grew too old in Lambda's own queue. Lambda may add conditions,
    /// which are read as this one.
    Failed,
    /// The target is paused: its reserved concurrency is 0, so it did not run at all.
    Paused,
    /// Lambda's recursive-loop detection stopped the target.
    RecursionStopped,
    /// An event source mapping has given up a batch of a stream, for which it has invoked the function itself.
    OfBatch,
    /// An operator moved the event's dead letter back, so the event starts over. SQS gave the moved message a new id,
    /// which distinguishes this round of attempts from the failure that ended the last one.
    Redriven {
        /// SQS's id of the moved message.
        message_id: String,
    },
}

impl Condition {
    /// What a failure record says of a paused target.
    pub const PAUSED: &'static str = "ZeroReservedConcurrency";
}

impl Wrapping<'_> {
    /// The same without the payload.
    pub(crate) fn without_payload<'b>(self) -> Wrapping<'b> {
        match self {
            Self::Own => Wrapping::Own,
            Self::AsItLooks | Self::Unknown(_) | Self::Cut(_) => Wrapping::AsItLooks,
        }
    }
}

impl Event<'_> {
    /// The original payload, with which the target was first invoked.
    pub fn payload(&self) -> &str {
        match self {
            Self::Fresh(payload) => payload.get(),
            Self::Retried(envelope) => envelope.payload.get(),
            Self::Queued(queued) => &queued.body,
            Self::Truncated(part) => part,
            Self::TooLarge | Self::InParts(_) => "",
        }
    }
}

impl Failure<'_> {
    /// The metadata of the re-invocation that failed, if it was one.
    pub fn retried(&self) -> Option<&RetryMetadata> {
        match &self.event {
            Some(Event::Retried(envelope)) => Some(&envelope.metadata),
            Some(Event::Queued(queued)) => queued.retried.as_ref(),
            Some(Event::Fresh(_) | Event::Truncated(_) | Event::TooLarge | Event::InParts(_))
            | None => None,
        }
    }

    /// The message for the queue, if the target is one.
    pub(crate) fn queued(&self) -> Option<&Queued<'_>> {
        match &self.event {
            Some(Event::Queued(queued)) => Some(queued),
            Some(
                Event::Fresh(_)
                | Event::Retried(_)
                | Event::Truncated(_)
                | Event::TooLarge
                | Event::InParts(_),
            )
            | None => None,
        }
    }

    /// When SQS began to count the time for which it keeps the message. A move doesn't begin it anew, and the message
    /// may have been in its source queue for days.
    pub(crate) fn kept_since(&self) -> Timestamp {
        let enqueued_at = self.queued().and_then(|queued| queued.enqueued_at);
        enqueued_at.map_or(self.failed_at, |at| at.min(self.failed_at))
    }

    /// When the event failed for the first time. A timestamp that is out of range, or later than this failure, was
    /// written by another program in another unit. The event's age then begins with this failure.
    pub fn first_failure(&self) -> Timestamp {
        self.retried()
            .and_then(RetryMetadata::first_failure)
            .map_or(self.failed_at, |first| first.min(self.failed_at))
    }

    /// The request id of the first failed invocation: the event's id in all its attempts.
    pub fn first_request_id(&self) -> Option<&str> {
        match self.retried() {
            Some(retried) => retried.request_id.as_deref(),
            None => Some(&self.request_id),
        }
    }

    /// The key under which the ledger may know that this was a retry without an envelope, or `None` if it can't be one.
    pub fn noted_key(&self) -> Option<Key> {
        let payload = match (&self.wrapping, &self.event) {
            (Wrapping::Unknown(whole) | Wrapping::Cut(whole), _) => whole.get(),
            (_, Some(Event::Fresh(payload))) => payload.get(),
            (
                _,
                Some(
                    Event::Retried(_)
                    | Event::Queued(_)
                    | Event::Truncated(_)
                    | Event::TooLarge
                    | Event::InParts(_),
                )
                | None,
            ) => return None,
        };
        let is_first = self.is_redriven() || self.condition == Condition::OfBatch;
        let may_be_retry = self.is_transparent && !is_first;
        may_be_retry.then(|| Key::of(&self.target, payload, &self.request_id))
    }

    /// Takes the failed run for the retry with this metadata, which had no envelope.
    pub(crate) fn continues(&mut self, metadata: RetryMetadata) {
        let (payload, wrapping) = match (std::mem::take(&mut self.wrapping), self.event.take()) {
            (Wrapping::Unknown(whole), _) => (whole, Wrapping::Own),
            (cut @ Wrapping::Cut(_), Some(Event::Fresh(payload))) => (payload, cut),
            (_, Some(Event::Fresh(payload))) => (payload, Wrapping::Own),
            (wrapping, event) => return (self.wrapping, self.event) = (wrapping, event),
        };
        self.event = Some(Event::Retried(Envelope { metadata, payload }));
        self.wrapping = wrapping;
    }

    /// The key under which this failure is claimed. A second delivery of the same failure has the same key.
    pub fn key(&self) -> Key {
        let id = match &self.condition {
            Condition::Redriven { message_id } => message_id,
            Condition::Failed
            | Condition::Paused
            | Condition::RecursionStopped
            | Condition::OfBatch => &self.request_id,
        };
        Key::of(&self.target, self.event.as_ref().map_or("", Event::payload), id)
    }

    pub(crate) fn is_redriven(&self) -> bool {
        matches!(self.condition, Condition::Redriven { .. })
    }

    /// Whether the event was never delivered to its target.
    pub fn is_undelivered(&self) -> bool {
        self.undelivered_by.is_some()
    }

    /// Whether the message is the one with which EventBridge said so.
    pub(crate) fn is_of_eventbridge(&self) -> bool {
        self.is_undelivered() && !self.is_redriven()
    }

    /// Whether a function is invoked with its payload alone. What it makes of an event that it never got is no retry.
    pub fn is_sent_bare(&self) -> bool {
        self.is_transparent || self.is_undelivered()
    }

    /// Whether a queue's consumer has failed, so that the message is the consumer's and says nothing of ours.
    pub(crate) fn is_of_consumer(&self) -> bool {
        self.target.is_queue() && self.condition == Condition::Failed && !self.is_undelivered()
    }

    /// How many attempts were made so far. An attempt that was rejected because the target is paused does not count.
    pub fn attempts_made(&self) -> u32 {
        let ordinal = self.retried().map_or(0, |retried| retried.attempt.get());
        match self.condition {
            Condition::Paused => ordinal.saturating_sub(1),
            Condition::Failed
            | Condition::RecursionStopped
            | Condition::OfBatch
            | Condition::Redriven { .. } => ordinal,
        }
    }
}
