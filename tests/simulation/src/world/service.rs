//! The services that a handler's calls reach. Anything can go wrong with a call and its answer.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::RangeInclusive,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use comeback_core::{
    Timestamp,
    circuit::Minute,
    dead_letter::DeadLetter,
    fault::FaultKind,
    reason::Reason,
    time::{at_millis, between, later},
};
use comeback_flow::ports::Stored;
use comeback_local_model::{
    Invocation, InvocationType, Invoked as Accepted,
    sqs::{MessageAttribute, Outgoing},
};
use wire::{Answer, Exchange, Found, Invoke, Refusal, Reply, Request, Slot};

use super::{Step, World};
use crate::{
    choices::Of,
    faults::{Fault, Trouble},
    judge::{Move, Subject},
    seen::Seen,
};

/// The errors with which Lambda refuses an invocation for good, and the reasons that they lead to.
const REJECTIONS: [(&str, u16, Reason); 5] = [
    ("InvalidRequestContentException", 400, Reason::InvokeRejected),
    ("UnsupportedMediaTypeException", 415, Reason::InvokeRejected),
    ("InvalidParameterValueException", 400, Reason::InvokeRejected),
    ("RequestTooLargeException", 413, Reason::PayloadTooLarge),
    ("RecursiveInvocationException", 400, Reason::RecursionStopped),
];

/// The same of SQS, for a message that is sent back.
const SEND_REJECTIONS: [(&str, u16, Reason); 2] = [
    ("InvalidMessageContents", 400, Reason::InvokeRejected),
    ("InvalidParameterValue", 400, Reason::InvokeRejected),
];

/// The errors of Lambda, and of SQS, that a person has to fix.
const MISCONFIGURATIONS: [(&str, u16); 3] = [
    ("AccessDeniedException", 403),
    ("KMSDisabledException", 502),
    ("InvalidZipFileException", 502),
];
const SEND_MISCONFIGURATIONS: [(&str, u16); 3] = [
    ("AccessDenied", 403),
    ("AWS.SimpleQueueService.NonExistentQueue", 400),
    ("KMS.KmsDisabled", 400),
];

/// The greatest age of a count of messages in flight.
const COUNT_LAG: Duration = Duration::from_mins(1);

/// A wrong count is at most twice the right one, plus this number.
const IN_FLIGHT_WRONG: u64 = 20;

/// How often the SDK makes a call for one invocation.
const TRIES_MAX: u32 = 3;

/// How long a slow call to the ledger takes, in milliseconds: almost as long as the handler waits for it.
const LEDGER_SLOW: RangeInclusive<u64> = 300..=2_900;

/// A call of a run, and the slot for its answers.
pub struct Call {
    run: u64,
    handler: usize,
    of: Of,
    request: Request,
    /// The subject of each entry. Visibility changes and counts don't need it.
    subjects: Vec<Option<Subject>>,
    /// Whether it is the look-up of a batch that asks which runs have failed.
    is_recall: bool,
    /// How many calls were made before it for the same invocation, which Lambda may have accepted unseen.
    unanswered: Cell<u32>,
    slot: Weak<Slot>,
}

impl Call {
    fn is_of_ledger(&self) -> bool {
        matches!(
            self.request,
            Request::Write(_)
                | Request::Note { .. }
                | Request::Take { .. }
                | Request::Siblings { .. }
                | Request::LookUp { .. }
                | Request::Exchange(_)
                | Request::List { .. }
        )
    }

    /// Whether the handler still waits for an answer.
    pub fn is_awaited(&self) -> bool {
        self.slot.strong_count() > 0
    }
}

impl World {
    pub fn draws(&mut self, of: Of, fault: Fault) -> bool {
        let rate = self.plan.rates.get(&fault).copied().unwrap_or_default();
        !self.is_calm && self.choices.happens(of, fault, rate)
    }

    /// Draws whether a fault happens now, and counts it if so.
    pub fn happens(&mut self, of: Of, fault: Fault) -> bool {
        let happens = self.draws(of, fault);
        if happens {
            self.judge.known.tally.count(Seen::Fault(fault));
        }
        happens
    }

