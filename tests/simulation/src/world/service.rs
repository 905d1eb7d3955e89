//! The services as a handler's calls meet them. Anything can happen to a call and to its answer.

use std::{
    rc::{Rc, Weak},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    claim::{State, is_same},
    dead_letter::{DeadLetter, Reason},
    fault::FaultKind,
};
use comeback_local::model::{
    Invocation, InvocationType, Invoked as Accepted,
    sqs::{MessageAttribute, Outgoing},
};

use super::{Step, World};
use crate::{
    judge::{REASONS, Subject},
    plan::{Rates, Trouble},
    tally::{Fault, Seen},
    wire::{Answer, Hide, Invoke, Refusal, Replace, Request, Slot},
};

/// What Lambda answers when it refuses for good, and what that means.
const REJECTIONS: [(&str, u16, Reason); 5] = [
    ("InvalidRequestContentException", 400, Reason::InvokeRejected),
    ("UnsupportedMediaTypeException", 415, Reason::InvokeRejected),
    ("InvalidParameterValueException", 400, Reason::InvokeRejected),
    ("RequestTooLargeException", 413, Reason::PayloadTooLarge),
    ("RecursiveInvocationException", 400, Reason::RecursionStopped),
];

/// What it answers when a person has to fix something.
const MISCONFIGURATIONS: [(&str, u16); 3] = [
    ("AccessDeniedException", 403),
    ("KMSDisabledException", 502),
    ("InvalidZipFileException", 502),
];

/// A call of a run, and where its answers go.
pub(super) struct Call {
    run: u64,
    handler: usize,
    request: Request,
    /// What it is about; of each dead letter.
    subjects: Vec<Option<Subject>>,
    slot: Weak<Slot>,
}

impl Call {
    fn entries(&self) -> usize {
        match &self.request {
            Request::Sleep(_) => 0,
            Request::Hide(hide) => hide.changes.len(),
            Request::Letters(letters) => letters.len(),
            Request::Invoke(_) | Request::Replace(_) => 1,
        }
    }
}

impl World {
    /// Whether a fault of this rate happens now.
    pub(super) fn happens(&mut self, rate: impl Fn(&Rates) -> f64) -> bool {
        !self.is_calm && self.dice.happens(rate(&self.plan.rates))
    }

    /// A handler has asked for something.
    pub(super) fn submit(
        &mut self,
        run: u64,
        clock: Timestamp,
        request: Request,
        slot: Weak<Slot>,
    ) {
        let Some((handler, deadline)) = self.runs.get(&run).map(|run| (run.handler, run.deadline))
        else {
            return;
        };
        let subjects = match &request {
            Request::Sleep(_) => Vec::new(),
            Request::Hide(hide) => {
                self.judge.hides(run, clock, hide);
                Vec::new()
            }
            Request::Letters(letters) => self.judge.gives_up(run, clock, letters),
            Request::Invoke(invoke) => vec![self.judge.invokes(run, clock, invoke)],
            Request::Replace(replace) => vec![self.judge.replaces(run, clock, deadline, replace)],
        };
        let call = Rc::new(Call { run, handler, request, subjects, slot });
        if let Request::Sleep(lasts) = call.request {
            // Whole milliseconds, like every time here.
            let millis = lasts.as_nanos().div_ceil(1_000_000) as u64;
            self.after(Duration::from_millis(millis), Step::Answer(call, Vec::new()));
        } else {
            self.dispatch(call);
        }
    }

    /// Draws what happens to a call.
    fn dispatch(&mut self, call: Rc<Call>) {
        let out = self.dice.millis(2..=60);
        let back = self.dice.millis(2..=60);
        let may_fork = self.judge.may_fork(call.run);
        let fault = if self.is(Trouble::CallsThrottled, 0) {
            self.refuse(call, out + back, true);
            Seen::Trouble(Trouble::CallsThrottled)
        } else if self.happens(|rates| rates.refused) {
            let is_throttled = self.dice.happens(0.5);
            self.refuse(call, out + back, is_throttled);
            Seen::Fault(if is_throttled { Fault::CallThrottled } else { Fault::ServerError })
        } else if self.happens(|rates| rates.unsent) {
            self.time_out(call);
            Seen::Fault(Fault::CallUnsent)
        } else if may_fork && self.happens(|rates| rates.unanswered) {
            self.after(out, Step::Arrive(Rc::clone(&call), None));
            self.time_out(call);
            Seen::Fault(Fault::AnswerLost)
        } else if may_fork && self.happens(|rates| rates.late) {
            let late = self.dice.millis(1_000..=300_000);
            self.after(late, Step::Arrive(Rc::clone(&call), None));
            self.time_out(call);
            Seen::Fault(Fault::CallLate)
        } else if may_fork && self.happens(|rates| rates.repeated) {
            self.after(out, Step::Arrive(Rc::clone(&call), None));
            let again = out + self.dice.millis(100..=3_000);
            self.after(again, Step::Arrive(call, Some(back)));
            Seen::Fault(Fault::CallRepeated)
        } else {
            return self.after(out, Step::Arrive(call, Some(back)));
        };
        self.judge.tally.count(fault);
    }

