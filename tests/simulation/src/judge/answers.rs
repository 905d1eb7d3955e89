//! What becomes of the calls of handlers, and what handlers are told.

use std::{rc::Rc, sync::Arc};

use comeback_core::{
    Timestamp,
    claim::Order,
    dead_letter::DeadLetter,
    fault::FaultKind,
    lineage::{Call, Key},
};
use wire::{Answer, Found, Write};

use super::{
    Judge, REASONS, Subject,
    happens::Happens,
    known::{Recall, Says, is_claim},
    promises::attribute,
};
use crate::seen::Seen;

impl Judge {
    /// Lambda has accepted a handler's invocation, or a queue its message.
    pub fn reinvoked(&mut self, of: Subject, request_id: &Arc<str>, trace: &str) {
        self.acted(of, "invoked");
        let Some(target) = self.known.reinvoked(of, request_id, trace) else { return };
        let is_retry = !self.known.cases[of.case].is_undelivered();
        if is_retry && self.known.plan.handler_of(target).probes {
            let plan = Rc::clone(&self.known.plan);
            self.shows(None, Happens::Retried(&plan.targets[target].name, request_id));
        }
    }

    /// A dead-letter queue has accepted a dead letter.
    pub fn given_up(&mut self, of: Subject, letter: &DeadLetter) {
        let stated = attribute(letter, "Reason");
        let known = REASONS.into_iter().find(|known| stated == Some(known));
        let reason = known.unwrap_or("no reason");
        self.acted(of, reason);
        self.known.given_up(of, reason);
        self.shows(None, Happens::GivenUp);
    }

    fn acted(&mut self, of: Subject, how: &'static str) {
        if self.known.acted(of, how) {
            self.shows(None, Happens::MayRepeat(of.case));
        }
        self.shows_of(of.case, Happens::Acts(of, how));
    }

    /// A dead letter without its payload was sent. This is the record to which it points.
    pub fn has_pointed(&mut self, of: Subject, record: &[u8]) {
        self.known.tally.count(Seen::Step("letters that point to their payload"));
        self.shows_of(of.case, Happens::Points(of.case, record));
    }

    /// A queue has accepted a message that was sent again.
    pub fn sent_again(&mut self, of: Subject) {
        if let Some(nth) = of.part {
            let copied = self.known.has_part(of, nth);
            copied.into_iter().for_each(|case| self.copied(case));
        } else if self.known.sent_again(of) {
            self.stays_beside_its_copy(of.case);
        }
    }

    /// A handler received the answer to a message that it sent again.
    pub fn told_of_copy(&mut self, of: Subject, answer: &Answer) {
        if let Some(nth) = of.part {
            if self.known.told_of_part(of, nth, answer) {
                self.shows(None, Happens::MayRepeat(of.case));
            }
        } else if self.known.told_of_copy(of, answer) {
            self.stays_beside_its_copy(of.case);
        }
    }

    /// A message that was sent again stays in the queue, so there are two about one failure.
    pub fn stays_beside_its_copy(&mut self, case: usize) {
        self.known.tally.count(Seen::Step("copies of delays"));
        self.copied(case);
    }

    /// A handler received the answer to an invocation or to a dead letter.
    pub fn told(&mut self, of: Subject, found: &Found, answer: &Answer) {
        self.known.told_of_request(of, found);
        if let Some(call) = of.call
            && !matches!(found, Found::Accepted { .. } | Found::Unanswered(_))
        {
            self.shows(None, Happens::ToldOfCall(call, is_refused(answer)));
        }
        self.shows(None, Happens::Told(of));
        if self.known.told(of, answer) {
            self.shows(None, Happens::MayRepeat(of.case));
        }
    }

    /// A handler received the answer to a write to the ledger.
    pub fn told_of_claim(&mut self, of: Subject, write: &Write, answer: &Answer) {
        if answer.as_ref().is_err_and(|refusal| refusal.found.is_some()) {
            self.shows(None, Happens::WritesInVain(of));
        }
        self.known.told_of_claim(of, write, answer);
    }

    /// The ledger has taken a write about the run of this subject. These calls are in its item now, and there were so
    /// many `before`.
    pub fn has_written(
        &mut self,
        write: &Write,
        of: Option<Subject>,
        before: usize,
        calls: &[Call],
    ) {
        self.known.has_written(write, of, before);
        if let Some(call) = of.and_then(|of| of.call).filter(|_| !is_claim(write)) {
            let event = self.known.calls.sent(call).of.event;
            self.shows(event, Happens::Leaves(call, calls));
        }
    }

    /// The failure of a run has taken this call.
    pub fn has_taken(&mut self, call: &Call, taker: &str) {
        let taken = self.known.calls.named(&call.name);
        let event = taken.map(|taken| self.known.calls.sent(taken).of.event);
        self.shows(event, Happens::Takes(taker, call));
        self.known.has_taken(call, taker);
    }

    /// A handler has learned what the ledger has about the runs of its batch.
    pub fn told_of_runs(&mut self, run: u64, answer: &Answer, found: &Found) {
        self.known.is_answered();
        for place in 0..self.known.batch(run).len() {
            let says = self.known.said(run, place, answer, found);
            says.into_iter().for_each(|says| self.hears(run, place, says));
        }
    }

    /// A handler has learned what the ledger has about all runs with the payload of this one.
    pub fn told_of_siblings(
        &mut self,
        of: Subject,
        clock: Timestamp,
        answer: &Answer,
        found: &Found,
    ) {
        self.known.is_answered();
        let says = self.known.said_by_siblings(of, clock, answer, found);
        says.into_iter().for_each(|says| self.hears(of.run, of.place, says));
    }

    /// A handler has learned whether it has taken a call for the failure of its run.
    pub fn told_of_taking(
        &mut self,
        of: Subject,
        clock: Timestamp,
        answer: &Answer,
        is_taken: bool,
    ) {
        self.known.is_answered();
        let says = self.known.said_by_taking(of, clock, answer, is_taken);
        self.hears(of.run, of.place, says);
    }

    /// A handler knows for which run it has to take a failure, if the ledger says that.
    fn hears(&mut self, run: u64, place: usize, says: Says) {
        let case = self.known.batch(run)[place].case;
        let event = self.known.cases[case].truth().event;
        let recall = match says {
            Says::Retry(said) => {
                self.shows(event, Happens::Learns(case, &said));
                self.known.learns(case, &said);
                Recall::Known
            }
            Says::First { is_cut } => {
                let root = self.known.root(run, place).map(str::to_owned);
                self.shows(event, Happens::TakesForFirst(case, root.as_deref(), is_cut));
                self.known.begins(case);
                Recall::Known
            }
            Says::Nothing(recall) => recall,
        };
        self.known.recalled(run, place, recall);
    }

    /// An operator's order for a failure was written, in an item that is kept until this time.
    pub fn ordered(&mut self, key: &Key, order: Order, until: Timestamp) {
        if let Some(case) = self.known.ordered(key, order, until) {
            self.shows_of(case, Happens::Ordered(case));
        }
    }

    /// The order for a failure is kept until this time, or has ended.
    pub fn order_lasts(&mut self, trace: &str, until: Option<Timestamp>) {
        let case = self.known.order_lasts(trace, until);
        if let Some(case) = case.filter(|_| until.is_none()) {
            self.shows_of(case, Happens::OrderEnds(case));
        }
    }
}

/// Whether Lambda has said that it did not accept an invocation.
fn is_refused(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|refusal| {
        let needs_a_person =
            matches!(refusal.kind, Some(FaultKind::Refused(_) | FaultKind::Configuration));
        needs_a_person || refusal.status == Some(429)
    })
}
