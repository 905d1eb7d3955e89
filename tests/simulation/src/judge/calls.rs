//! The rules for a handler's calls to SQS and Lambda.

use std::{num::NonZero, rc::Rc, sync::Arc};

use comeback_core::{
    Timestamp, claim::Order, dead_letter::DeadLetter, fault::FaultKind, lineage::Key,
};
use comeback_local_model::{
    lambda::name::{arn, qualified_arn},
    queue_arn,
    sqs::AttributeValue,
};
use wire::{Answer, Invoke, Request};

use super::{
    Judge, Open, REASONS,
    cases::Case,
    delays::{DELAY_MAX, HOP_MIN, content},
    deliveries::Delivery,
    letters::attribute,
    promises::Happens,
    records::Fetch,
    register::{Wait, came_back},
};
use crate::{
    notes::{Check, Seen},
    payload::METADATA,
    plan::{Form, Plan, TargetPlan},
    rules::{Millis, Next},
};

/// SQS accepts at most this many entries in one call, and together at most as many bytes as one message may have.
const ENTRIES_MAX: usize = 10;
const CALL_BYTES_MAX: usize = 1_048_576;

/// The longest wait, in seconds: twelve hours less a minute.
const WAIT_MAX: u32 = 43_140;

/// How late an attempt may be if nothing prevents it: visibility timeouts are in whole seconds, and the previous batch
/// takes some time.
const LATENESS_MAX: Millis = 5_000;

/// The subject of a call: a message in the batch of a run, and its case.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub run: u64,
    pub place: usize,
    pub case: usize,
    /// The call that is made without an envelope.
    pub call: Option<usize>,
    /// The part of a notice that is sent.
    pub part: Option<usize>,
}

impl Judge {
    /// A handler retries an event: it invokes a function, or sends a message back to its queue. Returns the message
    /// that the call is about.
    pub fn invokes(&mut self, run: u64, clock: Timestamp, invoke: &Invoke) -> Option<Subject> {
        let trace = invoke.message.trace_header.as_deref().unwrap_or_default();
        let index = self.case_with(trace);
        let batch = self.runs.get_mut(&run)?;
        let is_it = |message: &Delivery| {
            let is_free = message.invoked_at.is_none() && message.is_read();
            message.is_origin(invoke.origin) && Some(message.case) == index && is_free
        };
        let (Some(case), Some(place)) = (index, batch.iter().position(is_it)) else {
            let what = format!("run {run} invokes with trace {trace:?}, which no message has left");
            self.violated(Check::RightTarget, index.map(|index| self.cases[index].of.event), what);
            return None;
        };
        let is_claimed = batch[place].claim.is_some();
        let at = clock.timestamp_millis();
        batch[place].invoked_at = Some(at);
        let event = self.cases[case].of.event;
        if !is_claimed {
            self.judge_begin(run, place);
        }
        if self.is_held_back(&self.runs[&run][place]) {
            self.violated(Check::PausesHold, event, format!("run {run} invokes a paused target"));
        }
        let call = self.runs[&run][place].call;
        let came_back = came_back(self.runs[&run][place].record());
        let may_be_early = self.judge_probe(run, &invoke.target, case, came_back);
        let place_since = self.place_since(&self.runs[&run][place]);
        let wrong = self.wrong_invocation(at, &self.cases[case], invoke, may_be_early, place_since);
        let is_outdated = self.is_outdated(&self.runs[&run][place]);
        if let Some((check, what)) = wrong.filter(|_| !is_outdated) {
            self.violated(check, event, what);
        }
        Some(Subject { run, place, case, call, part: None })
    }