    /// The service refuses the whole call.
    fn refuse(&mut self, call: Rc<Call>, after: Duration, is_throttled: bool) {
        let of_ledger = matches!(call.request, Request::Replace(_));
        let says_when = is_throttled && !of_ledger && self.dice.happens(0.3);
        let (code, status) = match (of_ledger, is_throttled) {
            (false, true) => ("TooManyRequestsException", 429),
            (false, false) => ("ServiceException", 500),
            (true, true) => ("ProvisionedThroughputExceededException", 400),
            (true, false) => ("InternalServerError", 500),
        };
        let retry_after = says_when.then(|| Duration::from_secs(self.dice.number(0..=400)));
        let transient = FaultKind::Transient { retry_after };
        self.fail(call, after, Refusal { retry_after, ..Refusal::of(code, status, transient) });
    }

    /// A call has no answer. It fails after a while, or not even that.
    fn time_out(&mut self, call: Rc<Call>) {
        if self.happens(|rates| rates.hanging) {
            return self.judge.tally.count(Seen::Fault(Fault::CallHung));
        }
        let after = self.dice.millis(1_000..=20_000);
        let kind = Some(FaultKind::Transient { retry_after: None });
        self.fail(call, after, Refusal { kind, ..Refusal::default() });
    }

    fn fail(&mut self, call: Rc<Call>, after: Duration, mut refusal: Refusal) {
        if !matches!(call.request, Request::Invoke(_) | Request::Replace(_)) {
            refusal.kind = None;
        }
        let answers = vec![Err(refusal); call.entries()];
        self.after(after, Step::Answer(call, answers));
    }

    /// A call has reached its service, and takes effect.
    pub(super) fn arrive(&mut self, call: Rc<Call>, back: Option<Duration>) {
        let run = call.run;
        if let Some(run) = self.runs.get_mut(&run) {
            run.effects += 1;
        }
        let subject = call.subjects.first().copied().flatten();
        let answers = match &call.request {
            Request::Sleep(_) => Vec::new(),
            Request::Hide(hide) => self.hide(hide),
            Request::Letters(letters) => self.take_letters(&call, letters),
            Request::Invoke(invoke) => vec![self.take_invocation(invoke, subject)],
            Request::Replace(replace) => vec![self.replace(replace, subject)],
        };
        if let Some(after) = back {
            self.after(after, Step::Answer(call, answers));
        }
        self.survives(run);
    }

    fn hide(&mut self, hide: &Hide) -> Vec<Answer> {
        let queue = hide.queue_url.rsplit('/').next().unwrap_or_default();
        let mut answers = Vec::with_capacity(hide.changes.len());
        for (handle, seconds) in &hide.changes {
            answers.push(if self.happens(|rates| rates.entry_refused) {
                self.judge.tally.count(Seen::Fault(Fault::VisibilityRefused));
                Err(Refusal::default())
            } else {
                let changed = self.cloud.sqs.change_visibility(self.now, queue, handle, *seconds);
                changed.map_err(|_| Refusal::default())
            });
        }
        answers
    }

