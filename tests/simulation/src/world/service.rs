//! The services as a handler's calls meet them: on their way there and back, anything can happen.

use std::{rc::Rc, sync::Arc, time::Duration};

use comeback_core::{
    Timestamp,
    claim::State,
    dead_letter::DeadLetter,
    fault::{FaultKind, InvokeFault, StoreFault, classify, store_fault_passes},
};
use comeback_flow::ports::{CallFault, NotReplaced};
use comeback_local::model::{
    Invocation, InvocationType, Invoked as Accepted,
    sqs::{MessageAttribute, Outgoing},
};

use super::{Step, World, handlers::timer_end};
use crate::{
    judge::{FaultSeen, REASONS, Subject},
    plan::Rates,
    spell::Trouble,
    tally::Fault,
    wire::{Asked, Entries, Hide, Invoke, Invoked, Replace, Replaced, Slot},
};

/// What Lambda says where it refuses for good, and what that means.
const REJECTIONS: [(&str, u16, &str); 5] = [
    ("InvalidRequestContentException", 400, "invoke_rejected"),
    ("UnsupportedMediaTypeException", 415, "invoke_rejected"),
    ("InvalidParameterValueException", 400, "invoke_rejected"),
    ("RequestTooLargeException", 413, "payload_too_large"),
    ("RecursiveInvocationException", 400, "recursion_stopped"),
];

/// The words of every refusal.
const SAID: &str = "the simulation says no";

/// What it says where a person must mend something.
const MISCONFIGURATIONS: [(&str, u16); 3] = [
    ("AccessDeniedException", 403),
    ("KMSDisabledException", 502),
    ("InvalidZipFileException", 502),
];

/// A call, as it is on its way.
pub(super) enum Call {
    Hide(Hide, Rc<Slot<Entries>>),
    Letters(Letters, Rc<Slot<Entries>>),
    Invoke(Invoke, Option<Subject>, Rc<Slot<Invoked>>),
    Replace(Replace, Option<Subject>, Rc<Slot<Replaced>>),
}

/// A call that sends dead letters: what each is about, and the queue that they are for.
pub(super) struct Letters {
    letters: Vec<DeadLetter<'static>>,
    subjects: Vec<Option<Subject>>,
    queue: String,
}

/// A call that reaches its service.
pub(super) struct Arrival {
    run: u64,
    call: Rc<Call>,
    back: Back,
}

/// What comes back of a call that had its effect.
#[derive(Clone, Copy)]
enum Back {
    /// Its answer, after this time.
    Answer(Duration),
    /// Nothing.
    Nothing,
}

/// An answer on its way back.
pub(super) enum Reply {
    Awake(Rc<Slot<()>>),
    Entries(Rc<Call>, Entries),
    Invoked(Rc<Call>, Invoked, Option<FaultSeen>),
    Replaced(Rc<Call>, Replaced, Option<FaultSeen>),
}

impl World {
    /// Whether a fault of this rate happens now.
    pub(super) fn happens(&mut self, rate: impl Fn(&Rates) -> f64) -> bool {
        !self.calm && self.draw.happens(rate(&self.plan.rates))
    }

    /// A handler has asked for something.
    pub(super) fn submit(&mut self, run: u64, clock: Timestamp, asked: Asked) {
        let plan = Rc::clone(&self.plan);
        let call = match asked {
            Asked::Sleep(lasts, slot) => {
                let end = timer_end(self.now, lasts);
                return self.agenda.plan(end, Step::Answer(run, Reply::Awake(slot)));
            }
            Asked::Hide(hide, slot) => {
                self.judge.hides(self.now, clock, run, &hide);
                Call::Hide(hide, slot)
            }
            Asked::Letters(letters, slot) => {
                let subjects = self.judge.gives_up(&plan, self.now, clock, run, &letters);
                let queue = self.dead_letter_queue_of(run);
                Call::Letters(Letters { letters, subjects, queue }, slot)
            }
            Asked::Invoke(invoke, slot) => {
                let subject = self.judge.invokes(&plan, self.now, clock, run, &invoke);
                Call::Invoke(invoke, subject, slot)
            }
            Asked::Replace(replace, slot) => {
                let subject = self.judge.replaces(self.now, clock, run, &replace);
                Call::Replace(replace, subject, slot)
            }
        };
        self.dispatch(run, Rc::new(call));
    }