    /// Returns what is wrong with an invocation, or None.
    fn wrong_invocation(
        &self,
        at: Millis,
        case: &Case,
        invoke: &Invoke,
        may_be_early: bool,
        place_since: Option<Millis>,
    ) -> Option<(Check, String)> {
        let next = match case.verdict() {
            Ok(next) => next,
            Err(reason) => {
                let what = format!("it is invoked, and to be given up as {reason}");
                return Some((Check::OverIsOver, what));
            }
        };
        if case.order == Some(Order::Cancel) {
            return Some((Check::OverIsOver, "it is invoked after it was cancelled".to_owned()));
        }
        let (earliest, latest) = case.due_range(next);
        let arn = case.arn(&self.plan);
        let initial = (!case.is_transparent).then(|| case.first.div_euclid(1000));
        let expected = self.expected(&case.of, next.attempt, initial);
        let ordinal = format!(r#"{{"attempt":{},"#, next.attempt);
        let Invoke { target, message, .. } = invoke;
        let metadata = match message.attributes.get(METADATA).map(|it| &it.value) {
            Some(AttributeValue::String(text)) => text,
            _ => message.body.strip_prefix(r#"{"_retry_metadata":"#).unwrap_or_default(),
        };
        let may_be_early = may_be_early || case.order == Some(Order::Retry);
        Some(if at < earliest && !may_be_early {
            let what = format!("it is invoked at {at}, and due at {earliest} at the earliest");
            (Check::NotBeforeDue, what)
        } else if at > next.expiry {
            let what = format!("it is invoked at {at}, and its age was over at {}", next.expiry);
            (Check::NotAfterAge, what)
        } else if self.plan.flawless
            && !self.plan.handler_of(case.of.target).probes
            && at
                > latest
                    .max(case.seen_at())
                    .max(place_since.unwrap_or(latest))
                    .max(self.noted_by(case).unwrap_or(latest))
                    + LATENESS_MAX
        {
            (Check::OnTime, format!("it is invoked at {at}, and was due at {latest} at the latest"))
        } else if target != arn {
            (Check::RightTarget, format!("{target} is retried, and {arn} failed"))
        } else if !case.is_transparent && !metadata.starts_with(&ordinal) {
            let head = &metadata[..metadata.floor_char_boundary(60)];
            (Check::AttemptsRise, format!("expected attempt {}, got {head}", next.attempt))
        } else if content(message) != content(&expected) || message.delay.is_some_and(|it| it > 0) {
            (Check::Envelope, format!("expected {expected:?}, got {message:?}"))
        } else {
            return None;
        })
    }

    /// Since when its mapping has had a place for a message, if it had none when the message became due.
    fn place_since(&self, message: &Delivery) -> Option<Millis> {
        let behind_since = message.behind_since?.timestamp_millis();
        let case = &self.cases[message.case];
        let (_, latest) = case.due_range(case.verdict().ok()?);
        let was_behind = behind_since <= latest + LATENESS_MAX;
        was_behind.then(|| message.received_at.timestamp_millis())
    }

    /// Lambda has accepted a handler's invocation, or a queue its message.
    pub fn reinvoked(&mut self, of: Subject, request_id: &Arc<str>, trace: &str) {
        self.acted(of, "invoked");
        let case = &self.cases[of.case];
        let Ok(next) = case.verdict() else { return };
        self.tally.count(Seen::Step("attempts"));
        let open = Open {
            attempt: next.attempt,
            initial: NonZero::new(case.first.div_euclid(1000)),
            trace: trace.into(),
            is_unwrapped: false,
            ..case.of.clone()
        };
        let open = self.accepted_unwrapped(of, request_id, open);
        let is_down = open.target == 0 && self.now.timestamp_millis() < self.calm_at();
        self.figures.retried_while_down += u64::from(is_down);
        if self.plan.handler_of(open.target).probes {
            let plan = Rc::clone(&self.plan);
            let target = &plan.targets[open.target].name;
            self.shows(None, Happens::Retried(target, request_id, self.now));
        }
        self.open.insert(Arc::clone(request_id), open);
    }

    /// A dead-letter queue has accepted a dead letter.
    pub fn given_up(&mut self, of: Subject, letter: &DeadLetter) {
        let stated = attribute(letter, "Reason");
        let known = REASONS.into_iter().find(|known| stated == Some(known));
        let reason = known.unwrap_or("no reason");
        self.acted(of, reason);
        self.tally.count(Seen::Letter(reason));
        self.shows(None, Happens::GivenUp);
        self.events[self.cases[of.case].of.event].ends += 1;
    }

    /// A case was re-invoked or dead-lettered, which can't be undone.
    fn acted(&mut self, of: Subject, how: &'static str) {
        let Subject { run, place, case, .. } = of;
        let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
        let case = &mut self.cases[case];
        // Nobody can tell whether there is an order for an event whose record can't be read.
        let is_read = message.as_ref().is_some_and(|message| message.is_read());
        match message {
            Some(message) => {
                message.acts += 1;
                let unclaimed = case.claimed && message.claim.is_none();
                // A call that the network repeated has two effects.
                if message.acts > 1 {
                    case.permits += 1;
                } else if unclaimed || message.act_refused {
                    case.permits += 1;
                    message.permitted = true;
                }
            }
            // The handler has ended, so its message becomes visible again, or already did.
            None => case.permits += 1,
        }
        case.acts += 1;
        if case.acts == 1 {
            self.figures.waiting.ends();
        }
        case.is_order_open &= case.order == Some(Order::Cancel) && is_read && how != "cancelled";
        let (acts, permits, event) = (case.acts, case.permits, case.of.event);
        self.story.tell(self.now, event, || format!("run {run}: {how}"));
        if acts > 1 {
            self.tally.count(Seen::Step("forks"));
            self.events[event].forks += 1;
        }
        if acts > 1 + permits {
            let what = format!("acted on {acts} times, with {permits} causes for a repetition");
            self.violated(Check::OncePerFailure, event, what);
        }
    }

    /// Whether a message of this run may have a fault that may fork a chain. Forks multiply: without a limit, one event
    /// would have thousands.
    pub fn may_fork(&self, run: u64) -> bool {
        let may = |message: &Delivery| self.may_be_repeated(message.case);
        self.runs.get(&run).is_none_or(|run| run.iter().all(may))
    }

    /// Nothing goes wrong with this call, so the handler will be told whether its acts were accepted.
    pub fn will_be_told(&mut self, request: &Request, subjects: &[Option<Subject>]) {
        let acts = if let Request::Again { queue_url, .. } = request {
            let queue = queue_url.rsplit('/').next().unwrap_or_default();
            self.plan.source(queue).is_some()
        } else {
            matches!(request, Request::Invoke(_) | Request::Letters(_))
        };
        for of in subjects.iter().flatten().filter(|_| acts) {
            let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
            message.into_iter().for_each(|message| message.is_answered = true);
        }
    }

    /// A handler received the answer to an invocation or to a dead letter.
    pub fn told(&mut self, of: Subject, answer: &Answer) {
        self.answers += 1;
        let kind = answer.as_ref().err().and_then(|refusal| refusal.kind);
        let plan = Rc::clone(&self.plan);
        let target = self.cases[of.case].arn(&plan);
        let known_for = self.meets(of.run, target, kind);
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let Some(message) = message else { return };
        message.told = self.answers;
        message.is_answered = false;
        let case = &mut self.cases[message.case];
        match answer {
            Ok(()) => message.done = true,
            Err(refusal) => {
                message.met(refusal.kind, known_for, self.now);
                message.act_refused = true;
                // The call took effect and the handler doesn't know, so the next handler acts again.
                if message.acts > 0 && !message.permitted {
                    message.permitted = true;
                    case.permits += 1;
                }
            }
        }
        self.story.tell(self.now, case.of.event, || format!("run {} is told: {answer:?}", of.run));
    }

    /// SQS has refused all messages of a call for good, maybe because of a single one. The handler doesn't know which,
    /// so it has to send this one alone before it gives it up.
    pub fn refused_together(&mut self, subjects: &[Option<Subject>]) {
        // A batch may have copies of one message. Their dead letters are sent alone in the order of the call.
        for of in subjects.iter().rev().flatten() {
            self.answers += 1;
            let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
            let Some(message) = message else { continue };
            if matches!(message.fault, Some(FaultKind::Refused(_))) && !message.dead_letter_sent {
                message.fault = None;
            }
            message.told = self.answers;
            message.invoked_at = None;
            message.dead_letter_sent = false;
            message.act_refused = false;
        }
    }

    /// A handler puts messages back.
    pub fn hides(&mut self, run: u64, clock: Timestamp, changes: &[(String, u32)]) {
        if changes.len() > ENTRIES_MAX {
            let what = format!("{} visibility changes in one call", changes.len());
            self.violated(Check::CallsFit, None, what);
        }
        let at = clock.timestamp_millis();
        for &(ref handle, seconds) in changes {
            let batch = self.runs.get_mut(&run).map(Vec::as_mut_slice).unwrap_or_default();
            let place = batch.iter().position(|message| message.handle() == handle);
            let is_own = place.is_some_and(|place| !batch[place].put_back);
            if !is_own && self.brings_forward(run, handle, seconds) {
                continue;
            }
            let batch = self.runs.get_mut(&run).map(Vec::as_mut_slice).unwrap_or_default();
            let Some(place) = place else {
                let what = format!("run {run} puts back a message that it was not given");
                self.violated(Check::ReportsTruly, None, what);
                continue;
            };
            let message = &mut batch[place];
            let case = &self.cases[message.case];
            if message.put_back && seconds == 0 && message.listing.found_order {
                self.story.tell(self.now, case.of.event, || format!("run {run} brings it back"));
                self.tally.count(Seen::Step("brought back"));
                continue;
            }
            message.put_back = true;
            let of = Subject { run, place, case: message.case, call: None, part: None };
            let event = self.cases[of.case].of.event;
            self.story.tell(self.now, event, || format!("run {run} puts it back for {seconds} s"));
            self.judge_length(of, at, seconds, false);
        }
    }

    /// Checks a wait of `seconds` from `at`, in flight or as a delay. Returns the shortest time that the message may
    /// still have to wait, in milliseconds.
    pub fn judge_length(
        &mut self,
        of: Subject,
        at: Millis,
        seconds: u32,
        is_delay: bool,
    ) -> Millis {
        let is_partial = is_partial(seconds, is_delay);
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let Some(message) = message else { return 0 };
        let before = message.wait.replace(Wait::of(at, seconds, is_partial, is_delay));
        let message = &self.runs[&of.run][of.place];
        if self.is_outdated(message) {
            return 0;
        }
        let event = self.cases[of.case].of.event;
        if message.fetch == Fetch::Gone {
            let what = format!("it waits for {seconds} s, and its record is gone");
            self.violated(Check::RightReason, event, what);
            return 0;
        }
        // Another copy in its batch may be known to be acted on. This one is not known as long as its record is unread,
        // or the ledger has not said which event it continues.
        let is_known = message.is_read() && !message.recall.is_in_vain();
        if is_known && message.listing.must_be_dropped() {
            let what = format!("it waits for {seconds} s, and its failure was acted on");
            self.violated(Check::DropsTheDone, event, what);
            return 0;
        }
        let hold = || {
            let (check, range, is_certain) = self.hold(of.run, message, at)?;
            let is_hold = is_certain || is_within(range, seconds, is_delay);
            is_hold.then_some((check, range))
        };
        let Some((check, (low, high))) = self.cause(message, at).or_else(hold) else {
            if message.held_until.is_some() || message.listing.is_held() {
                return i64::from(seconds) * 1000;
            }
            if let Some(what) = self.ignores_order(message) {
                self.violated(Check::OrdersFollowed, event, what);
                return 0;
            }
            if self.is_held_by_circuit(of, at, seconds, before) {
                return i64::from(seconds) * 1000;
            }
            return self.judge_wait(at, of.case, seconds, is_delay);
        };
        if !is_within((low, high), seconds, is_delay) {
            let what = format!("it waits for {seconds} s, expected {low} to {high} ms");
            self.violated(check, event, what);
        }
        low
    }

    fn judge_wait(&mut self, at: Millis, index: usize, seconds: u32, is_delay: bool) -> Millis {
        let case = &mut self.cases[index];
        let event = case.of.event;
        let (Ok(next), 0..=WAIT_MAX) = (case.verdict(), seconds) else {
            let what = format!("it waits for {seconds} s, expected {:?}", case.verdict());
            self.violated(Check::WaitsUntilDue, event, what);
            return 0;
        };
        let end = at + i64::from(seconds) * 1000;
        let until = if is_partial(seconds, is_delay) { Millis::MAX } else { end };
        // The message may have become due while the handler asked how many messages are in flight.
        let from = if seconds == 0 { Millis::MIN } else { end - 1000 };
        let (after, before) = (case.shown.0.max(from), case.shown.1.min(until));
        case.shown = (after, before);
        let low = case.due().unwrap_or(next.due.0);
        if until < next.due.0 || from >= next.due.1 {
            let what = format!("it waits until {end}, expected {:?}", next.due);
            self.violated(Check::BackoffInRange, event, what);
        }
        low.max(after.saturating_add(1)) - at
    }

    /// A handler gives messages up. Returns the message of each dead letter.
    pub fn gives_up(
        &mut self,
        run: u64,
        clock: Timestamp,
        letters: &[DeadLetter],
    ) -> Vec<Option<Subject>> {
        let size: usize = letters.iter().map(DeadLetter::size).sum();
        if !fits(letters.len(), size) {
            let what = format!("{} dead letters of {size} bytes in one call", letters.len());
            self.violated(Check::CallsFit, None, what);
        }
        let at = clock.timestamp_millis();
        letters.iter().map(|letter| self.judge_letter(run, at, letter)).collect()
    }
}

/// Whether SQS accepts this many entries of this many bytes in one call.
pub fn fits(entries: usize, bytes: usize) -> bool {
    entries <= ENTRIES_MAX && (entries == 1 || bytes <= CALL_BYTES_MAX)
}

/// Whether a wait may be one of several in a row: it then shows only that the message isn't due before its end.
fn is_partial(seconds: u32, is_delay: bool) -> bool {
    if is_delay { seconds >= HOP_MIN } else { seconds == WAIT_MAX }
}

/// Whether a wait of `seconds` fits this range, in flight or as a delay. A long wait may consist of several.
fn is_within((low, high): (Millis, Millis), seconds: u32, is_delay: bool) -> bool {
    let whole = |wait: Millis| wait.max(0).saturating_add(999).div_euclid(1000);
    let most = if is_delay { Millis::MAX } else { WAIT_MAX.into() };
    let is_hop = is_delay && seconds >= HOP_MIN && whole(high) > DELAY_MAX.into();
    is_hop || (whole(low).min(most)..=whole(high).min(most)).contains(&seconds.into())
}

impl Case {
    /// The function that failed, as named in its message or, if the message names none, as the handler names it.
    pub fn arn<'a>(&self, plan: &'a Plan) -> &'a str {
        let target = &plan.targets[self.of.target];
        let arns = target.arns.get_or_init(|| Arns::of(target));
        if self.strange && !self.is_bare { &arns.qualified } else { &arns.named }
    }