    fn take_letters(&mut self, call: &Call, letters: &[DeadLetter]) -> Vec<Answer> {
        let plan = Rc::clone(&self.plan);
        let queue = &plan.handlers[call.handler].dead_letter_queue;
        let mut answers = Vec::with_capacity(letters.len());
        for (letter, subject) in letters.iter().zip(&call.subjects) {
            if self.happens(|rates| rates.entry_refused) {
                self.judge.tally.count(Seen::Fault(Fault::LetterRefused));
                answers.push(Err(Refusal::default()));
                continue;
            }
            let attributes = letter.attributes.iter();
            let message = Outgoing {
                body: (*letter.body).into(),
                attributes: attributes
                    .map(|(name, value)| ((*name).to_owned(), MessageAttribute::string(value)))
                    .collect(),
                ..Outgoing::default()
            };
            let taken = self.cloud.sqs.send(self.now, queue, message);
            if let (Ok(_), Some(subject)) = (&taken, subject) {
                let reason = letter.attributes.iter().find(|(name, _)| *name == "Reason");
                let known =
                    REASONS.into_iter().find(|known| reason.is_some_and(|(_, r)| r == known));
                self.judge.given_up(*subject, known.unwrap_or("no reason"));
            }
            answers.push(taken.map(drop).map_err(|_| Refusal::default()));
            self.drain(queue);
        }
        answers
    }

    /// The only operation of the ledger.
    fn replace(&mut self, replace: &Replace, subject: Option<Subject>) -> Answer {
        if self.happens(|rates| rates.misconfigured) {
            self.judge.tally.count(Seen::Fault(Fault::LedgerDenied));
            return Err(Refusal::of("AccessDeniedException", 400, FaultKind::Configuration));
        }
        let there = self.ledger.get(&replace.key);
        if !is_same(there, replace.seen.as_ref()) {
            return Err(Refusal { found: Some(there.cloned()), ..Refusal::default() });
        }
        match &replace.next {
            Some(next) => {
                if let (State::Done, Some(subject)) = (next.state, subject) {
                    self.judge.marked(subject);
                }
                self.ledger.insert(replace.key.clone(), next.clone());
            }
            None => {
                self.ledger.remove(&replace.key);
            }
        }
        Ok(())
    }

    fn take_invocation(&mut self, invoke: &Invoke, subject: Option<Subject>) -> Answer {
        let function = invoke.function.split(':').nth(6).unwrap_or_default();
        let target = self.targets.get(function);
        let is_denied = target.is_some_and(|&target| self.is(Trouble::AccessDenied, target));
        if is_denied || self.happens(|rates| rates.misconfigured) {
            self.judge.tally.count(match is_denied {
                true => Seen::Trouble(Trouble::AccessDenied),
                false => Seen::Fault(Fault::Misconfigured),
            });
            let (code, status) = self.dice.pick(&MISCONFIGURATIONS);
            return Err(Refusal::of(code, status, FaultKind::Configuration));
        }
        if self.happens(|rates| rates.rejected) {
            self.judge.tally.count(Seen::Fault(Fault::InvokeRejected));
            let (code, status, reason) = self.dice.pick(&REJECTIONS);
            return Err(Refusal::of(code, status, FaultKind::Refused(reason)));
        }
        let trace = self.next_hop(&invoke.trace);
        let invocation = Invocation {
            function,
            invocation_type: InvocationType::Event,
            payload: invoke.payload.as_bytes(),
            trace_header: Some(&trace),
            client_context: None,
        };
        // The only refusal by the model in this world: the function is gone.
        let accepted = self
            .cloud
            .invoke(self.now, invocation)
            .map_err(|error| Refusal::of(error.code(), error.status(), FaultKind::Configuration))?;
        if let (Accepted::Accepted(request_id), Some(subject)) = (accepted, subject) {
            self.judge.reinvoked(subject, &request_id, trace.into());
        }
        Ok(())
    }

    /// Answers have reached a handler. It may not wait for them any more.
    pub(super) fn answer(&mut self, call: &Call, answers: Vec<Answer>) {
        let Some(slot) = call.slot.upgrade() else { return };
        let is_sleep = matches!(call.request, Request::Sleep(_));
        if !is_sleep && !self.survives(call.run) {
            return;
        }
        for (subject, answer) in call.subjects.iter().zip(&answers) {
            match (subject, &call.request) {
                (None, _) => {}
                (Some(subject), Request::Replace(replace)) => {
                    self.judge.told_of_claim(*subject, replace, answer);
                }
                (Some(subject), _) => self.judge.told(*subject, answer),
            }
        }
        slot.answer(answers);
        self.poll(call.run);
    }

    /// The trace header of a request that is passed on: each hop has a parent of its own.
    fn next_hop(&mut self, trace: &str) -> String {
        let parent = format!("Parent={:016x}", self.dice.seed());
        let members = trace.split(';').map(|member| match member.starts_with("Parent=") {
            true => parent.as_str(),
            false => member,
        });
        members.collect::<Vec<_>>().join(";")
    }
}