    /// Draws the fate of a call.
    fn dispatch(&mut self, run: u64, call: Rc<Call>) {
        let out = self.draw.millis(2..=60);
        let back = self.draw.millis(2..=60);
        let round = out + back;
        let forks = self.judge.may_fork(run);
        if self.is(Trouble::CallsThrottled) {
            self.judge.tally.fault(Fault::CallsThrottled);
            self.refuse(run, &call, round, true);
        } else if self.happens(|rates| rates.refused) {
            let throttled = self.draw.happens(0.5);
            self.judge.tally.fault(if throttled {
                Fault::CallThrottled
            } else {
                Fault::ServerError
            });
            self.refuse(run, &call, round, throttled);
        } else if self.happens(|rates| rates.unsent) {
            self.judge.tally.fault(Fault::CallUnsent);
            self.time_out(run, &call);
        } else if forks && self.happens(|rates| rates.deaf) {
            self.judge.tally.fault(Fault::AnswerLost);
            self.send_off(run, &call, out, Back::Nothing);
            self.time_out(run, &call);
        } else if forks && self.happens(|rates| rates.late) {
            self.judge.tally.fault(Fault::CallLate);
            let late = self.draw.millis(1_000..=300_000);
            self.send_off(run, &call, late, Back::Nothing);
            self.time_out(run, &call);
        } else if forks && self.happens(|rates| rates.repeated) {
            self.judge.tally.fault(Fault::CallRepeated);
            self.send_off(run, &call, out, Back::Nothing);
            let again = out + self.draw.millis(100..=3_000);
            self.send_off(run, &call, again, Back::Answer(back));
        } else {
            self.send_off(run, &call, out, Back::Answer(back));
        }
    }

    fn send_off(&mut self, run: u64, call: &Rc<Call>, out: Duration, back: Back) {
        let arrival = Arrival { run, call: Rc::clone(call), back };
        self.agenda.plan(self.after(out), Step::Arrive(Box::new(arrival)));
    }

    /// The service says no to the whole call.
    fn refuse(&mut self, run: u64, call: &Rc<Call>, after: Duration, throttled: bool) {
        let of_ledger = matches!(&**call, Call::Replace(..));
        let says_when = throttled && !of_ledger && self.draw.happens(0.3);
        let (code, status) = match (of_ledger, throttled) {
            (false, true) => ("TooManyRequestsException", 429),
            (false, false) => ("ServiceException", 500),
            (true, true) => ("ProvisionedThroughputExceededException", 400),
            (true, false) => ("InternalServerError", 500),
        };
        let retry_after = says_when.then(|| self.draw.number(0..=400));
        let refusal = Refusal { code: Some(code), status: Some(status), retry_after };
        self.fail(run, call, after, refusal);
    }

    /// A call has no answer: it fails after a while, or not even that.
    fn time_out(&mut self, run: u64, call: &Rc<Call>) {
        if self.happens(|rates| rates.hanging) {
            return self.judge.tally.fault(Fault::CallHung);
        }
        let after = self.draw.millis(1_000..=20_000);
        self.fail(run, call, after, Refusal::default());
    }

    fn fail(&mut self, run: u64, call: &Rc<Call>, after: Duration, refusal: Refusal) {
        let failed = |count: usize| vec![Err(CallFault("no answer".to_owned())); count];
        let seen = Some(FaultSeen::Transient(refusal.retry_after));
        let reply = match &**call {
            Call::Hide(hide, _) => Reply::Entries(Rc::clone(call), failed(hide.changes.len())),
            Call::Letters(sent, _) => Reply::Entries(Rc::clone(call), failed(sent.letters.len())),
            Call::Invoke(..) => Reply::Invoked(Rc::clone(call), Err(refusal.of_lambda()), seen),
            Call::Replace(..) => {
                let fault = NotReplaced::Fault(refusal.of_ledger());
                Reply::Replaced(Rc::clone(call), Err(fault), seen)
            }
        };
        self.agenda.plan(self.after(after), Step::Answer(run, reply));
    }

