//! One message on its way through a batch.

use std::{
    cell::{Cell, OnceCell, RefCell},
    time::Duration,
};

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Timestamp,
    arn::Home,
    claim::{Claim, Order},
    decision::{Decision, Judgement, decide},
    in_flight::is_backlog,
    record::Failure,
    register::steered,
    settings::Settings,
    time::between,
};

use crate::{
    message::{Source, again, trace_header, view},
    ports::{Delayed, Entered},
    report::{Entry, Obstacle, Outcome},
};

/// A message, the decision, and what has become of it so far. The calls of a batch run concurrently and note
/// here how they ended. A call that is cut off notes nothing: the message was not reached.
pub(crate) struct Item<'e> {
    record: &'e SqsMessage,
    /// Its place in the batch.
    pub(crate) nth: usize,
    pub(crate) judgement: Judgement<'e>,
    judged_at: Timestamp,
    /// What is done with it, after an operator's orders.
    decision: Cell<Decision>,
    source: Option<Source<'e>>,
    entered: RefCell<Option<Entered>>,
    claim: RefCell<Option<Claim>>,
    outcome: OnceCell<Outcome>,
    obstacle: Cell<Option<Obstacle>>,
}

impl<'e> Item<'e> {
    pub(crate) fn judge(
        (nth, record): (usize, &'e SqsMessage),
        home: &Home,
        settings: &'e Settings,
        now: Timestamp,
    ) -> Self {
        let judgement = decide(view(record), home, &settings.rules, now);
        Self {
            record,
            nth,
            decision: Cell::new(judgement.decision),
            judgement,
            judged_at: now,
            source: Source::of(record, settings.retry_queue_url.as_deref()),
            entered: RefCell::new(None),
            claim: RefCell::new(None),
            outcome: OnceCell::new(),
            obstacle: Cell::new(None),
        }
    }

    pub(crate) fn failure(&self) -> Option<&Failure<'e>> {
        self.judgement.failure.as_ref().ok()
    }

    /// What is done with it.
    pub(crate) fn decision(&self) -> Decision {
        let request_id = self.failure().map_or("", |failure| &failure.request_id);
        steered(self.decision.get(), self.order(), false, request_id, self.judged_at)
    }

    /// What an operator wants done with it. Once it is claimed, the order in its claim counts, because the operator may
    /// have changed it since it was read.
    pub(crate) fn order(&self) -> Option<Order> {
        let held = self.held();
        let found = || self.entered().map(|entered| entered.claim);
        let claim = held.or_else(|| found().filter(|claim| !claim.is_expired(self.judged_at)));
        claim.and_then(|claim| claim.order)
    }

    /// Changes what is done with it.
    pub(crate) fn decide(&self, decision: Decision) {
        self.decision.set(decision);
    }

    /// Whether its message was received before, or was sent again.
    pub(crate) fn came_back(&self) -> bool {
        self.judgement.message.came_back()
    }

    /// How long before the decision the event failed for the first time.
    pub(crate) fn age(&self) -> Option<Duration> {
        Some(between(self.failure()?.first_failure(), self.judged_at))
    }

    /// Its queue. `None` if neither the record nor the settings name it.
    pub(crate) fn source(&self) -> Option<Source<'e>> {
        self.source
    }

    pub(crate) fn receipt_handle(&self) -> &'e str {
        self.record.receipt_handle.as_deref().unwrap_or_default()
    }

    /// Its message, to be sent again with this delay, if it is about a failure.
    pub(crate) fn again(&self, delay: u32) -> Option<Delayed<'e>> {
        Some(again(self.record, &self.judgement.message, self.failure()?, delay))
    }

    /// Whether it had to wait for its first receive.
    pub(crate) fn is_backlog(&self) -> bool {
        is_backlog(&self.judgement.message, self.judged_at)
    }

    pub(crate) fn trace_header(&self) -> Option<&'e str> {
        trace_header(self.record)
    }

    /// Notes its item in the register, or in the ledger.
    pub(crate) fn find(&self, entered: Entered) {
        self.entered.replace(Some(entered));
    }

    /// That item.
    pub(crate) fn entered(&self) -> Option<Entered> {
        self.entered.borrow().clone()
    }

    /// Notes the claim that is being written for this item, and is still to be marked or released.
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

    /// Whether it was acted on and its claim is not marked.
    pub(crate) fn is_unmarked(&self) -> bool {
        let acted =
            matches!(self.outcome.get(), Some(Outcome::Invoked { .. } | Outcome::DeadLettered(_)));
        acted && self.claim.borrow().is_some()
    }

    /// Notes what became of it.
    pub(crate) fn end(&self, outcome: Outcome) {
        let is_first = self.outcome.set(outcome).is_ok();
        debug_assert!(is_first, "a message ended twice: {:?}", self.outcome);
    }

    /// Whether it is known what became of it.
    pub(crate) fn has_ended(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Whether Lambda has accepted its invocation.
    pub(crate) fn was_invoked(&self) -> bool {
        matches!(self.outcome.get(), Some(Outcome::Invoked { .. }))
    }

    /// Notes what is in its way; the first obstacle is the cause of the others.
    pub(crate) fn met(&self, obstacle: Obstacle) {
        self.obstacle.set(self.obstacle.get().or(Some(obstacle)));
    }

    /// Whether a call to the ledger failed for it.
    pub(crate) fn lacks_ledger(&self) -> bool {
        self.obstacle.get() == Some(Obstacle::Ledger)
    }

    pub(crate) fn into_entry(self) -> Entry {
        Entry {
            target: self.failure().map(|failure| failure.target.name().to_owned()),
            age: self.age(),
            obstacle: self.obstacle.get(),
            message_id: self.judgement.message.id.to_owned(),
            outcome: self.outcome.into_inner().unwrap_or(Outcome::NotReached),
        }
    }
}
