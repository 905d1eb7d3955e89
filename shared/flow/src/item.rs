//! One message on its way through a batch.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Timestamp,
    arn::Home,
    claim::Claim,
    dead_letter::{DeadLetter, Reason},
    decision::{Judgement, decide},
    record::{Failure, Message},
    settings::Settings,
    time::between,
};

use crate::{
    log,
    message::{source_url, trace_header, view},
    ports::CallFault,
    report::{Entry, Obstacle, Outcome},
};

/// A message, what was decided, and what has become of it so far. The calls of a batch run side by
/// side and note here how they ended: one that is cut off has noted nothing, which is the truth.
pub(crate) struct Item<'e> {
    record: &'e SqsMessage,
    /// Its place in the batch.
    pub(crate) nth: usize,
    pub(crate) message: Message<'e>,
    pub(crate) judgement: Judgement,
    judged_at: Timestamp,
    queue_url: Option<String>,
    claim: RefCell<Option<Claim>>,
    outcome: Cell<Outcome>,
    obstacle: Cell<Option<Obstacle>>,
}

impl<'e> Item<'e> {
    pub(crate) fn judge(
        (nth, record): (usize, &'e SqsMessage),
        home: &Home,
        settings: &Settings,
        now: Timestamp,
    ) -> Self {
        let message = view(record);
        Self {
            record,
            nth,
            message,
            judgement: decide(&message, home, settings, now),
            judged_at: now,
            queue_url: settings.retry_queue_url.clone().or_else(|| source_url(record)),
            claim: RefCell::new(None),
            outcome: Cell::new(Outcome::NotReached),
            obstacle: Cell::new(None),
        }
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.judgement.failure.as_ref().ok()
    }

    /// How long before its judgement the event failed for the first time.
    pub(crate) fn age(&self) -> Option<Duration> {
        Some(between(self.failure()?.first_failure(), self.judged_at))
    }

    /// Its queue; `None` where neither the record nor the settings name it.
    pub(crate) fn queue_url(&self) -> Option<&str> {
        self.queue_url.as_deref()
    }

    pub(crate) fn receipt_handle(&self) -> &'e str {
        self.record.receipt_handle.as_deref().unwrap_or_default()
    }

    pub(crate) fn trace_header(&self) -> Option<&'e str> {
        trace_header(self.record)
    }

    pub(crate) fn dead_letter(&self, reason: Reason) -> DeadLetter {
        match &self.judgement.failure {
            Ok(failure) => DeadLetter::of(failure, &self.message, reason),
            Err(why) => DeadLetter::unreadable(&self.message, &why.to_string()),
        }
    }

    /// Notes the claim that is written for this item's failure, and is still to be marked or released.
    pub(crate) fn hold(&self, claim: Claim) {
        self.claim.replace(Some(claim));
    }

    /// That claim.
    pub(crate) fn held(&self) -> Option<Claim> {
        self.claim.borrow().clone()
    }

    /// Forgets that claim, after its last write or because it was not written.
    pub(crate) fn let_go(&self) {
        self.claim.take();
    }

    /// Whether it was acted on, and its claim says nothing of it.
    pub(crate) fn is_unmarked(&self) -> bool {
        let acted = match self.outcome.get() {
            Outcome::Invoked { .. } | Outcome::DeadLettered(_) => true,
            Outcome::Duplicate
            | Outcome::Waits
            | Outcome::LeftToQueue
            | Outcome::DeadLetterNotSent
            | Outcome::NotReached => false,
        };
        acted && self.claim.borrow().is_some()
    }

    pub(crate) fn became(&self, outcome: Outcome) {
        self.outcome.set(outcome);
    }

    /// The call that was to carry out this decision failed.
    pub(crate) fn left_to_queue(&self, decision: &'static str, fault: &CallFault) {
        self.became(Outcome::LeftToQueue);
        log::left_to_queue(self, decision, fault);
    }

    /// Notes what is in its way; what came first is the cause.
    pub(crate) fn met(&self, obstacle: Obstacle) {
        self.obstacle.set(self.obstacle.get().or(Some(obstacle)));
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.outcome.get() != Outcome::NotReached
    }

    pub(crate) fn report(&self) -> Entry {
        Entry {
            message_id: self.message.id.to_owned(),
            target: self.failure().map(|failure| failure.target.name().to_owned()),
            age: self.age(),
            outcome: self.outcome.get(),
            obstacle: self.obstacle.get(),
        }
    }
}
