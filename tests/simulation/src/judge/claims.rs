//! The rules for a handler's claims, if there is a ledger.

use comeback_core::{
    Timestamp,
    claim::{Claim, State},
};

use super::{Judge, Subject};
use crate::{
    check::Check,
    tally::Seen,
    wire::{Answer, Replace},
};

impl Judge {
    /// A handler that is killed at `deadline` writes to the ledger, both by its own `clock`. Returns the message
    /// that it is about.
    pub(crate) fn replaces(
        &mut self,
        run: u64,
        clock: Timestamp,
        deadline: Timestamp,
        replace: &Replace,
    ) -> Option<Subject> {
        let subject = self.subject_of(run, replace)?;
        let event = self.cases[subject.case].of.event;
        let message = self.runs.get_mut(&run)?.get_mut(subject.place)?;
        message.concluded |= replace.next.as_ref().is_none_or(|next| next.state == State::Done);
        let done = message.done;
        // It may also release a claim whose write was never answered.
        let held = message.claim.clone().or_else(|| message.written.clone());
        let is_held = |claim: &Claim| held.as_ref().is_some_and(|held| held.token == claim.token);
        if replace.next.as_ref().is_some_and(|next| next.state != State::Done) {
            message.written.clone_from(&replace.next);
        }
        match (&replace.next, &replace.seen) {
            (Some(Claim { state: State::Held { until }, .. }), seen) => {
                let taken_too_early = seen.as_ref().is_some_and(|seen| match seen.state {
                    State::Held { until } => clock < until && clock < seen.expires_at,
                    State::Done => clock < seen.expires_at,
                });
                if *until < deadline || taken_too_early {
                    let what = format!("claimed until {until} at {clock}, with {seen:?} before");
                    self.violated(Check::ClaimsHold, event, what);
                }
            }
            (next, Some(seen)) if is_held(seen) => {
                if next.is_some() != done {
                    let what = format!("{next:?} is written, and acted on is {done}");
                    self.violated(Check::MarksAfterActing, event, what);
                }
            }
            (next, seen) => {
                let what =
                    format!("{next:?} is written in the place of {seen:?}, held is {held:?}");
                self.violated(Check::ClaimsFence, event, what);
            }
        }
        Some(subject)
    }

    /// The message that a write to the ledger is about. Several copies of one message may be in a batch; then the
    /// owner's name tells the place.
    fn subject_of(&self, run: u64, replace: &Replace) -> Option<Subject> {
        let claim = replace.next.as_ref().or(replace.seen.as_ref())?;
        let named = claim.token.owner.rsplit('/').next().and_then(|nth| nth.parse::<usize>().ok());
        let batch = self.runs.get(&run)?;
        let is_it = |place: &usize| {
            let message = batch.get(*place);
            message.is_some_and(|message| *self.cases[message.case].request_id == *replace.key)
        };
        let place = named.filter(is_it).or_else(|| (0..batch.len()).find(is_it))?;
        Some(Subject { run, place, case: batch[place].case })
    }

    /// The ledger has the mark of a case that was acted on.
    pub(crate) fn marked(&mut self, of: Subject) {
        let case = &mut self.cases[of.case];
        case.marked = true;
        self.story.tell(self.now, case.of.event, || format!("run {}: marked as done", of.run));
    }

    /// A handler has the answer to a write.
    pub(crate) fn told_of_claim(&mut self, of: Subject, replace: &Replace, answer: &Answer) {
        self.answers += 1;
        let case = &self.cases[of.case];
        let (event, acts) = (case.of.event, case.acts);
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let (Some(message), Some(next)) = (message, &replace.next) else { return };
        self.story.tell(self.now, event, || format!("run {}: the ledger says {answer:?}", of.run));
        if next.state == State::Done {
            return;
        }
        message.held_until = None;
        match answer.as_ref().map_err(|refusal| (&refusal.found, refusal.kind)) {
            Ok(()) => {
                message.told = self.answers;
                message.claim = Some(next.clone());
            }
            Err((Some(Some(there)), _)) if there.token.owner == next.token.owner => {
                message.told = self.answers;
                message.claim = Some(there.clone());
            }
            Err((Some(Some(there)), _)) => match there.state {
                State::Held { until } => message.held_until = Some(until.timestamp_millis()),
                State::Done => {
                    message.done = true;
                    self.tally.count(Seen::Step("duplicates dropped"));
                    if acts == 0 {
                        let what = "the ledger has a mark of what nobody did".to_owned();
                        self.violated(Check::DropsOnlyTheDone, event, what);
                    }
                }
            },
            Err((Some(None), _)) => {}
            Err((None, kind)) => {
                message.told = self.answers;
                message.fault = kind.or(message.fault);
            }
        }
    }
}
