//! What handlers do about the messages that they have: they retry, give up, and put back.

use std::{num::NonZero, sync::Arc};

use comeback_core::fault::FaultKind;
use wire::{Answer, Invoke};

use super::{DELAY_MAX, Delivery, HOP_MIN, Known, Open, Subject, Wait};
use crate::{policy::Millis, seen::Seen};

pub const REASONS: [&str; 13] = [
    "max_age_exceeded",
    "max_attempts_exceeded",
    "not_retryable",
    "target_not_allowed",
    "recursion_stopped",
    "payload_missing",
    "payload_too_large",
    "payload_truncated",
    "invoke_rejected",
    "cancelled",
    "attribute_limit",
    "record_gone",
    "unreadable",
];

/// The longest wait, in seconds: twelve hours less a minute.
pub const WAIT_MAX: u32 = 43_140;

/// A wait of so many seconds from `at`, by the handler's clock, in flight or as a delay.
#[derive(Clone, Copy)]
pub struct Waits {
    pub of: Subject,
    pub at: Millis,
    pub seconds: u32,
    pub is_delay: bool,
}

impl Waits {
    pub fn end(&self) -> Millis {
        self.at + i64::from(self.seconds) * 1000
    }

    /// Whether it may be one of several in a row: it then shows only that the message isn't due before its end.
    fn is_partial(&self) -> bool {
        if self.is_delay { self.seconds >= HOP_MIN } else { self.seconds == WAIT_MAX }
    }

    /// Between which times the message is due, if it waits for that.
    pub fn shows(&self) -> (Millis, Millis) {
        let until = if self.is_partial() { Millis::MAX } else { self.end() };
        // The message may have become due while the handler asked how many messages are in flight.
        let from = if self.seconds == 0 { Millis::MIN } else { self.end() - 1000 };
        (from, until)
    }

    /// Whether it fits this range. A long wait may consist of several.
    pub fn is_within(&self, (low, high): (Millis, Millis)) -> bool {
        let whole = |wait: Millis| wait.max(0).saturating_add(999).div_euclid(1000);
        let most = if self.is_delay { Millis::MAX } else { WAIT_MAX.into() };
        let is_hop = self.is_delay && self.seconds >= HOP_MIN && whole(high) > DELAY_MAX.into();
        is_hop || (whole(low).min(most)..=whole(high).min(most)).contains(&self.seconds.into())
    }
}

/// Why a message waits.
#[derive(Clone, Copy)]
pub enum Why {
    /// Its failure was taken for another attempt meanwhile, so nobody can tell.
    Unknown,
    /// Something that asks for a wait in this range of milliseconds.
    Cause(Cause, (Millis, Millis)),
    /// Another handler acts on it.
    Holder,
    /// The next step of its circuit.
    Step,
    /// Its target is down. Maybe nobody waits for the next step of its circuit.
    Down { is_unwatched: bool },
    /// It is not due.
    Due,
}

#[derive(Clone, Copy)]
pub enum Cause {
    Fault,
    /// It is unknown of which run it is a failure.
    Note,
    /// Its target is paused.
    Pause,
}

impl Known {
    /// The message that a handler retries.
    pub fn invoked_by(&self, run: u64, invoke: &Invoke) -> Option<Subject> {
        let trace = invoke.message.trace_header.as_deref().unwrap_or_default();
        let case = self.case_with(trace)?;
        let is_it = |message: &Delivery| {
            let is_free = message.invoked_at.is_none() && message.is_read();
            message.is_origin(invoke.origin) && message.case == case && is_free
        };
        let place = self.batch(run).iter().position(is_it)?;
        let call = self.batch(run)[place].call;
        Some(Subject { run, place, case, call, part: None })
    }

    /// A handler retries an event, and may make the probe of its target's circuit with that.
    pub fn invokes(&mut self, of: Subject, target: &str, at: Millis) {
        self.makes_probe(of, target);
        if let Some(message) = self.message_mut(of.run, of.place) {
            message.invoked_at = Some(at);
        }
    }

    /// Lambda has accepted a handler's invocation, or a queue its message. Returns the number of the target.
    pub fn reinvoked(&mut self, of: Subject, request_id: &Arc<str>, trace: &str) -> Option<usize> {
        let case = &self.cases[of.case];
        let next = case.verdict().ok()?;
        let open = if case.is_undelivered() {
            self.tally.count(Seen::Step("undelivered events accepted"));
            self.first_run(of.case, request_id, trace)
        } else {
            self.tally.count(Seen::Step("attempts"));
            let open = Open {
                attempt: next.attempt,
                initial: NonZero::new(case.first.div_euclid(1000)),
                trace: trace.into(),
                is_unwrapped: false,
                ..case.of.clone()
            };
            self.accepted_unwrapped(of, request_id, open)
        };
        let target = open.target;
        let is_down = target == 0 && self.now.timestamp_millis() < self.calm_at();
        self.figures.retried_while_down += u64::from(is_down);
        self.open.insert(Arc::clone(request_id), open);
        Some(target)
    }

    /// A dead-letter queue has accepted a dead letter with this reason.
    pub fn given_up(&mut self, of: Subject, reason: &'static str) {
        self.tally.count(Seen::Letter(reason));
        let event = self.event_of(of.case);
        self.events[event].ends += 1;
    }

