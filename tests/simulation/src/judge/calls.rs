//! The calls of handlers: whom each is about, as far as the judge can tell, and what it does.

use std::rc::Rc;

use comeback_core::{
    Timestamp,
    dead_letter::DeadLetter,
    lineage::{self, Key},
    notice::Location,
};
use comeback_local_model::{queue_arn, sqs::Outgoing};
use wire::{Invoke, Origin, Request, Write};

use super::{
    Judge,
    happens::Happens,
    known::{Place, Recall, Subject, Waits, Why, is_claim},
    promises::{addressee, why},
};
use crate::{policy::Millis, seen::Seen};

impl Judge {
    fn event_of(&self, of: Option<Subject>) -> Option<usize> {
        of.map(|of| self.known.event_of(of.case))
    }

    /// A handler retries an event: it invokes a function, or sends a message back to its queue. Returns the message
    /// that the call is about.
    pub fn invokes(&mut self, run: u64, clock: Timestamp, invoke: &Invoke) -> Option<Subject> {
        let at = clock.timestamp_millis();
        let of = self.known.invoked_by(run, invoke);
        if let Some(of) =
            of.filter(|of| self.known.message(*of).is_some_and(|it| it.claim.is_none()))
        {
            self.shows_of(of.case, Happens::Begins(of));
        }
        self.shows(self.event_of(of), Happens::Invokes(run, of, at, invoke));
        of.into_iter().for_each(|of| self.known.invokes(of, &invoke.target, at));
        of
    }

    /// A handler gives messages up. Returns the message of each dead letter.
    pub fn gives_up(
        &mut self,
        run: u64,
        clock: Timestamp,
        letters: &[DeadLetter],
    ) -> Vec<Option<Subject>> {
        let bytes = letters.iter().map(DeadLetter::size).sum();
        self.shows(None, Happens::Sends(letters.len(), "dead letters", bytes));
        let at = clock.timestamp_millis();
        let mut subjects = Vec::with_capacity(letters.len());
        for letter in letters {
            let of = addressee(&self.known, run, at, letter);
            self.shows(self.event_of(of), Happens::GivesUp(run, of, at, letter));
            of.into_iter().for_each(|of| self.known.gives_up(of));
            subjects.push(of);
        }
        subjects
    }

    /// A handler sends messages to their own queue again, or back to the queue whose consumer failed. Returns the
    /// message of each.
    pub fn sends_again(
        &mut self,
        run: u64,
        clock: Timestamp,
        queue: &str,
        messages: &[Outgoing],
        origins: &[Origin],
    ) -> Vec<Option<Subject>> {
        let bytes = messages.iter().map(Outgoing::size).sum();
        self.shows(None, Happens::Sends(messages.len(), "messages", bytes));
        let at = clock.timestamp_millis();
        let is_back = self.known.plan.source(queue).is_some();
        let mut subjects = Vec::with_capacity(messages.len());
        for (message, &origin) in messages.iter().zip(origins) {
            subjects.push(if is_back {
                let (target, message) = (queue_arn(queue), message.clone());
                let invoke = Invoke { target, message, origin, ..Invoke::default() };
                self.invokes(run, clock, &invoke)
            } else {
                self.sends_one_again(run, at, message, origin)
            });
        }
        subjects
    }

    fn sends_one_again(
        &mut self,
        run: u64,
        at: Millis,
        sent: &Outgoing,
        origin: Origin,
    ) -> Option<Subject> {
        let of = self.known.sent_by(run, sent, origin);
        self.shows(self.event_of(of), Happens::SendsAgain(run, of, sent));
        let of = of?;
        if self.known.is_to_be_split(self.known.message(of)?) {
            self.known.sends_part(of);
            return of.part.is_some().then_some(of);
        }
        let seconds = sent.delay.unwrap_or_default();
        self.known.sends_again(of, seconds);
        let rest = self.waits(Waits { of, at, seconds, is_delay: true });
        self.known.hops(seconds, rest);
        Some(of)
    }

    /// A handler puts messages back.
    pub fn hides(&mut self, run: u64, clock: Timestamp, changes: &[(String, u32)]) {
        self.shows(None, Happens::Sends(changes.len(), "visibility changes", 0));
        let at = clock.timestamp_millis();
        for &(ref handle, seconds) in changes {
            let of = self.known.hidden_by(run, handle);
            let message = of.and_then(|of| self.known.message(of));
            let (was_put_back, has_order) = message
                .map_or((true, false), |message| (message.put_back, message.listing.found_order));
            if was_put_back && self.promises.brings.may_bring(run, handle, seconds) {
                self.known.tally.count(Seen::Step("brought forward"));
                continue;
            }
            self.shows(self.event_of(of), Happens::Hides(run, of));
            let Some(of) = of else { continue };
            if was_put_back && seconds == 0 && has_order {
                self.known.brings_back(of);
                continue;
            }
            self.known.hides(of, seconds);
            self.waits(Waits { of, at, seconds, is_delay: false });
        }
    }

