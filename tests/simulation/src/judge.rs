//! The judge of a world: it watches from outside, knows every event, and states the rules a second time.
//!
//! An *event* is what a client has sent. Each time an invocation of it fails for good and Lambda sends that to a retry
//! queue, there is a *case*. The judge reaches its own verdict on it: the next attempt and the range of its due time,
//! or the only right reason to give it up. It compares what handlers then do with that. A case may be acted on once:
//! re-invoked or dead-lettered. Every further act needs a cause: an injected fault that nobody can undo, such as a
//! handler that died between Lambda's answer and its own.
//!
//! What happens is recorded in `known`, which judges nothing. And it is shown to the promises, mostly before it is
//! recorded, so that they see what the handler knew. They read `known`, and change only a state of their own.

mod answers;
mod calls;
mod circuits;
mod figures;
mod happens;
mod known;
mod promises;

use std::{rc::Rc, sync::Arc, time::Duration};

use aws_lambda_events::event::sqs::SqsEvent;
use comeback_core::{error_type::ErrorReport, lineage::Key};
use comeback_flow::report::Report;

pub use self::{
    figures::{Backlog, Figures},
    happens::{Happens, Move},
    known::{
        Arns, Event, Known, NOTHING, Open, Place, REASONS, Stranger, Subject, Undelivered, named,
        receive_count, trace_of, was_moved,
    },
    promises::{Check, Violation},
};
use self::{known::Condition, promises::Promises};
use crate::plan::Plan;

#[derive(Default)]
pub struct Judge {
    pub known: Known,
    /// The first rule that did not hold.
    pub violation: Option<Violation>,
    promises: Promises,
}

impl Judge {
    pub fn new(plan: Rc<Plan>, is_story_written: bool) -> Self {
        Self { known: Known::new(plan, is_story_written), ..Self::default() }
    }

    /// Shows what happens, to this event or to the world, to all promises.
    pub fn shows(&mut self, event: impl Into<Option<usize>>, happens: Happens<'_>) {
        let Err(violation) = self.promises.on(happens, &self.known) else { return };
        let violation = Violation { event: violation.event.or(event.into()), ..violation };
        let Violation { check, event, what } = &violation;
        self.known.story.tell(self.known.now, *event, || format!("VIOLATED {check:?}: {what}"));
        self.violation.get_or_insert(violation);
    }

    fn shows_of(&mut self, case: usize, happens: Happens<'_>) {
        self.shows(self.known.event_of(case), happens);
    }

    /// A run of a target has begun with this payload.
    pub fn began(&mut self, request_id: &str, payload: &str, trace: &str) {
        let event = self.known.began(request_id, trace);
        self.shows(event, Happens::Given(request_id, payload));
    }

    /// Lambda has given up an invocation, and sent its failure to a retry queue.
    pub fn failed(&mut self, request_id: &Arc<str>, condition: &str, error: ErrorReport) {
        let Some(case) = self.known.failed(request_id, condition, error) else { return };
        let case = &self.known.cases[case];
        if case.condition == Condition::Failed {
            let plan = Rc::clone(&self.known.plan);
            let target = &plan.targets[case.of.target].name;
            self.shows(None, Happens::Failed(target, request_id));
        }
    }

    /// A run has succeeded, and the record of that was sent to a retry queue. It may say that records have failed.
    pub fn success_recorded(&mut self, request_id: &Arc<str>, answer: &str) {
        let Some(case) = self.known.success_recorded(request_id, answer) else { return };
        let plan = Rc::clone(&self.known.plan);
        let target = &plan.targets[self.known.cases[case].of.target].name;
        self.shows(None, Happens::Failed(target, request_id));
    }

    /// A handler has received a batch.
    pub fn delivered(&mut self, run: u64, event: &Rc<SqsEvent>) {
        let received = self.known.delivered(run, event);
        for (record, (case, is_held)) in event.records.iter().zip(received) {
            self.shows(None, Happens::Received(case, trace_of(record)));
            // Without a ledger, each handler that has a message may act on it.
            if let Some(case) = case.filter(|case| is_held && !self.known.cases[*case].claimed) {
                self.shows(None, Happens::MayRepeat(case));
            }
        }
        self.shows(None, Happens::Delivered(run));
    }

    /// A process begins with a batch, and has so much time.
    pub fn begun(&mut self, run: u64, process: usize, timeout: Duration) {
        self.known.begun(run, process);
        self.shows(None, Happens::Begun(run, timeout));
    }

    /// There is one more message about a failure.
    pub fn copied(&mut self, case: usize) {
        self.known.copied(case);
        // Without a ledger, a handler may act on each copy.
        if !self.known.cases[case].claimed {
            self.shows(None, Happens::MayRepeat(case));
        }
    }

    /// A handler has answered. `stays` tells whether the message with this handle is still in the queue. A message may
    /// stay although the handler is done with it: the answer was lost, or SQS has delivered it again meanwhile. Returns
    /// the keys of the failures that are over.
    pub fn answered(
        &mut self,
        run: u64,
        report: &Report,
        stays: impl Fn(&str) -> bool,
    ) -> Vec<Key> {
        for (case, due) in self.known.shown_by(run, report) {
            self.shows_of(case, Happens::ShowsDue(case, due));
            self.known.shown_exactly(case, due);
        }
        self.concludes(run, report);
        self.known.drops(run, report);
        self.shows(None, Happens::Answers(run, report));
        self.ends(run, stays)
    }

    /// A handler has ended without an answer.
    pub fn killed(&mut self, run: u64) {
        self.ends(run, |_| true);
    }

    fn ends(&mut self, run: u64, stays: impl Fn(&str) -> bool) -> Vec<Key> {
        let mut over = Vec::new();
        for message in self.known.ends(run) {
            let case = message.case;
            let comes_back = stays(message.handle());
            let is_held = self.known.is_still_held(&message);
            if comes_back && message.copies > 0 && !message.copy_refused {
                self.stays_beside_its_copy(case);
            }
            if self.known.let_go(run, &message, comes_back) {
                self.shows(None, Happens::MayRepeat(case));
            }
            if !comes_back
                && !is_held
                && let Some(key) = self.known.gone(case)
            {
                self.shows(None, Happens::Forgets(case));
                over.push(key);
            }
        }
        self.shows(None, Happens::Ends(run));
        over
    }

    /// Nothing is left to happen.
    pub fn at_rest(&mut self) {
        self.shows(None, Happens::Rests);
    }
}
