//! The judge of a world: watches from outside, knows every event, and states the rules once more.
//!
//! An *event* is what a client sent. Each time an invocation of it fails for good and Lambda has put
//! that into a retry queue, there is a *failure*, and a verdict on it that the judge reaches by itself:
//! the next attempt and the range of its due time, or the one reason to give it up. What handlers then
//! do is held against that. A failure may be acted on once: re-invoked, or dead-lettered. Where it is
//! acted on again there must be a *permit*: something that was made to go wrong and that nobody can
//! undo, such as a handler that died between Lambda's yes and its own answer.

mod calls;
mod claims;
mod deliveries;
mod failures;
mod letters;
mod said;

use std::{collections::HashMap, sync::Arc};

use comeback_core::Timestamp;

use crate::{
    check::{Check, Violation},
    payload::{Foreign, Payload, envelope},
    plan::Plan,
    rules::{Millis, Next},
    story::Story,
    tally::Tally,
};

pub(crate) use calls::{FaultSeen, Subject, qualified};
pub(crate) use deliveries::Delivered;
pub(crate) use said::Said;

/// What an asynchronous invocation may carry.
const INVOCATION_MAX: usize = 1_048_576;

/// The reasons of the contract.
pub(crate) const REASONS: [&str; 9] = [
    "max_age_exceeded",
    "max_attempts_exceeded",
    "not_retryable",
    "target_not_allowed",
    "recursion_stopped",
    "payload_missing",
    "payload_too_large",
    "invoke_rejected",
    "unreadable",
];

/// An event that has been forked so often is spared further causes.
const FORKS_MAX: u32 = 6;

/// Everything the judge knows.
pub(crate) struct Judge {
    pub(crate) story: Story,
    pub(crate) tally: Tally,
    pub(crate) violation: Option<Violation>,
    flawless: bool,
    events: Vec<Event>,
    failures: Vec<Failure>,
    /// Invocations that Lambda has accepted and that have not ended, by their request ids.
    open: HashMap<Arc<str>, Open>,
    /// Failures by the trace that their messages carry.
    by_trace: HashMap<Arc<str>, usize>,
    runs: HashMap<u64, Vec<deliveries::Watched>>,
    /// When runs are killed, by their own clocks.
    deadlines: HashMap<u64, Timestamp>,
    /// How many answers handlers were given.
    answers: u64,
    /// How many runs have a message now.
    with: HashMap<String, u32>,
    dead_letters: u64,
}

/// What a client, or a stranger, has sent.
struct Event {
    /// The original bytes.
    payload: String,
    foreign: Option<Box<Foreign>>,
    /// How often it has ended.
    ends: u32,
    /// How often one of its failures was acted on again.
    forks: u32,
    /// How many copies of its records were sent.
    copies: u32,
}

/// An invocation on its way.
pub(crate) struct Open {
    pub(crate) event: usize,
    pub(crate) target: usize,
    /// Its ordinal among the attempts, 0 for Lambda's own.
    pub(crate) attempt: u32,
    /// The second of the first failure, where there was one.
    initial: Option<i64>,
    /// The event's first request id.
    first_request: Arc<str>,
    /// The trace that its failure would carry.
    trace: Arc<str>,
}

/// Why Lambda gave an invocation up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Why {
    Failed,
    Paused,
    Stopped,
}

/// What is to become of a failure.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    Next(Next),
    Over(&'static str),
}

/// A message in a retry queue, be it delivered once or often.
struct Failure {
    /// Whether a stranger wrote it.
    strange: bool,
    event: usize,
    target: usize,
    request_id: Arc<str>,
    first_request: Arc<str>,
    /// The attempt that failed, 0 for Lambda's own invocation.
    attempt: u32,
    why: Why,
    at: Millis,
    first: Millis,
    said: Said,
    verdict: Verdict,
    /// After when and until when it is due, as waits have shown; both in milliseconds.
    shown: (Millis, Millis),
    /// When it is due, as an invocation has shown.
    due: Option<Millis>,
    acts: u32,
    permits: u32,
    /// Whether it is claimed before it is acted on, and whether the ledger has the mark.
    claimed: bool,
    marked: bool,
}

/// Whose failure it is.
struct About {
    event: usize,
    target: usize,
    request_id: Arc<str>,
    first_request: Arc<str>,
}

impl Failure {
    /// One of which nothing has become so far.
    fn new(about: About, at: Timestamp, claimed: bool) -> Self {
        let About { event, target, request_id, first_request } = about;
        Self {
            strange: false,
            event,
            target,
            request_id,
            first_request,
            attempt: 0,
            why: Why::Failed,
            at: millis(at),
            first: millis(at),
            said: Said::default(),
            verdict: Verdict::Over(""),
            shown: (Millis::MIN, Millis::MAX),
            due: None,
            acts: 0,
            permits: 0,
            claimed,
            marked: false,
        }
    }

    /// A second delivery lets a handler act again, unless there is a ledger to tell.
    fn delivered_twice(&mut self) {
        self.permits += u32::from(!self.claimed);
    }
}

impl Event {
    fn may_fork(&self) -> bool {
        self.forks + self.copies < FORKS_MAX
    }
}

/// A stranger's message: what it is and what must become of it.
pub(crate) struct Stranger {
    pub(crate) target: usize,
    pub(crate) request_id: String,
    /// What its dead letter has for a body.
    pub(crate) body: String,
    /// The reason why it is given up, or none where it is as good as a record of Lambda's.
    pub(crate) over: Option<&'static str>,
}

pub(crate) fn millis(at: Timestamp) -> Millis {
    at.timestamp_millis()
}