    /// The target by which its claim is known, whatever version or alias has failed.
    pub fn claimed_as<'a>(&self, plan: &'a Plan) -> &'a str {
        let target = &plan.targets[self.of.target];
        &target.arns.get_or_init(|| Arns::of(target)).claimed
    }

    /// Whether this is the key of its run, whatever the payload.
    pub fn has_key(&self, key: &Key, plan: &Plan) -> bool {
        let target = || key.id.rsplit_once('/').map(|(target, _)| target);
        self.request_id == *key.run && target() == Some(self.claimed_as(plan))
    }

    /// The earliest and the latest time at which the next attempt is due, narrowed by the waits seen so far.
    pub fn due_range(&self, next: Next) -> (Millis, Millis) {
        let (after, until) = self.shown;
        let range = (next.due.0.max(after.saturating_add(1)), next.due.1.min(until));
        self.due().map_or(range, |due| (due, due))
    }
}

/// How a failure record names a target: as its handlers do, and by its qualified ARN.
#[derive(Clone)]
pub struct Arns {
    named: String,
    qualified: String,
    claimed: String,
}

impl Arns {
    fn of(target: &TargetPlan) -> Self {
        let claimed = if target.is_queue() { queue_arn(&target.name) } else { arn(&target.name) };
        Self { named: named(target), qualified: qualified_arn(&target.name), claimed }
    }
}

pub fn named(target: &TargetPlan) -> String {
    match target.form {
        Form::Queue { .. } => queue_arn(&target.name),
        Form::Bare => arn(&target.name),
        Form::Record | Form::Notification | Form::EventBridge | Form::Bucket(_) => {
            qualified_arn(&target.name)
        }
    }
}