    pub fn submit(&mut self, run: u64, clock: Timestamp, request: Request, slot: Weak<Slot>) {
        let Some(handler) = self.runs.get(&run).map(|run| run.handler) else { return };
        let is_recall = matches!(request, Request::LookUp { .. }) && self.judge.known.recalls(run);
        let subjects = match &request {
            Request::Sleep(_) => Vec::new(),
            Request::Read(location) => vec![self.judge.reads_record(run, location)],
            Request::Hide { changes, .. } => {
                self.judge.hides(run, clock, changes);
                vec![None; changes.len()]
            }
            Request::Count { .. } | Request::Minutes { .. } => vec![None],
            Request::Exchange(exchange) => {
                self.judge.turns(run, exchange);
                vec![None]
            }
            Request::List { target, count, .. } => {
                self.judge.moves(run, target, Move::AsksFor(*count));
                vec![None]
            }
            Request::Again { queue_url, messages, origins } => {
                self.judge.sends_again(run, clock, name_of(queue_url), messages, origins)
            }
            Request::Letters(letters) => self.judge.gives_up(run, clock, letters),
            Request::Invoke(invoke) => vec![self.judge.invokes(run, clock, invoke)],
            Request::Write(write) => vec![self.judge.writes(run, write)],
            Request::Note { known, .. } => vec![self.judge.notes(run, known)],
            Request::Take { run: taker, .. } => vec![self.judge.asks_to_take(run, taker)],
            Request::Siblings { key, only_children: false } => {
                vec![self.judge.looks_closer(run, key)]
            }
            Request::Siblings { key, only_children: true } => vec![self.judge.compares(run, key)],
            Request::LookUp { .. } if is_recall => {
                self.judge.known.asks_for_runs(run);
                vec![None]
            }
            Request::LookUp { runs, targets } => {
                self.judge.looks_up(run, clock, runs, targets);
                vec![None]
            }
        };
        let of = self.of_call(run, &request, &subjects);
        let unanswered = Cell::new(0);
        let call = Call { run, handler, of, request, subjects, is_recall, unanswered, slot };
        let call = Rc::new(call);
        if let Request::Sleep(lasts) = call.request {
            // Whole milliseconds, like every time here.
            let millis = lasts.as_nanos().div_ceil(1_000_000) as u64;
            self.answer_after(Duration::from_millis(millis), call, Reply::default());
        } else {
            self.dispatch(call);
        }
    }

    /// Draws the outcome of a call.
    fn dispatch(&mut self, call: Rc<Call>) {
        let of = call.of;
        let before = self.makes_before(&call);
        let out = self.choices.millis(of, "arrives after", 2..=60) + before;
        let back = self.choices.millis(of, "answered after", 2..=60);
        let may_fork = self.judge.known.may_fork(call.run);
        if self.is(Trouble::CallsThrottled, 0) {
            self.judge.known.tally.count(Seen::Trouble(Trouble::CallsThrottled));
            self.refuse(call, out + back, true);
        } else if self.draws(of, Fault::CallThrottled) {
            let is_throttled = self.choices.happens(of, "says so", 0.5);
            let fault = if is_throttled { Fault::CallThrottled } else { Fault::ServerError };
            self.judge.known.tally.count(Seen::Fault(fault));
            self.refuse(call, out + back, is_throttled);
        } else if self.happens(of, Fault::CallUnsent) {
            self.time_out(call);
        } else if may_fork && self.happens(of, Fault::AnswerLost) {
            self.send_off(&call, out, None);
            self.time_out(call);
        } else if may_fork && self.happens(of, Fault::CallLate) {
            let out = self.choices.millis(of, "arrives late after", 1_000..=300_000);
            self.send_off(&call, out, None);
            self.time_out(call);
        } else if may_fork && self.happens(of, Fault::CallRepeated) {
            self.send_off(&call, out, None);
            call.unanswered.set(call.unanswered.get() + 1);
            let again = out + self.choices.millis(of, "repeated after", 100..=3_000);
            self.send_off(&call, again, Some(back));
        } else if call.is_of_ledger() && self.happens(of, Fault::LedgerSlow) {
            let out = self.choices.millis(of, "arrives slowly after", LEDGER_SLOW);
            self.send_off(&call, out, Some(back));
        } else {
            // The time of the handler may be up before the last of several calls is answered.
            if before.is_zero() {
                self.judge.will_be_told(&call.request, &call.subjects);
            }
            self.send_off(&call, out, Some(back));
        }
    }