    /// A call has reached its service, and takes effect.
    pub(super) fn arrive(&mut self, arrival: Arrival) {
        let Arrival { run, call, back } = arrival;
        if let Some(run) = self.runs.get_mut(&run) {
            run.effects += 1;
        }
        let reply = match &*call {
            Call::Hide(hide, _) => Reply::Entries(Rc::clone(&call), self.hide(hide)),
            Call::Letters(sent, _) => Reply::Entries(Rc::clone(&call), self.take_letters(sent)),
            Call::Invoke(invoke, subject, _) => {
                let (answer, seen) = self.take_invocation(invoke, *subject);
                Reply::Invoked(Rc::clone(&call), answer, seen)
            }
            Call::Replace(replace, subject, _) => {
                let (answer, seen) = self.replace(replace, *subject);
                Reply::Replaced(Rc::clone(&call), answer, seen)
            }
        };
        if let Back::Answer(after) = back {
            self.agenda.plan(self.after(after), Step::Answer(run, reply));
        }
        self.survives(run);
    }

    fn hide(&mut self, hide: &Hide) -> Entries {
        let queue = hide.queue_url.rsplit('/').next().unwrap_or_default();
        let mut entries = Entries::with_capacity(hide.changes.len());
        for (handle, seconds) in &hide.changes {
            entries.push(if self.happens(|rates| rates.entry_refused) {
                self.judge.tally.fault(Fault::VisibilityRefused);
                Err(CallFault("InternalError: one entry is refused".to_owned()))
            } else {
                let changed = self.cloud.sqs.change_visibility(self.now, queue, handle, *seconds);
                changed.map_err(|error| CallFault(error.to_string()))
            });
        }
        entries
    }