    /// A case was re-invoked or dead-lettered, which can't be undone. Returns whether that may be done once more.
    pub fn acted(&mut self, of: Subject, how: &'static str) -> bool {
        let Subject { run, place, case, .. } = of;
        let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
        let case = &mut self.cases[case];
        let may_repeat = match message {
            Some(message) => {
                message.acts += 1;
                let unclaimed = case.claimed && message.claim.is_none();
                // A call that the network repeated has two effects.
                let is_repeated = message.acts > 1;
                message.permitted |= !is_repeated && (unclaimed || message.act_refused);
                is_repeated || message.permitted
            }
            // The handler has ended, so its message becomes visible again, or already did.
            None => true,
        };
        case.acts += 1;
        if case.acts == 1 {
            self.figures.waiting.ends();
        }
        let (acts, event) = (case.acts, case.of.event);
        self.story.tell(self.now, event, || format!("run {run}: {how}"));
        if acts > 1 {
            self.tally.count(Seen::Step("forks"));
            self.events[event].forks += 1;
        }
        may_repeat
    }

    /// Whether a message of this run may have a fault that may fork a chain. Forks multiply: without a limit, one event
    /// would have thousands.
    pub fn may_fork(&self, run: u64) -> bool {
        self.batch(run).iter().all(|message| self.may_be_repeated(message.case))
    }

    /// A handler received the answer to an invocation or to a dead letter. Returns whether the call took effect and the
    /// handler doesn't know, so that the next handler acts again.
    pub fn told(&mut self, of: Subject, answer: &Answer) -> bool {
        self.answers += 1;
        let kind = answer.as_ref().err().and_then(|refusal| refusal.kind);
        let target = self.cases[of.case].arn(&self.plan).to_owned();
        let known_for = self.meets(of.run, &target, kind);
        let (now, answers, event) = (self.now, self.answers, self.event_of(of.case));
        let Some(message) = self.message_mut(of.run, of.place) else { return false };
        message.told = answers;
        let mut may_repeat = false;
        match answer {
            Ok(()) => message.done = true,
            Err(refusal) => {
                message.met(refusal.kind, known_for, now);
                message.act_refused = true;
                may_repeat = message.acts > 0 && !message.permitted;
                message.permitted |= may_repeat;
            }
        }
        self.story.tell(now, event, || format!("run {} is told: {answer:?}", of.run));
        may_repeat
    }

    /// SQS has refused all messages of a call for good, maybe because of a single one. The handler doesn't know which,
    /// so it has to send this one alone before it gives it up.
    pub fn refused_together(&mut self, subjects: &[Option<Subject>]) {
        // A batch may have copies of one message. Their dead letters are sent alone in the order of the call.
        for of in subjects.iter().rev().flatten() {
            self.answers += 1;
            let answers = self.answers;
            let Some(message) = self.message_mut(of.run, of.place) else { continue };
            if matches!(message.fault, Some(FaultKind::Refused(_))) && !message.dead_letter_sent {
                message.fault = None;
            }
            message.told = answers;
            message.invoked_at = None;
            message.dead_letter_sent = false;
            message.act_refused = false;
        }
    }

    /// The message that a handler puts back.
    pub fn hidden_by(&self, run: u64, handle: &str) -> Option<Subject> {
        let place = self.batch(run).iter().position(|message| message.handle() == handle)?;
        let case = self.batch(run)[place].case;
        Some(Subject { run, place, case, call: None, part: None })
    }

    /// A handler brings a message back that it has put back, because it has found an order for it.
    pub fn brings_back(&mut self, of: Subject) {
        let event = self.event_of(of.case);
        self.story.tell(self.now, event, || format!("run {} brings it back", of.run));
        self.tally.count(Seen::Step("brought back"));
    }

    /// A handler puts a message back.
    pub fn hides(&mut self, of: Subject, seconds: u32) {
        let event = self.event_of(of.case);
        let run = of.run;
        self.story.tell(self.now, event, || format!("run {run} puts it back for {seconds} s"));
        if let Some(message) = self.message_mut(run, of.place) {
            message.put_back = true;
        }
    }

    /// A handler lets a message wait until it is due, or for as long as its circuit has it wait. Returns the shortest
    /// time that the message may still have to wait, in milliseconds.
    pub fn waits(&mut self, wait: &Waits, why: Why) -> Millis {
        let Waits { of, at, seconds, is_delay } = *wait;
        let is_partial = wait.is_partial();
        if let Some(message) = self.message_mut(of.run, of.place) {
            message.wait = Some(Wait::of(at, seconds, is_partial, is_delay));
        }
        let step = match why {
            Why::Unknown => return 0,
            Why::Cause(_, (low, _)) => return low,
            Why::Holder => return wait.end() - at,
            Why::Step => "events that wait for a step",
            Why::Down { .. } => "events held back",
            Why::Due => return self.waits_until_due(wait),
        };
        self.tally.count(Seen::Step(step));
        if let Some(message) = self.message_mut(of.run, of.place) {
            message.held_by_circuit = true;
        }
        wait.end() - at
    }

    fn waits_until_due(&mut self, wait: &Waits) -> Millis {
        let case = &mut self.cases[wait.of.case];
        let Ok(next) = case.verdict() else { return 0 };
        let (from, until) = wait.shows();
        case.shown = (case.shown.0.max(from), case.shown.1.min(until));
        let low = case.due().unwrap_or(next.due.0);
        low.max(case.shown.0.saturating_add(1)) - wait.at
    }

    /// A handler sends a dead letter.
    pub fn gives_up(&mut self, of: Subject) {
        if let Some(message) = self.message_mut(of.run, of.place) {
            message.dead_letter_sent = true;
        }
    }
}