    /// The SDK repeats an invocation that fails, and judges each call by its own answer. Draws what becomes of all
    /// calls before the last. Returns how long they take.
    fn makes_before(&mut self, call: &Rc<Call>) -> Duration {
        let mut took = Duration::ZERO;
        let is_invocation = matches!(call.request, Request::Invoke(_));
        for _ in (1..TRIES_MAX).filter(|_| is_invocation) {
            if !self.happens(call.of, Fault::InvokeRepeated) {
                break;
            }
            let step = match self.choices.kind(call.of, "made before", 0..=3, 0) {
                0 => "throttled and repeated",
                1 => {
                    call.unanswered.set(call.unanswered.get() + 1);
                    "unanswered and repeated"
                }
                _ if !self.judge.known.may_fork(call.run) => break,
                kind => {
                    call.unanswered.set(call.unanswered.get() + 1);
                    let late = if kind == 3 { 60_000 } else { 60 };
                    let out = took + self.choices.millis(call.of, "accepted after", 2..=late);
                    self.send_off(call, out, None);
                    "accepted unseen and repeated"
                }
            };
            self.judge.known.tally.count(Seen::Step(step));
            took += self.choices.millis(call.of, "made again after", 20..=2_000);
        }
        took
    }

    /// The call reaches its service after `out`. Its answer takes `back`, or is lost.
    fn send_off(&mut self, call: &Rc<Call>, out: Duration, back: Option<Duration>) {
        let call = Rc::clone(call);
        self.after(out, move |world| world.arrive(&call, back));
    }

    fn refuse(&mut self, call: Rc<Call>, after: Duration, is_throttled: bool) {
        let of_ledger = call.is_of_ledger();
        let of_bucket = matches!(call.request, Request::Read(_));
        let of_queue = matches!(call.request, Request::Again { .. });
        let may_say = !of_ledger && !of_queue && !of_bucket;
        let of = call.of;
        let says_when = is_throttled && may_say && self.choices.happens(of, "says when", 0.3);
        let (code, status) = match (of_ledger, is_throttled) {
            (false, true) if of_bucket => ("SlowDown", 503),
            (false, false) if of_bucket => ("InternalError", 500),
            (false, true) => ("TooManyRequestsException", 429),
            (false, false) => ("ServiceException", 500),
            (true, true) => ("ProvisionedThroughputExceededException", 400),
            (true, false) => ("InternalServerError", 500),
        };
        let retry_after = says_when
            .then(|| self.choices.number(of, "asks for", 0..=400))
            .map(Duration::from_secs);
        let transient = FaultKind::Transient { retry_after };
        self.fail(call, after, Refusal { retry_after, ..Refusal::of(code, status, transient) });
    }

    /// A call gets no answer. It times out after a while, or never.
    fn time_out(&mut self, call: Rc<Call>) {
        if self.happens(call.of, Fault::CallHung) {
            return;
        }
        let after = self.choices.millis(call.of, "times out after", 1_000..=20_000);
        let kind = Some(FaultKind::Transient { retry_after: None });
        self.fail(call, after, Refusal { kind, ..Refusal::default() });
    }

    fn fail(&mut self, call: Rc<Call>, after: Duration, mut refusal: Refusal) {
        let needs_kind = |request: &Request| {
            matches!(
                request,
                Request::Invoke(_)
                    | Request::Read(_)
                    | Request::Again { .. }
                    | Request::Write(_)
                    | Request::LookUp { .. }
                    | Request::Siblings { .. }
                    | Request::Take { .. }
            )
        };
        if !needs_kind(&call.request) {
            refusal.kind = None;
        }
        let entries = vec![Err(refusal); call.subjects.len()];
        let found = unanswered(&call);
        self.answer_after(after, call, Reply { entries, found });
    }

    fn answer_after(&mut self, after: Duration, call: Rc<Call>, reply: Reply) {
        self.plan_step(after, Step::Answer(call, reply));
    }

