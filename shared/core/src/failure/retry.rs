//! What the next attempt sends: an envelope to a function, or a queue's message back to its queue.

use std::borrow::Cow;

use super::{Event, Failure};
use crate::{
    Attempt,
    attribute::Attribute,
    envelope::{Envelope, INVOCATION_MAX, RetryMetadata},
    reason::Reason,
};

impl Failure<'_> {
    fn metadata(&self, attempt: Attempt) -> RetryMetadata {
        match self.retried() {
            Some(retried) => retried.next(attempt, self.first_failure()),
            None => RetryMetadata::first(self.failed_at, &self.request_id),
        }
    }

    /// The envelope with which a function is invoked for this attempt, or `None` if there is no payload to retry.
    pub fn envelope(&self, attempt: Attempt) -> Option<Envelope<'_>> {
        let payload = match self.event.as_ref()? {
            Event::Fresh(payload) | Event::Retried(Envelope { payload, .. }) => payload,
            Event::Queued(_) | Event::Truncated(_) | Event::TooLarge | Event::InParts(_) => {
                return None;
            }
        };
        Some(Envelope { metadata: self.metadata(attempt), payload: Cow::Borrowed(payload) })
    }

    /// The attributes with which a message is sent to its queue for this attempt. One that is redriven, or that was
    /// never delivered, is what its producer sent: the consumer's next failure is the first one.
    pub fn attributes(&self, attempt: Attempt) -> Option<Vec<Attribute<'_>>> {
        Some(self.queued()?.with(self.sent_metadata(attempt).as_ref()))
    }

    fn sent_metadata(&self, attempt: Attempt) -> Option<RetryMetadata> {
        let metadata = (!self.is_redriven()).then(|| self.metadata(attempt));
        metadata.filter(|_| !self.is_undelivered())
    }

    /// Whether Lambda or SQS accepts the retry, of a function with or without an envelope.
    pub(crate) fn check(&self, attempt: Attempt) -> Result<(), Reason> {
        let fits = |envelope: Envelope<'_>| match self.is_sent_bare() {
            true => envelope.payload.get().len() <= INVOCATION_MAX,
            false => envelope.fits(),
        };
        match self.queued() {
            Some(queued) => queued.check(self.sent_metadata(attempt).as_ref()),
            None if matches!(self.event, Some(Event::TooLarge)) => Err(Reason::PayloadTooLarge),
            None if self.envelope(attempt).is_some_and(|it| !fits(it)) => {
                Err(Reason::PayloadTooLarge)
            }
            None => Ok(()),
        }
    }
}
