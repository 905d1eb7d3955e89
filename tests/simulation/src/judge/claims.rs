//! What the judge holds a handler's claims to, where there is a ledger.

use comeback_core::{
    Timestamp,
    claim::{Claim, State},
};
use comeback_flow::ports::NotReplaced;

use super::{Check, FaultSeen, Judge, Subject, millis};
use crate::wire::{Replace, Replaced};

impl Judge {
    /// A run will be killed at this time of its own clock.
    pub(crate) fn ends_by(&mut self, run: u64, deadline: Timestamp) {
        self.deadlines.insert(run, deadline);
    }

    /// A handler writes to the ledger. Gives the message that it is about.
    pub(crate) fn replaces(
        &mut self,
        now: Timestamp,
        clock: Timestamp,
        run: u64,
        replace: &Replace,
    ) -> Option<Subject> {
        let subject = self.subject_of(run, replace)?;
        let event = Some(self.failures[subject.failure].event);
        let message = self.runs.get_mut(&run)?.get_mut(subject.place)?;
        message.concluded |= replace.next.as_ref().is_none_or(|next| next.state == State::Done);
        let done = message.done;
        // One whose write was never answered is its own too, and may be released.
        let held = message.claim.clone().or_else(|| message.written.clone());
        let is_held = |claim: &Claim| held.as_ref().is_some_and(|held| held.token == claim.token);
        if replace.next.as_ref().is_some_and(|next| next.state != State::Done) {
            message.written.clone_from(&replace.next);
        }
        let seen = replace.seen.as_ref();
        match (&replace.next, seen) {
            (Some(Claim { state: State::Held { until }, .. }), seen) => {
                let deadline = self.deadlines.get(&run).copied().unwrap_or(clock);
                let taken_too_early = seen.is_some_and(|seen| match seen.state {
                    State::Held { until } => clock < until && clock < seen.expires_at,
                    State::Done => clock < seen.expires_at,
                });
                if *until < deadline || taken_too_early {
                    let what = format!("claimed until {until} at {clock}, with {seen:?} before");
                    self.violated(Check::ClaimsHold, now, event, what);
                }
            }
            (next, Some(seen)) if is_held(seen) => {
                if next.is_some() != done {
                    let what = format!("{next:?} is written, and acted on is {done}");
                    self.violated(Check::MarksAfterActing, now, event, what);
                }
            }
            (next, seen) => {
                let what =
                    format!("{next:?} is written in the place of {seen:?}, held is {held:?}");
                self.violated(Check::ClaimsFence, now, event, what);
            }
        }
        Some(subject)
    }

    /// The message that a write to the ledger is about: of copies in one batch, the one whose place its
    /// owner's name has.
    fn subject_of(&self, run: u64, replace: &Replace) -> Option<Subject> {
        let claim = replace.next.as_ref().or(replace.seen.as_ref())?;
        let named = claim.token.owner.rsplit('/').next().and_then(|nth| nth.parse::<usize>().ok());
        let watched = self.runs.get(&run)?;
        let is_it = |place: &usize| {
            let message = watched.get(*place);
            message
                .is_some_and(|message| *self.failures[message.failure].request_id == *replace.key)
        };
        let place = named.filter(is_it).or_else(|| (0..watched.len()).find(is_it))?;
        Some(Subject { run, place, failure: watched[place].failure })
    }

    /// The ledger has the mark of a failure that was acted on.
    pub(crate) fn marked(&mut self, now: Timestamp, of: Subject) {
        let failure = &mut self.failures[of.failure];
        failure.marked = true;
        let event = failure.event;
        self.story.tell(now, Some(event), || format!("run {}: marked as done", of.run));
    }

    /// A handler has the answer to a write.
    pub(crate) fn told_of_claim(
        &mut self,
        now: Timestamp,
        of: Subject,
        replace: &Replace,
        answer: &Replaced,
        seen: Option<FaultSeen>,
    ) {
        let nth = self.next_answer();
        let failure = &self.failures[of.failure];
        let (event, acts) = (failure.event, failure.acts);
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let (Some(message), Some(next)) = (message, &replace.next) else { return };
        self.story.tell(now, Some(event), || format!("run {}: the ledger says {answer:?}", of.run));
        if next.state == State::Done {
            return;
        }
        message.held_until = None;
        match answer {
            Ok(()) => {
                message.told = nth;
                message.claim = Some(next.clone());
            }
            Err(NotReplaced::Changed(Some(there))) if there.token.owner == next.token.owner => {
                message.told = nth;
                message.claim = Some(there.clone());
            }
            Err(NotReplaced::Changed(Some(there))) => match there.state {
                State::Held { until } => message.held_until = Some(millis(until)),
                State::Done => {
                    message.done = true;
                    self.tally.count("duplicates dropped");
                    if acts == 0 {
                        let what = "the ledger has a mark of what nobody did".to_owned();
                        self.violated(Check::DropsOnlyTheDone, now, Some(event), what);
                    }
                }
            },
            Err(NotReplaced::Changed(None)) => {}
            Err(NotReplaced::Fault(_)) => {
                message.told = nth;
                message.fault = seen.or(message.fault);
            }
        }
    }
}
