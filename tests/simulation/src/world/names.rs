//! Of whom a choice is. Where choices need no names, this is nobody, which costs nothing.

use aws_lambda_events::event::sqs::SqsMessage;
use wire::Request;

use super::World;
use crate::{
    choices::Of,
    dice::Dice,
    judge::{Subject, trace_of},
};

impl World {
    /// The judge has just learned of an event of this sender.
    pub fn note_sender(&mut self, of: Of) {
        if self.choices.are_named() {
            self.senders.insert(self.judge.known.events.len().saturating_sub(1), of);
        }
    }

    /// Whether no attempt of an event succeeds. This is drawn once per event, not for each of its runs.
    pub fn is_hopeless(&mut self, event: usize) -> bool {
        let hopeless = self.plan.hopeless;
        if hopeless == 0.0 && !self.choices.are_named() {
            return false;
        }
        let seed = self.plan.seed.wrapping_add(event as u64);
        let drawn = || Dice::seeded(seed).unit() < hopeless;
        let of = self.of_event(event);
        self.choices.is_so(of, "hopeless", drawn)
    }

    /// Of this event of the judge. Some begin anew as what was in them.
    fn of_event(&self, event: usize) -> Of {
        self.senders.get(&event).copied().unwrap_or_else(|| Of::other(event))
    }

    fn of_attempt(&self, truth: Option<(usize, u32)>) -> Of {
        truth.map_or_else(Of::default, |(event, nth)| self.of_event(event).attempt(nth))
    }

    /// Of the failure with this trace.
    pub fn of_trace(&self, trace: &str) -> Of {
        match self.choices.are_named() {
            true => self.of_attempt(self.judge.known.failed_with(trace)),
            false => Of::default(),
        }
    }

    pub fn of_record(&self, record: &SqsMessage) -> Of {
        self.of_trace(trace_of(record))
    }

    /// Of the attempt with this request id, or message id.
    pub fn of_request(&self, id: &str) -> Of {
        match self.choices.are_named() {
            true => self
                .of_attempt(self.judge.known.open.get(id).map(|open| (open.event, open.attempt))),
            false => Of::default(),
        }
    }

    /// Of the call that a run makes for a failure, for the first of several, or for its batch.
    pub fn of_call(&self, run: u64, request: &Request, subjects: &[Option<Subject>]) -> Of {
        if !self.choices.are_named() {
            return Of::default();
        }
        let run = self.runs.get(&run);
        let of_subject =
            |subject: &Subject| self.of_attempt(Some(self.judge.known.truth_of(*subject)));
        let of = subjects.iter().flatten().next().map(of_subject);
        let of_handle = |handle: &String| {
            let mut records = run?.event.records.iter();
            let record = records.find(|it| it.receipt_handle.as_ref() == Some(handle))?;
            Some(self.of_record(record))
        };
        let hidden =
            if let Request::Hide { changes, .. } = request { changes.first() } else { None };
        let of = of.or_else(|| of_handle(&hidden?.0));
        of.or_else(|| Some(run?.of)).unwrap_or_default().call(request.name())
    }
}