    /// A call reaches its service and takes effect.
    fn arrive(&mut self, call: &Rc<Call>, back: Option<Duration>) {
        let (run, of) = (call.run, call.of);
        if let Some(run) = self.runs.get_mut(&run) {
            run.effects += 1;
        }
        let subject = call.subjects.first().copied().flatten();
        let reply: Reply = match &call.request {
            Request::Sleep(_) => Reply::default(),
            Request::Read(location) => self.read_record(of, location).into(),
            Request::Hide { queue_url, changes } => self.hide(of, queue_url, changes).into(),
            Request::Count { queue_url } => self.count(of, name_of(queue_url)).into(),
            Request::Again { queue_url, messages, .. } => {
                let queue = name_of(queue_url);
                match self.plan.source(queue) {
                    Some(target) => self.take_back(call, target, messages).into(),
                    None => self.take_again(call, queue, messages).into(),
                }
            }
            Request::Letters(letters) => self.take_letters(call, letters).into(),
            Request::Invoke(invoke) => match self.take_invocation(of, invoke, subject) {
                Ok(request_id) => {
                    Ok(Found::Accepted { request_id, unanswered: call.unanswered.get() }).into()
                }
                Err(refusal) => Reply { entries: vec![Err(refusal)], found: unanswered(call) },
            },
            Request::Write(write) => vec![self.write(of, write, subject)].into(),
            Request::Note { key, known } => vec![self.note(of, key, known, subject)].into(),
            Request::Take { key, call, run: taker } => self.take_call(of, key, call, taker).into(),
            Request::Siblings { key, only_children } => {
                let read = self.siblings(of, key, *only_children);
                if let (Ok(Found::Siblings(siblings)), Some(subject)) = (&read, subject) {
                    self.judge.known.reads_siblings(subject, siblings);
                }
                read.into()
            }
            Request::LookUp { runs, targets } if call.is_recall => {
                self.look_up(of, (run, true), runs, targets).into()
            }
            Request::LookUp { runs, targets } => {
                let read = self.look_up(of, (run, false), runs, targets);
                let none = BTreeMap::new();
                let known =
                    if let Ok(Found::LookedUp { circuits, .. }) = &read { circuits } else { &none };
                self.judge.looked_up(run, targets, known);
                read.into()
            }
            Request::Exchange(exchange) => self.exchange(of, run, exchange),
            Request::List { target, after, count } => {
                self.list(of, run, target, *after, *count).into()
            }
            Request::Minutes { function, from } => {
                let minutes = self.minutes(of, *from);
                self.judge.known.witnessed(run, function, &minutes);
                Ok(Found::Minutes(minutes)).into()
            }
        };
        if let Some(after) = back {
            self.answer_after(after, Rc::clone(call), reply);
        }
        self.survives(run);
    }

    pub fn ask_ledger(&mut self, of: Of) -> Answer {
        if self.draws(of, Fault::Misconfigured) {
            self.judge.known.tally.count(Seen::Fault(Fault::LedgerDenied));
            return Err(Refusal::of("AccessDeniedException", 400, FaultKind::Configuration));
        }
        Ok(())
    }

    fn hide(&mut self, of: Of, queue_url: &str, changes: &[(String, u32)]) -> Vec<Answer> {
        let queue = name_of(queue_url);
        let change = |(handle, seconds): &(String, u32)| {
            if self.draws(of, Fault::LetterRefused) {
                self.judge.known.tally.count(Seen::Fault(Fault::VisibilityRefused));
                return Err(Refusal::default());
            }
            let changed = self.cloud.sqs.change_visibility(self.now, queue, handle, *seconds);
            changed.map_err(|_| Refusal::default())
        };
        changes.iter().map(change).collect()
    }

    /// Counts the messages of a queue that are in flight. The result may be up to a minute old.
    fn count(&mut self, of: Of, queue: &str) -> Result<Found, Refusal> {
        if self.is_send_denied(queue) {
            return Err(Refusal::default());
        }
        let attributes = self.cloud.sqs.attributes(self.now, queue).unwrap_or_default();
        let told = attributes.get("ApproximateNumberOfMessagesNotVisible");
        let in_flight = told.and_then(|told| told.parse().ok()).unwrap_or_default();
        let before = self.counted.insert(queue.to_owned(), (self.now, in_flight));
        let before = before.filter(|(at, _)| between(*at, self.now) <= COUNT_LAG);
        Ok(Found::Count(match before {
            Some((_, before)) if self.happens(of, Fault::InFlightLate) => before,
            _ if self.happens(of, Fault::InFlightWrong) => {
                self.choices.number(of, "counted", 0..=2 * in_flight + IN_FLIGHT_WRONG)
            }
            _ => in_flight,
        }))
    }

