//! What the judge holds a handler's calls to.

use std::sync::Arc;

use comeback_core::{Timestamp, dead_letter::DeadLetter};

use super::{Check, Failure, Judge, Open, Verdict, deliveries::Watched, millis};
use crate::{
    plan::{Form, Plan},
    rules::{Millis, Next},
    wire::{Hide, Invoke},
};

/// SQS takes this many entries in one call, and together as much as one message may be.
const ENTRIES_MAX: usize = 10;
const CALL_BYTES_MAX: usize = 1_048_576;

/// The longest wait, in seconds: twelve hours less a minute.
const WAIT_MAX: u32 = 43_140;

/// From so many receives on, and between so many milliseconds, a wait after a fault spares them: SQS
/// gives a message up after a thousand.
const SPARED_FROM: u32 = 500;
const SPARING: (Millis, Millis) = (1_800_000, 3_600_000);

/// How late an attempt may be where nothing keeps it: the visibility timeout is in whole seconds, and
/// the batch before may take its time.
const LATENESS_MAX: Millis = 5_000;

/// What an invocation was answered instead of a yes, as the contract sorts it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FaultSeen {
    /// It passes; after so many seconds, if the answer says so.
    Transient(Option<u64>),
    /// A person must mend it.
    Configuration,
    /// It is refused for good, for this reason.
    Refused(&'static str),
}

/// What a call is about: a message in the batch of a run, and its failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) run: u64,
    pub(super) place: usize,
    pub(super) failure: usize,
}

impl Judge {
    /// A handler invokes: may it, now, this, with that? Gives the message that it is about.
    pub(crate) fn invokes(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        clock: Timestamp,
        run: u64,
        invoke: &Invoke,
    ) -> Option<Subject> {
        let trace = invoke.trace.as_deref().unwrap_or_default();
        let index = self.by_trace.get(trace).copied();
        let watched = self.runs.get_mut(&run)?;
        let is_it =
            |message: &Watched| Some(message.failure) == index && message.invoked_at.is_none();
        let claimed = watched.iter().position(|message| is_it(message) && message.claim.is_some());
        let place = claimed.or_else(|| watched.iter().position(is_it));
        let (Some(failure), Some(place)) = (index, place) else {
            let event = index.map(|index| self.failures[index].event);
            let what = format!("run {run} invokes with trace {trace:?}, which no message has left");
            self.violated(Check::RightTarget, now, event, what);
            return None;
        };
        let at = millis(clock);
        watched[place].invoked_at = Some(at);
        if self.failures[failure].claimed && claimed.is_none() {
            let event = Some(self.failures[failure].event);
            let what = format!("run {run} invokes without a claim");
            self.violated(Check::ClaimsFirst, now, event, what);
        }
        self.judge_invocation(plan, now, at, failure, invoke);
        Some(Subject { run, place, failure })
    }

    fn judge_invocation(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        at: Millis,
        index: usize,
        invoke: &Invoke,
    ) {
        let failure = &self.failures[index];
        let event = Some(failure.event);
        let next = match failure.verdict {
            Verdict::Next(next) => next,
            Verdict::Over(reason) => {
                let what = format!("it is invoked, and to be given up as {reason}");
                return self.violated(Check::OverIsOver, now, event, what);
            }
        };
        let (after, until) = failure.shown;
        let earliest = failure.due.unwrap_or(next.due.0.max(after.saturating_add(1)));
        let latest = failure.due.unwrap_or(next.due.1.min(until));
        if at < earliest {
            let what = format!("it is invoked at {at}, and due at {earliest} at the earliest");
            self.violated(Check::NotBeforeDue, now, event, what);
        } else if at > next.expiry {
            let what = format!("it is invoked at {at}, and its age was over at {}", next.expiry);
            self.violated(Check::NotAfterAge, now, event, what);
        } else if self.flawless && at > latest + LATENESS_MAX {
            let what = format!("it is invoked at {at}, and was due at {latest} at the latest");
            self.violated(Check::OnTime, now, event, what);
        } else {
            self.judge_envelope(plan, now, index, &next, invoke);
        }
    }