    fn take_letters(&mut self, sent: &Letters) -> Entries {
        let mut entries = Entries::with_capacity(sent.letters.len());
        for (letter, subject) in sent.letters.iter().zip(&sent.subjects) {
            if self.happens(|rates| rates.entry_refused) {
                self.judge.tally.fault(Fault::LetterRefused);
                entries.push(Err(CallFault("InternalError: one entry is refused".to_owned())));
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
            let taken = self.cloud.sqs.send(self.now, &sent.queue, message);
            if let (Ok(_), Some(subject)) = (&taken, subject) {
                let said = letter.attributes.iter().find(|(name, _)| *name == "Reason");
                let reason =
                    REASONS.into_iter().find(|known| said.is_some_and(|(_, r)| r == known));
                self.judge.given_up(self.now, *subject, reason.unwrap_or("no reason"));
            }
            entries.push(taken.map(drop).map_err(|error| CallFault(error.to_string())));
            self.drain(&sent.queue);
        }
        entries
    }

    /// The ledger's one operation.
    fn replace(
        &mut self,
        replace: &Replace,
        subject: Option<Subject>,
    ) -> (Replaced, Option<FaultSeen>) {
        if self.happens(|rates| rates.misconfigured) {
            self.judge.tally.fault(Fault::LedgerDenied);
            let code = Some("AccessDeniedException");
            let refusal = Refusal { code, status: Some(400), retry_after: None };
            return (Err(NotReplaced::Fault(refusal.of_ledger())), Some(FaultSeen::Configuration));
        }
        let there = self.ledger.get(&replace.key);
        let is_as_seen = match (there, &replace.seen) {
            (Some(there), Some(seen)) => {
                there.token == seen.token
                    && (there.state == State::Done) == (seen.state == State::Done)
            }
            (there, seen) => there.is_none() && seen.is_none(),
        };
        if !is_as_seen {
            return (Err(NotReplaced::Changed(there.cloned())), None);
        }
        match &replace.next {
            Some(next) => {
                if let (State::Done, Some(subject)) = (next.state, subject) {
                    self.judge.marked(self.now, subject);
                }
                self.ledger.insert(replace.key.clone(), next.clone());
            }
            None => {
                self.ledger.remove(&replace.key);
            }
        }
        (Ok(()), None)
    }

    fn take_invocation(
        &mut self,
        invoke: &Invoke,
        subject: Option<Subject>,
    ) -> (Invoked, Option<FaultSeen>) {
        let name = invoke.function.split(':').nth(6).unwrap_or_default();
        let denied = self.targets.get(name).copied();
        let denied = denied.is_some_and(|target| self.is(Trouble::AccessDenied { target }));
        if denied || self.happens(|rates| rates.misconfigured) {
            let kind = if denied { Fault::AccessDenied } else { Fault::Misconfigured };
            self.judge.tally.fault(kind);
            let &(code, status) = self.draw.pick(&MISCONFIGURATIONS);
            return (Err(Refusal::says(code, status)), Some(FaultSeen::Configuration));
        }
        if self.happens(|rates| rates.rejected) {
            self.judge.tally.fault(Fault::InvokeRejected);
            let &(code, status, reason) = self.draw.pick(&REJECTIONS);
            return (Err(Refusal::says(code, status)), Some(FaultSeen::Refused(reason)));
        }
        let trace = self.next_hop(invoke.trace.as_deref().unwrap_or_default());
        let invocation = Invocation {
            function: name,
            invocation_type: InvocationType::Event,
            payload: invoke.payload.as_bytes(),
            trace_header: Some(&trace),
            client_context: None,
        };
        match self.cloud.invoke(self.now, invocation) {
            Ok(Accepted::Accepted(request_id)) => {
                if let Some(subject) = subject {
                    self.judge.reinvoked(self.now, subject, &request_id, Arc::from(trace));
                }
                (Ok(()), None)
            }
            Ok(Accepted::Running(_) | Accepted::Possible) => (Ok(()), None),
            // The one refusal that this world provokes: its function is gone.
            Err(error) => {
                (Err(Refusal::says(error.code(), error.status())), Some(FaultSeen::Configuration))
            }
        }
    }

    /// An answer has reached a handler, if that still waits for it.
    pub(super) fn answer(&mut self, run: u64, reply: Reply) {
        if !self.runs.contains_key(&run) {
            return;
        }
        match reply {
            Reply::Awake(slot) => {
                if !slot.is_awaited() {
                    return;
                }
                slot.answer(());
            }
            Reply::Entries(call, entries) => {
                let (Call::Hide(_, slot) | Call::Letters(_, slot)) = &*call else { return };
                if !slot.is_awaited() || !self.survives(run) {
                    return;
                }
                if let Call::Letters(sent, _) = &*call {
                    for (subject, entry) in sent.subjects.iter().zip(&entries) {
                        if let Some(subject) = subject {
                            let answer = entry.as_ref().map(|&()| ()).map_err(|_| None);
                            self.judge.told(self.now, *subject, answer);
                        }
                    }
                }
                slot.answer(entries);
            }
            Reply::Invoked(call, answer, seen) => {
                let Call::Invoke(_, subject, slot) = &*call else { return };
                if !slot.is_awaited() || !self.survives(run) {
                    return;
                }
                if let Some(subject) = subject {
                    let told = answer.as_ref().map(|&()| ()).map_err(|_| seen);
                    self.judge.told(self.now, *subject, told);
                }
                slot.answer(answer);
            }
            Reply::Replaced(call, answer, seen) => {
                let Call::Replace(replace, subject, slot) = &*call else { return };
                if !slot.is_awaited() || !self.survives(run) {
                    return;
                }
                if let Some(subject) = subject {
                    self.judge.told_of_claim(self.now, *subject, replace, &answer, seen);
                }
                slot.answer(answer);
            }
        }
        self.poll(run);
    }

    /// The header of a request on its way on: another parent, as each hop has one of its own.
    fn next_hop(&mut self, trace: &str) -> String {
        let parent = format!("Parent={:016x}", self.draw.seed());
        let members = trace.split(';').map(|member| match member.starts_with("Parent=") {
            true => parent.as_str(),
            false => member,
        });
        members.collect::<Vec<_>>().join(";")
    }
}

/// What a service says instead of yes; nothing where there is no answer.
#[derive(Default)]
struct Refusal {
    code: Option<&'static str>,
    status: Option<u16>,
    retry_after: Option<u64>,
}

impl Refusal {
    fn says(code: &'static str, status: u16) -> InvokeFault {
        Self { code: Some(code), status: Some(status), retry_after: None }.of_lambda()
    }

    /// What production's own adapters make of it.
    fn of_lambda(&self) -> InvokeFault {
        let retry_after = self.retry_after.map(Duration::from_secs);
        self.of(classify(self.code, self.status, retry_after))
    }

    fn of_ledger(&self) -> StoreFault {
        StoreFault {
            passes: store_fault_passes(self.code, self.status),
            code: self.code.map(str::to_owned),
            message: SAID.to_owned(),
        }
    }

    fn of(&self, kind: FaultKind) -> InvokeFault {
        InvokeFault { kind, code: self.code.map(str::to_owned), message: SAID.to_owned() }
    }
}