impl Judge {
    pub(crate) fn new(plan: &Plan, telling: bool) -> Self {
        Self {
            story: Story::new(telling),
            tally: Tally::default(),
            violation: None,
            flawless: plan.flawless,
            events: Vec::new(),
            failures: Vec::new(),
            open: HashMap::new(),
            by_trace: HashMap::new(),
            runs: HashMap::new(),
            deadlines: HashMap::new(),
            answers: 0,
            with: HashMap::new(),
            dead_letters: 0,
        }
    }

    /// Notes the first rule that did not hold.
    pub(crate) fn violated(
        &mut self,
        check: Check,
        at: Timestamp,
        event: Option<usize>,
        what: String,
    ) {
        self.story.tell(at, event, || format!("VIOLATED {check}: {what}"));
        self.violation.get_or_insert(Violation { check, at, event, what });
    }

    /// The number of the event to be sent next.
    pub(crate) fn next_event(&self) -> usize {
        self.events.len()
    }

    /// Lambda has accepted an event of a client's.
    pub(crate) fn sent(
        &mut self,
        now: Timestamp,
        target: usize,
        payload: Payload,
        request_id: &Arc<str>,
        trace: Arc<str>,
    ) {
        let event = self.events.len();
        self.story.tell(now, Some(event), || {
            let text = &payload.text[..payload.text.floor_char_boundary(80)];
            format!("sent to target {target} as {request_id}: {text}")
        });
        self.tally.count("events");
        let open = Open {
            event,
            target,
            attempt: payload.envelope.as_ref().map_or(0, |foreign| foreign.attempt),
            initial: payload.envelope.as_ref().map(|foreign| foreign.initial),
            first_request: Arc::clone(request_id),
            trace,
        };
        self.open.insert(Arc::clone(request_id), open);
        let (original, foreign) = match payload.envelope {
            Some(foreign) => (foreign.original.clone(), Some(Box::new(foreign))),
            None => (payload.text, None),
        };
        self.events.push(Event { payload: original, foreign, ends: 0, forks: 0, copies: 0 });
    }

    /// The invocation that has this request id, if it is on its way.
    pub(crate) fn open(&self, request_id: &str) -> Option<&Open> {
        self.open.get(request_id)
    }

    /// A target's run has begun, and was given this.
    pub(crate) fn began(
        &mut self,
        now: Timestamp,
        request_id: &str,
        payload: &str,
        trace: &Arc<str>,
    ) {
        let Some(open) = self.open.get_mut(request_id) else { return };
        open.trace = Arc::clone(trace);
        let (event, attempt, initial) = (open.event, open.attempt, open.initial);
        let first_request = Arc::clone(&open.first_request);
        let expected = self.expected_payload(event, attempt, initial, &first_request);
        if payload != expected {
            let what = format!("a target was given {payload}, expected {expected}");
            self.violated(Check::Envelope, now, Some(event), what);
        }
    }

    /// What a target is given at this attempt.
    fn expected_payload(
        &self,
        event: usize,
        attempt: u32,
        initial: Option<i64>,
        first_request: &str,
    ) -> String {
        let event = &self.events[event];
        match (&event.foreign, initial) {
            (Some(foreign), _) => foreign.at_attempt(attempt),
            (None, Some(initial)) => {
                envelope(attempt, initial, Some(first_request), "", &event.payload)
            }
            (None, None) => event.payload.clone(),
        }
    }

    /// A target has succeeded.
    pub(crate) fn succeeded(&mut self, now: Timestamp, request_id: &str) {
        let Some(open) = self.open.remove(request_id) else { return };
        self.story.tell(now, Some(open.event), || format!("attempt {} succeeded", open.attempt));
        self.tally.count("successes");
        self.events[open.event].ends += 1;
    }

    /// Lambda has given an invocation up and could not put that anywhere.
    pub(crate) fn lost(&mut self, now: Timestamp, request_id: &str, why: &str) {
        let Some(open) = self.open.remove(request_id) else { return };
        self.story.tell(now, Some(open.event), || format!("lost by Lambda: {why}"));
        self.tally.count("lost by Lambda");
        self.events[open.event].ends += 1;
    }

    /// A record was too large for the message that a topic or a bus makes of it.
    pub(crate) fn lost_on_its_way(&mut self, now: Timestamp, trace: &str) {
        let Some(&index) = self.by_trace.get(trace) else { return };
        let failure = &mut self.failures[index];
        failure.acts += 1;
        let event = failure.event;
        self.story.tell(now, Some(event), || "its record is too large to be passed on".to_owned());
        self.tally.count("lost on its way");
        self.events[event].ends += 1;
    }

    /// What must hold when nothing happens any more: everything has ended, once.
    pub(crate) fn at_rest(&mut self, now: Timestamp) {
        let open = self.open.values().map(|open| open.event).min();
        if let Some(event) = open {
            let what = "an invocation of it has not ended".to_owned();
            self.violated(Check::Settles, now, Some(event), what);
        }
        if let Some(failure) = self.failures.iter().find(|failure| failure.acts == 0) {
            let what = format!(
                "nothing became of the failure of attempt {} at {}",
                failure.attempt, failure.at
            );
            self.violated(Check::Settles, now, Some(failure.event), what);
        }
        let off = self.events.iter().position(|event| event.ends != 1 + event.forks);
        if let Some(event) = off {
            let Event { ends, forks, .. } = self.events[event];
            let what = format!("it ended {ends} times, and its chain was forked {forks} times");
            self.violated(Check::EndsOneWay, now, Some(event), what);
        }
    }

    /// How many dead letters handlers have sent.
    pub(crate) fn dead_letters(&self) -> u64 {
        self.dead_letters
    }
}