    fn take_again(&mut self, call: &Call, queue: &str, messages: &[Outgoing]) -> Vec<Answer> {
        let is_denied = self.is_send_denied(queue);
        let send = |(message, subject): (&Outgoing, &Option<Subject>)| {
            if is_denied {
                let (code, status) = SEND_MISCONFIGURATIONS[0];
                return Err(Refusal::of(code, status, FaultKind::Configuration));
            }
            let may_refuse = subject.is_none_or(|of| self.judge.known.may_refuse(of));
            if may_refuse && self.draws(call.of, Fault::LetterRefused) {
                self.judge.known.tally.count(Seen::Fault(Fault::DelayRefused));
                return Err(Refusal::default());
            }
            let mut message = message.clone();
            if let Some(own) = subject.and_then(|of| self.judge.known.trace_of_part(of)) {
                message.trace_header = Some(own.to_owned());
            }
            let sent = self.cloud.sqs.send(self.now, queue, message);
            sent.map_err(|_| Refusal::default())?;
            subject.iter().for_each(|subject| self.judge.sent_again(*subject));
            Ok(())
        };
        messages.iter().zip(&call.subjects).map(send).collect()
    }

    /// Draws whether SQS refuses a call that sends this many messages, because of one of them.
    fn is_refused(&mut self, of: Of, messages: usize) -> bool {
        messages > 1 && self.happens(of, Fault::CallRefused)
    }

    /// Messages arrive at a source queue. Each is accepted or refused by itself, or all are refused because of one.
    fn take_back(&mut self, call: &Call, target: usize, messages: &[Outgoing]) -> Vec<Answer> {
        if self.is_refused(call.of, messages.len()) {
            let (code, status, reason) = SEND_REJECTIONS[1];
            let refusal = Refusal::of(code, status, FaultKind::Refused(reason));
            return vec![Err(refusal); messages.len()];
        }
        let plan = Rc::clone(&self.plan);
        let queue = &plan.targets[target].name;
        let mut send = |(message, subject): (&Outgoing, &Option<Subject>)| {
            if self.draws(call.of, Fault::LetterRefused) {
                self.judge.known.tally.count(Seen::Fault(Fault::ReturnRefused));
                let transient = FaultKind::Transient { retry_after: None };
                return Err(Refusal::of("InternalError", 500, transient));
            }
            self.admit(call.of, Some(target), &SEND_MISCONFIGURATIONS, &SEND_REJECTIONS)?;
            if self.is_gone(target) {
                let (code, status) = SEND_MISCONFIGURATIONS[1];
                return Err(Refusal::of(code, status, FaultKind::Configuration));
            }
            // SQS keeps a trace as it is. The judge tells attempts apart by their traces.
            let trace = self.next_hop(message.trace_header.as_deref().unwrap_or_default());
            let message = Outgoing { trace_header: Some(trace.clone()), ..message.clone() };
            let sent = self.cloud.sqs.send(self.now, queue, message);
            let id = Arc::clone(&sent.map_err(|_| Refusal::default())?.message_id);
            subject.iter().for_each(|of| self.judge.reinvoked(*of, &id, &trace));
            Ok(())
        };
        messages.iter().zip(&call.subjects).map(&mut send).collect()
    }