    fn judge_envelope(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        index: usize,
        next: &Next,
        invoke: &Invoke,
    ) {
        let failure = &self.failures[index];
        let event = failure.event;
        let arn = failure.arn(plan);
        let initial = Some(failure.first.div_euclid(1000));
        let expected = self.expected_payload(event, next.attempt, initial, &failure.first_request);
        let ordinal = format!(r#"{{"_retry_metadata":{{"attempt":{},"#, next.attempt);
        if invoke.function != arn {
            let what = format!("{} is invoked, and {arn} failed", invoke.function);
            self.violated(Check::RightTarget, now, Some(event), what);
        } else if !invoke.payload.starts_with(&ordinal) {
            let head = &invoke.payload[..invoke.payload.floor_char_boundary(60)];
            let what = format!("expected attempt {}, got {head}", next.attempt);
            self.violated(Check::AttemptsRise, now, Some(event), what);
        } else if invoke.payload != expected {
            let what = format!("expected {expected}, got {}", invoke.payload);
            self.violated(Check::Envelope, now, Some(event), what);
        }
    }

    /// Lambda has accepted an invocation of a handler's.
    pub(crate) fn reinvoked(
        &mut self,
        now: Timestamp,
        of: Subject,
        request_id: &Arc<str>,
        trace: Arc<str>,
    ) {
        self.acted(now, of, "invoked");
        let failure = &self.failures[of.failure];
        let Verdict::Next(next) = failure.verdict else { return };
        self.tally.count("attempts");
        let open = Open {
            event: failure.event,
            target: failure.target,
            attempt: next.attempt,
            initial: Some(failure.first.div_euclid(1000)),
            first_request: Arc::clone(&failure.first_request),
            trace,
        };
        self.open.insert(Arc::clone(request_id), open);
    }

    /// A dead-letter queue has taken a dead letter.
    pub(crate) fn given_up(&mut self, now: Timestamp, of: Subject, reason: &'static str) {
        self.acted(now, of, reason);
        self.tally.letter(reason);
        self.dead_letters += 1;
        self.events[self.failures[of.failure].event].ends += 1;
    }

    /// Something that can't be undone was done about a failure.
    fn acted(&mut self, now: Timestamp, of: Subject, how: &'static str) {
        let Subject { run, place, failure } = of;
        let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
        let failure = &mut self.failures[failure];
        match message {
            Some(message) => {
                message.acts += 1;
                let unclaimed = failure.claimed && message.claim.is_none();
                // A call that was repeated on its way has two effects.
                if message.acts > 1 {
                    failure.permits += 1;
                } else if unclaimed || message.told_no {
                    failure.permits += 1;
                    message.permitted = true;
                }
            }
            // Its handler is gone, and its message comes back, or came back already.
            None => failure.permits += 1,
        }
        failure.acts += 1;
        let (acts, permits, event) = (failure.acts, failure.permits, failure.event);
        self.story.tell(now, Some(event), || format!("run {run}: {how}"));
        if acts > 1 {
            self.tally.count("forks");
            self.events[event].forks += 1;
        }
        if acts > 1 + permits {
            let what = format!("acted on {acts} times, with {permits} causes for a repetition");
            self.violated(Check::OncePerFailure, now, Some(event), what);
        }
    }

    /// Whether a fault that may fork a chain may be put upon a message of this run. Chains multiply:
    /// without a bound one event would have thousands.
    pub(crate) fn may_fork(&self, run: u64) -> bool {
        let may = |failure: usize| self.events[self.failures[failure].event].may_fork();
        self.runs.get(&run).is_none_or(|run| run.iter().all(|message| may(message.failure)))
    }

    /// The number of an answer that a handler is given now.
    pub(super) fn next_answer(&mut self) -> u64 {
        self.answers += 1;
        self.answers
    }

    /// A handler has the answer to an invocation, or to its dead letter.
    pub(crate) fn told(
        &mut self,
        now: Timestamp,
        of: Subject,
        answer: Result<(), Option<FaultSeen>>,
    ) {
        let Subject { run, place, .. } = of;
        let nth = self.next_answer();
        let Some(message) = self.runs.get_mut(&run).and_then(|run| run.get_mut(place)) else {
            return;
        };
        message.told = nth;
        match answer {
            Ok(()) => message.done = true,
            Err(fault) => {
                message.fault = fault.or(message.fault);
                message.told_no = true;
                // It had its effect, and nobody told the handler: whoever comes next acts again.
                if message.acts > 0 && !message.permitted {
                    message.permitted = true;
                    self.failures[message.failure].permits += 1;
                }
            }
        }
        let event = self.failures[message.failure].event;
        self.story.tell(now, Some(event), || format!("run {run} is told: {answer:?}"));
    }

    /// A handler puts messages back.
    pub(crate) fn hides(&mut self, now: Timestamp, clock: Timestamp, run: u64, hide: &Hide) {
        if hide.changes.len() > ENTRIES_MAX {
            let what = format!("{} visibility changes in one call", hide.changes.len());
            self.violated(Check::CallsFit, now, None, what);
        }
        for (handle, seconds) in &hide.changes {
            let watched = self.runs.get_mut(&run).map(Vec::as_mut_slice).unwrap_or_default();
            let message = watched.iter_mut().find(|message| message.handle == *handle);
            let Some(message) = message else {
                let what = format!("run {run} puts back a message that it was not given");
                self.violated(Check::ReportsTruly, now, None, what);
                continue;
            };
            let (index, fault, count) = (message.failure, message.fault, message.receive_count);
            let held_until = message.held_until;
            message.put_back = true;
            let is_unclaimed = self.failures[index].claimed && message.claim.is_none();
            let event = self.failures[index].event;
            self.story.tell(now, Some(event), || format!("run {run} puts it back for {seconds} s"));
            match fault {
                None if held_until.is_some() => {
                    self.judge_held(now, millis(clock), index, *seconds, held_until);
                }
                None => self.judge_wait(now, millis(clock), index, *seconds),
                Some(fault) => {
                    let at = millis(clock);
                    let rest = self.rest_after_fault(index, at, is_unclaimed);
                    self.judge_fault_wait(now, index, *seconds, fault, count, rest);
                }
            }
        }
    }

    fn judge_wait(&mut self, now: Timestamp, at: Millis, index: usize, seconds: u32) {
        let failure = &mut self.failures[index];
        let event = Some(failure.event);
        let next = match failure.verdict {
            Verdict::Next(next) => next,
            Verdict::Over(reason) => {
                let what = format!("it waits, and is to be given up as {reason}");
                return self.violated(Check::WaitsUntilDue, now, event, what);
            }
        };
        if !(1..=WAIT_MAX).contains(&seconds) {
            let what = format!("it waits for {seconds} s, expected 1 to {WAIT_MAX}");
            return self.violated(Check::WaitsUntilDue, now, event, what);
        }
        let end = at + i64::from(seconds) * 1000;
        // A wait of the greatest length is one of several: it only shows that it isn't due before.
        let until = if seconds == WAIT_MAX { Millis::MAX } else { end };
        let (after, before) = (failure.shown.0.max(end - 1000), failure.shown.1.min(until));
        failure.shown = (after, before);
        let (low, high) = failure.due.map_or(next.due, |due| (due, due));
        if until < next.due.0 || end - 1000 >= next.due.1 {
            let what = format!("it waits until {end}, expected {:?}", next.due);
            self.violated(Check::BackoffInRange, now, event, what);
        } else if after >= before || high <= after || low > before {
            let what = format!("it waits until {end}, and was due within {after} to {before}");
            self.violated(Check::SameDraw, now, event, what);
        }
    }

    fn judge_held(
        &mut self,
        now: Timestamp,
        at: Millis,
        index: usize,
        seconds: u32,
        held_until: Option<Millis>,
    ) {
        let rest = held_until.map_or(0, |until| until - at);
        let expected = (rest.max(0) + 999).div_euclid(1000).min(WAIT_MAX.into());
        if expected != i64::from(seconds) {
            let event = Some(self.failures[index].event);
            let what = format!("it waits for {seconds} s, and is held for {expected} s");
            self.violated(Check::WaitsForHolder, now, event, what);
        }
    }

    /// How long a message may wait at the most after a fault. What can't be claimed waits however old it
    /// is: nobody knows whether it was acted on.
    fn rest_after_fault(&self, index: usize, at: Millis, is_unclaimed: bool) -> Millis {
        match self.failures[index].verdict {
            Verdict::Next(next) if at < next.last_chance => next.last_chance - at,
            Verdict::Next(next) if !is_unclaimed => next.expiry - at,
            Verdict::Next(_) | Verdict::Over(_) => Millis::MAX,
        }
    }

    fn judge_fault_wait(
        &mut self,
        now: Timestamp,
        index: usize,
        seconds: u32,
        fault: FaultSeen,
        count: u32,
        rest: Millis,
    ) {
        let event = Some(self.failures[index].event);
        let doubled = |first: i64, most: i64| {
            first.saturating_mul(1 << count.saturating_sub(1).min(20)).min(most) * 1000
        };
        let (low, high) = match fault {
            FaultSeen::Transient(None) => (1000, doubled(1, 300)),
            FaultSeen::Transient(Some(asked)) => {
                let asked = i64::try_from(asked.max(1)).unwrap_or(i64::MAX) * 1000;
                (asked, asked)
            }
            FaultSeen::Configuration => (doubled(60, 900) / 2, doubled(60, 900)),
            FaultSeen::Refused(reason) => {
                let what = format!("it waits, and is refused for good as {reason}");
                return self.violated(Check::FaultWaits, now, event, what);
            }
        };
        let (low, high) = match count >= SPARED_FROM {
            true => (low.max(SPARING.0), high.max(SPARING.1)),
            false => (low, high),
        };
        let whole = |wait: i64| (wait.min(rest) + 999).div_euclid(1000).min(WAIT_MAX.into());
        if !(whole(low)..=whole(high)).contains(&i64::from(seconds)) {
            let what = format!(
                "after {fault:?} it waits for {seconds} s, expected {} to {}",
                whole(low),
                whole(high)
            );
            self.violated(Check::FaultWaits, now, event, what);
        }
    }

    /// A handler gives messages up. Gives the message of each.
    pub(crate) fn gives_up(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        clock: Timestamp,
        run: u64,
        letters: &[DeadLetter],
    ) -> Vec<Option<Subject>> {
        let size: usize = letters.iter().map(DeadLetter::size).sum();
        if letters.len() > ENTRIES_MAX || (letters.len() > 1 && size > CALL_BYTES_MAX) {
            let what = format!("{} dead letters of {size} bytes in one call", letters.len());
            self.violated(Check::CallsFit, now, None, what);
        }
        letters
            .iter()
            .map(|letter| self.judge_letter(plan, now, millis(clock), run, letter))
            .collect()
    }
}

impl Failure {
    /// The function that failed, as its message names it; where it names none, as the handler does.
    pub(super) fn arn(&self, plan: &Plan) -> String {
        let target = &plan.targets[self.target];
        match target.form == Form::Bare && !self.strange {
            true => unqualified(&target.name),
            false => qualified(&target.name),
        }
    }
}

/// The ARN of a function.
fn unqualified(name: &str) -> String {
    format!("arn:aws:lambda:us-east-1:000000000000:function:{name}")
}

/// The ARN that a failure record names a function by.
pub(crate) fn qualified(name: &str) -> String {
    format!("{}:$LATEST", unqualified(name))
}