    /// A handler lets a message wait, in flight or as a delay. Returns the shortest time that the message may still
    /// have to wait, in milliseconds.
    fn waits(&mut self, wait: Waits) -> Millis {
        let case = wait.of.case;
        let why = why(&self.known, &wait);
        self.shows_of(case, Happens::Waits(&wait, why));
        // An event that never succeeds may be the probe time and again.
        if matches!(why, Why::Down { .. }) && self.known.plan.hopeless == 0.0 {
            let plan = Rc::clone(&self.known.plan);
            let target = self.known.cases[case].arn(&plan);
            self.shows_of(case, Happens::HeldBack(target));
        }
        self.known.waits(&wait, why)
    }

    /// A handler reads a record. Returns the message that is its notice.
    pub fn reads_record(&mut self, run: u64, location: &Location) -> Option<Subject> {
        let sought = Place::from(location);
        let of = self.known.read_by(run, &sought);
        self.shows(self.event_of(of), Happens::Reads(run, of, &sought));
        of.into_iter().for_each(|of| self.known.reads_record(of));
        of
    }

    /// A handler asks for all runs with the payload of this one, because a look-up has shown nothing of it.
    pub fn looks_closer(&mut self, run: u64, key: &Key) -> Option<Subject> {
        let of = self.known.looks_closer(run, key);
        self.shows(self.event_of(of), Happens::LooksCloser(run, of, key));
        let Subject { place, .. } = of?;
        self.known.recalled(run, place, Recall::Closer);
        of
    }

    /// A handler tries to take a call for the failure of this run.
    pub fn asks_to_take(&mut self, run: u64, taker: &str) -> Option<Subject> {
        let of = self.known.asking(run, taker, Recall::Orphan)?;
        self.known.recalled(run, of.place, Recall::Taking);
        Some(of)
    }

    /// A handler reads all runs with the payload of one that it is about to claim, whose calls may be answered.
    pub fn compares(&mut self, run: u64, key: &Key) -> Option<Subject> {
        let of = self.known.compared_by(run, key);
        self.shows(self.event_of(of), Happens::Compares(run, of, key));
        let of = of?;
        if self.known.compares(of) {
            self.shows_of(of.case, Happens::Begins(of));
        }
        Some(of)
    }

    /// A handler looks up what the register has about its batch.
    pub fn looks_up(&mut self, run: u64, clock: Timestamp, events: &[Key], targets: &[String]) {
        let at = clock.timestamp_millis();
        self.shows(None, Happens::LooksUp(run, at, events, targets));
        self.known.looks_up(run, at);
    }

    /// A handler is about to write a claim, and may make other calls at the same time.
    pub fn claims(&mut self, run: u64, write: &Write) {
        if let Some(of) = self.known.claims(run, write) {
            self.shows_of(of.case, Happens::Begins(of));
        }
    }

    /// A handler writes to the ledger. Returns the message that the write is about.
    pub fn writes(&mut self, run: u64, write: &Write) -> Option<Subject> {
        let of = self.known.writes(run, write)?;
        self.shows_of(of.case, Happens::Writes(of));
        if !is_claim(write) {
            self.shows(None, Happens::Concludes(of));
        } else if let Some(call) = of.call {
            self.shows(None, Happens::Claims(call));
        }
        if let Some(entry) = &write.waiting {
            self.shows_of(of.case, Happens::Lists(of, entry));
            self.known.lists(of);
        }
        Some(of)
    }

    /// A handler notes the run that it has started. Returns the message whose failure that retries.
    pub fn notes(&mut self, run: u64, known: &lineage::Known) -> Option<Subject> {
        let of = self.known.notes(run, known)?;
        self.shows_of(of.case, Happens::Writes(of));
        self.shows(None, Happens::Concludes(of));
        Some(of)
    }

    /// Nothing goes wrong with this call, so the handler will be told whether its acts were accepted.
    pub fn will_be_told(&mut self, request: &Request, subjects: &[Option<Subject>]) {
        let acts = if let Request::Again { queue_url, .. } = request {
            let queue = queue_url.rsplit('/').next().unwrap_or_default();
            self.known.plan.source(queue).is_some()
        } else {
            matches!(request, Request::Invoke(_) | Request::Letters(_))
        };
        for of in subjects.iter().flatten().filter(|_| acts) {
            self.shows(None, Happens::WillBeTold(*of));
        }
    }
}