    /// Draws whether a target's retry is refused, until a person fixes the cause or for good.
    fn admit(
        &mut self,
        of: Of,
        target: Option<usize>,
        misconfigurations: &[(&'static str, u16)],
        rejections: &[(&'static str, u16, Reason)],
    ) -> Answer {
        let is_denied = target.is_some_and(|target| self.is(Trouble::AccessDenied, target));
        if is_denied || self.draws(of, Fault::Misconfigured) {
            self.judge.known.tally.count(match is_denied {
                true => Seen::Trouble(Trouble::AccessDenied),
                false => Seen::Fault(Fault::Misconfigured),
            });
            let (code, status) = self.choices.pick(of, "misconfiguration", misconfigurations);
            return Err(Refusal::of(code, status, FaultKind::Configuration));
        }
        if self.happens(of, Fault::InvokeRejected) {
            let (code, status, reason) = self.choices.pick(of, "rejection", rejections);
            return Err(Refusal::of(code, status, FaultKind::Refused(reason)));
        }
        Ok(())
    }

    fn is_send_denied(&mut self, queue: &str) -> bool {
        let number = self.plan.queues.iter().position(|other| other.name == queue);
        let is_denied = number.is_some_and(|number| self.is(Trouble::SendDenied, number));
        if is_denied {
            self.judge.known.tally.count(Seen::Trouble(Trouble::SendDenied));
        }
        is_denied
    }

    fn take_letters(&mut self, call: &Call, letters: &[DeadLetter]) -> Vec<Answer> {
        let plan = Rc::clone(&self.plan);
        let queue = &plan.handlers[call.handler].dead_letter_queue;
        if self.is_refused(call.of, letters.len()) {
            let (code, status, _) = SEND_REJECTIONS[1];
            let refusal = Refusal { code: Some(code), status: Some(status), ..Refusal::default() };
            return vec![Err(refusal); letters.len()];
        }
        let send = |(letter, subject): (&DeadLetter<'_>, &Option<Subject>)| {
            if self.happens(call.of, Fault::LetterRefused) {
                return Err(Refusal::default());
            }
            let attribute = |(name, value): &(&'static str, String)| {
                ((*name).to_owned(), MessageAttribute::string(value))
            };
            let attributes = letter.attributes.iter().map(attribute).collect();
            let body = (*letter.body).into();
            let message = Outgoing { body, attributes, ..Outgoing::default() };
            let sent = self.cloud.sqs.send(self.now, queue, message).map(drop);
            if let (Ok(()), Some(subject)) = (&sent, subject) {
                self.check_pointer(*subject, letter);
                self.judge.given_up(*subject, letter);
            }
            self.drain(queue);
            sent.map_err(|_| Refusal::default())
        };
        letters.iter().zip(&call.subjects).map(send).collect()
    }

    /// A conditional write of a circuit, the only way to change one.
    fn exchange(&mut self, of: Of, run: u64, exchange: &Exchange) -> Reply {
        if let Err(refusal) = self.ask_ledger(of) {
            return vec![Err(refusal)].into();
        }
        let Exchange { target, seen, next } = exchange;
        let stored = self.circuits.entry(target.clone()).or_default();
        if stored.version != *seen {
            self.judge.not_turned(run, target, stored);
            let entries = vec![Err(Refusal { found: Some(None), ..Refusal::default() })];
            return Reply { entries, found: Found::Circuit(stored.clone()) };
        }
        self.judge.turned(run, target, stored.text.as_deref(), next);
        *stored = Stored { version: seen + 1, text: Some(next.clone()) };
        vec![Ok(())].into()
    }

    /// The minutes that CloudWatch shows of a function: up or down, true or false, or none at all. Those of an outage
    /// are true, and become visible one or two minutes after they have ended.
    fn minutes(&mut self, of: Of, from: Timestamp) -> Vec<Minute> {
        if self.plan.outage.is_some() {
            let all = self.minutes.iter().map(|(minute, &(invocations, errors))| Minute {
                began: at_millis(*minute as u64 * 60_000),
                invocations,
                errors,
            });
            let lag = |minute: &Minute| Duration::from_secs(120 + minute.invocations as u64 % 60);
            let is_visible = |it: &Minute| from <= it.began && later(it.began, lag(it)) <= self.now;
            return all.filter(is_visible).collect();
        }
        let errors = match self.choices.kind(of, "CloudWatch", 0..=2, 2) {
            0 if !self.is_calm => 100,
            1 => 10,
            _ => return Vec::new(),
        };
        let began = self.now - Duration::from_mins(2);
        vec![Minute { began, invocations: 100, errors }]
    }

    /// Returns the request id of the invocation.
    fn take_invocation(
        &mut self,
        of: Of,
        invoke: &Invoke,
        subject: Option<Subject>,
    ) -> Result<String, Refusal> {
        let function = invoke.target.split(':').nth(6).unwrap_or_default();
        let target = self.targets.get(function).copied();
        self.admit(of, target, &MISCONFIGURATIONS, &REJECTIONS)?;
        let Outgoing { body, trace_header, .. } = &invoke.message;
        let trace = self.next_hop(trace_header.as_deref().unwrap_or_default());
        let trace = self.next_root(of, trace);
        let invocation = Invocation {
            function,
            invocation_type: InvocationType::Event,
            payload: body.as_bytes(),
            trace_header: Some(&trace),
            ..Invocation::default()
        };
        // The only refusal by the model in this world is that the function is gone.
        let accepted = self
            .cloud
            .invoke(self.now, invocation)
            .map_err(|error| Refusal::of(error.code(), error.status(), FaultKind::Configuration))?;
        let Accepted::Accepted(request_id) = accepted else { return Ok(String::new()) };
        if let Some(subject) = subject {
            self.judge.reinvoked(subject, &request_id, &trace);
        }
        Ok(request_id.to_string())
    }

    /// Answers arrive at a handler, which may no longer wait for them.
    pub fn answer(&mut self, call: &Call, reply: Reply) {
        let Some(slot) = call.slot.upgrade() else { return };
        let is_sleep = matches!(call.request, Request::Sleep(_));
        if !is_sleep && !self.survives(call.run) {
            return;
        }
        match (&call.request, reply.entries.first()) {
            (Request::LookUp { .. }, Some(answer)) if call.is_recall => {
                self.judge.told_of_runs(call.run, answer, &reply.found);
            }
            (Request::LookUp { targets, .. }, Some(answer)) => {
                self.judge.told_of_look_up(call.run, answer);
                if answer.is_err() {
                    self.judge.looked_up(call.run, targets, &BTreeMap::new());
                }
            }
            (Request::List { target, count, .. }, Some(answer)) => {
                let may_be_more = matches!(&reply.found, Found::Listed(it)
                    if it.has_delays || it.in_flight.len() >= *count as usize);
                if answer.is_err() || may_be_more {
                    self.judge.moves(call.run, target, Move::MoreWait);
                }
            }
            (Request::Exchange(exchange), Some(answer)) => {
                self.judge.told_of_turn(call.run, exchange, answer);
            }
            _ => {}
        }
        for (subject, answer) in call.subjects.iter().zip(&reply.entries) {
            match (subject, &call.request) {
                (None, _) => {}
                (Some(subject), Request::Read(_)) => {
                    let at = self.clock_of(call.run).timestamp_millis();
                    self.judge.known.told_of_record(*subject, at, answer);
                }
                (Some(subject), Request::Write(write)) => {
                    self.judge.told_of_claim(*subject, write, answer);
                }
                (Some(_), Request::Note { .. }) => {}
                (Some(subject), Request::Siblings { only_children: true, .. }) => {
                    self.judge.known.has_compared(*subject, answer);
                }
                (Some(subject), Request::Siblings { .. }) => {
                    let now = self.clock_of(call.run);
                    self.judge.told_of_siblings(*subject, now, answer, &reply.found);
                }
                (Some(subject), Request::Take { .. }) => {
                    let now = self.clock_of(call.run);
                    let is_taken = matches!(reply.found, Found::Taken(true));
                    self.judge.told_of_taking(*subject, now, answer, is_taken);
                }
                (Some(subject), Request::Again { queue_url, .. })
                    if self.plan.source(name_of(queue_url)).is_none() =>
                {
                    self.judge.told_of_copy(*subject, answer);
                }
                (Some(subject), _) => {
                    self.judge.told(*subject, &reply.found, answer);
                }
            }
        }
        if call.subjects.len() > 1 && reply.entries.iter().all(is_send_rejected) {
            self.judge.known.refused_together(&call.subjects);
        }
        slot.answer(reply);
        self.poll(call.run);
    }

    /// The trace header that Lambda passes on to an invocation. It should have the same root.
    fn next_root(&mut self, of: Of, trace: String) -> String {
        let is_root = |member: &&str| member.starts_with("Root=");
        let rest = || trace.split(';').filter(|it| !is_root(it)).collect::<Vec<_>>().join(";");
        if self.happens(of, Fault::RootLost) {
            return rest();
        }
        if self.happens(of, Fault::RootChanged) {
            let rest = rest();
            return self.trace_with(rest);
        }
        trace
    }

    /// The trace header of a request that is passed on: each hop has a new parent.
    fn next_hop(&mut self, trace: &str) -> String {
        let parent = format!("Parent={:016x}", self.choices.seed());
        let is_parent = |member: &str| member.starts_with("Parent=");
        let members = trace.split(';').map(|it| if is_parent(it) { parent.as_str() } else { it });
        members.collect::<Vec<_>>().join(";")
    }
}

/// What an answer without success says beside its error.
fn unanswered(call: &Call) -> Found {
    match (call.unanswered.get(), &call.request) {
        (1.., Request::Invoke(_)) => Found::Unanswered(call.unanswered.get()),
        _ => Found::Nothing,
    }
}

/// Whether SQS has refused a message for good.
fn is_send_rejected(answer: &Answer) -> bool {
    let code = answer.as_ref().err().and_then(|refusal| refusal.code);
    SEND_REJECTIONS.iter().any(|(rejection, ..)| code == Some(rejection))
}

/// The name of a queue, from its URL.
pub fn name_of(queue_url: &str) -> &str {
    queue_url.rsplit('/').next().unwrap_or_default()
}
