//! The judge of a world: it watches from outside, knows every event, and states the rules a second time.
//!
//! An *event* is what a client has sent. Each time an invocation of it fails for good and Lambda sends that to a retry
//! queue, there is a *case*. The judge reaches its own verdict on it: the next attempt and the range of its due time,
//! or the only right reason to give it up. It compares what handlers then do with that. A case may be acted on once:
//! re-invoked or dead-lettered. Every further act needs a *permit*: an injected fault that nobody can undo, such as a
//! handler that died between Lambda's answer and its own.

mod calls;
mod cases;
mod circuits;
mod delays;
mod deliveries;
mod faults;
mod figures;
mod letters;
mod promises;
mod recall;
mod records;
mod register;
mod sent;
mod split;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    num::NonZero,
    rc::Rc,
    sync::Arc,
};

use comeback_core::Timestamp;
use comeback_local_model::sqs::{MessageAttribute, Outgoing};
use rustc_hash::FxHashMap;

pub use self::{
    calls::{Arns, Subject, named},
    cases::Stranger,
    deliveries::{receive_count, trace_of, was_moved},
    figures::{Backlog, Figures},
    promises::{Happens, Move},
    records::{Place, TESTED},
};
use self::{
    cases::{Cases, Errors},
    circuits::Known,
    deliveries::Delivery,
    faults::Faults,
    promises::Promises,
    sent::Calls,
    split::Part,
};
use crate::{
    ids::{Id, Trace},
    notes::{Check, Seen, Story, Tally, Violation},
    payload::{Foreign, METADATA, Payload, envelope, metadata, plain_text},
    plan::Plan,
    rules::Millis,
};

pub const REASONS: [&str; 12] = [
    "max_age_exceeded",
    "max_attempts_exceeded",
    "not_retryable",
    "target_not_allowed",
    "recursion_stopped",
    "payload_missing",
    "payload_too_large",
    "invoke_rejected",
    "cancelled",
    "attribute_limit",
    "record_gone",
    "unreadable",
];

/// An event with this many forks gets no further faults that may fork it.
const FORKS_MAX: u16 = 6;

#[derive(Default)]
pub struct Judge {
    pub story: Story,
    pub tally: Tally,
    pub violation: Option<Violation>,
    pub now: Timestamp,
    pub figures: Figures,
    promises: Promises,
    plan: Rc<Plan>,
    pub events: Vec<Event>,
    cases: Cases,
    errors: Errors,
    /// Invocations that Lambda has accepted and that have not ended, by their request ids.
    pub open: FxHashMap<Arc<str>, Open>,
    /// Cases by the trace that their messages carry.
    by_trace: FxHashMap<Trace, u32>,
    runs: FxHashMap<u64, Vec<Delivery>>,
    /// Whether each process of a handler was deployed after others, with other settings.
    turned: Vec<bool>,
    faults: Faults,
    /// What the runs know about circuits, by run and target.
    known_circuits: FxHashMap<u64, BTreeMap<String, Known>>,
    calls: Calls,
    /// The parts of notices of several objects, by their cases.
    joined: FxHashMap<usize, Vec<Part>>,
    /// The number of answers that handlers have received.
    answers: u64,
    /// The functions that operators have paused, by the names in their failure records.
    pub paused: BTreeSet<String>,
    /// The number of handlers that have a message now, by message id.
    holders: FxHashMap<String, u32>,
}

pub struct Event {
    /// What was sent, unless that is the plain payload of an event with this number.
    original: Option<Box<Original>>,
    ends: u16,
    /// How often one of its cases was acted on again.
    forks: u16,
    copies: u16,
}

struct Original {
    /// The original bytes.
    payload: String,
    foreign: Option<Foreign>,
    /// A queue's message, without metadata.
    message: Option<Box<Outgoing>>,
}

/// An invocation that has not ended yet.
#[derive(Clone)]
pub struct Open {
    pub event: usize,
    pub target: usize,
    /// The number of its attempt; 0 is Lambda's own invocation.
    pub attempt: u32,
    /// The time of the event's first failure in seconds, if it has failed before.
    pub initial: Option<NonZero<i64>>,
    pub first_request: Id,
    /// Whether these are the metadata of another writer, whose envelope the event is.
    pub is_foreign: bool,
    /// Whether it is a retry without an envelope.
    pub is_unwrapped: bool,
    /// The trace that its failure record would carry.
    pub trace: Trace,
}

impl Open {
    /// When its event failed first, if it has failed itself at `at`.
    fn first_failure(&self, at: Millis) -> Millis {
        self.initial.map_or(at, |initial| at.min(initial.get() * 1000))
    }

    fn is_same_attempt(&self, other: &Self) -> bool {
        (self.attempt, self.initial) == (other.attempt, other.initial)
            && self.first_request == other.first_request
    }
}

impl Event {
    /// The event with this number.
    fn new(
        number: usize,
        payload: String,
        foreign: Option<Foreign>,
        message: Option<Box<Outgoing>>,
    ) -> Self {
        let is_plain = foreign.is_none() && message.is_none() && payload == plain_text(number);
        let original = (!is_plain).then(|| Original { payload, foreign, message }.into());
        Self { original, ends: 0, forks: 0, copies: 0 }
    }

    /// Whether its payload is made again from its number, and not kept.
    pub fn is_plain(&self) -> bool {
        self.original.is_none()
    }

    fn foreign(&self) -> Option<&Foreign> {
        self.original.as_ref()?.foreign.as_ref()
    }

    fn message(&self) -> Option<&Outgoing> {
        self.original.as_ref()?.message.as_deref()
    }

    fn may_fork(&self) -> bool {
        self.forks + self.copies < FORKS_MAX
    }
}

impl Judge {
    pub fn new(plan: Rc<Plan>, is_story_written: bool) -> Self {
        let events = Vec::with_capacity((plan.events + plan.strangers) as usize);
        let backlogs = plan.queues.iter().map(|_| Backlog::default()).collect();
        let figures = Figures { backlogs, ..Figures::default() };
        let mut judge = Self { plan, events, figures, ..Self::default() };
        judge.story.is_written = is_story_written;
        judge
    }

    /// Records the first rule that did not hold.
    pub fn violated(&mut self, check: Check, event: impl Into<Option<usize>>, what: String) {
        let event = event.into();
        self.story.tell(self.now, event, || format!("VIOLATED {check:?}: {what}"));
        self.violation.get_or_insert(Violation { check, event, what });
    }

    /// Shows what happens, to this event or to the world, to the promises that keep their own state.
    pub fn shows(&mut self, event: impl Into<Option<usize>>, happens: Happens<'_>) {
        if let Err((check, what)) = self.promises.on(happens) {
            self.violated(check, event, what);
        }
    }

    /// Lambda has accepted a client's event.
    pub fn sent(&mut self, target: usize, payload: Payload, request_id: &Arc<str>, trace: &str) {
        let event = self.events.len();
        self.story.tell(self.now, event, || {
            let text = &payload.text[..payload.text.floor_char_boundary(80)];
            format!("sent to target {target} as {request_id}: {text}")
        });
        self.tally.count(Seen::Step("events"));
        let foreign = payload.envelope;
        let open = Open {
            event,
            target,
            attempt: foreign.as_ref().map_or(0, |foreign| foreign.attempt),
            initial: foreign.as_ref().and_then(|foreign| NonZero::new(foreign.initial)),
            first_request: (&**request_id).into(),
            is_foreign: foreign.is_some(),
            is_unwrapped: false,
            trace: trace.into(),
        };
        self.open.insert(Arc::clone(request_id), open);
        let original = match &foreign {
            Some(foreign) if payload.message.is_none() => foreign.original.clone(),
            _ => payload.text,
        };
        self.events.push(Event::new(event, original, foreign, payload.message));
    }

    /// Whether this run's envelope was written by its caller.
    pub fn is_forged(&self, request_id: &str) -> bool {
        let open = self.open.get(request_id);
        open.is_some_and(|open| self.events[open.event].foreign().is_some())
    }

    /// A run of a target has begun with this payload.
    pub fn began(&mut self, request_id: &str, payload: &str, trace: &str) {
        let Some(open) = self.open.get_mut(request_id) else { return };
        open.trace = trace.into();
        let open = &self.open[request_id];
        let initial = open.initial.filter(|_| !open.is_unwrapped);
        let expected = self.expected(open, open.attempt, initial.map(NonZero::get));
        if payload != &*expected.body {
            let expected = &expected.body;
            let event = open.event;
            let what = format!("a target was given {payload}, expected {expected}");
            self.violated(Check::Envelope, event, what);
        }
    }

    /// The metadata of an attempt.
    fn metadata(&self, of: &Open, attempt: u32, initial: i64) -> String {
        let foreign = self.events[of.event].foreign().filter(|_| of.is_foreign);
        let others = foreign.map_or("", |foreign| &foreign.others);
        metadata(attempt, initial, self.event_id(of).as_deref(), others)
    }

    /// The original bytes of an event.
    fn payload(&self, event: usize) -> Cow<'_, str> {
        match &self.events[event].original {
            Some(original) => original.payload.as_str().into(),
            None => plain_text(event).into(),
        }
    }

    /// What a target must be given at this attempt: a function its payload, a queue its message. Without the time of
    /// its first failure, it is the original payload.
    fn expected(&self, of: &Open, attempt: u32, initial: Option<i64>) -> Outgoing {
        let metadata = initial.map(|initial| self.metadata(of, attempt, initial));
        if let Some(message) = self.events[of.event].message() {
            let mut message = message.clone();
            let metadata = metadata.map(MessageAttribute::string);
            message.attributes.extend(metadata.map(|it| (METADATA.to_owned(), it)));
            return message;
        }
        let payload = self.payload(of.event);
        let enveloped = metadata.map(|metadata| envelope(&metadata, &payload));
        Outgoing { body: enveloped.as_deref().unwrap_or(&payload).into(), ..Outgoing::default() }
    }

    pub fn succeeded(&mut self, request_id: &str) {
        let Some(open) = self.open.remove(request_id) else { return };
        self.story.tell(self.now, open.event, || format!("attempt {} succeeded", open.attempt));
        self.tally.count(Seen::Step("successes"));
        self.figures.recovered.extend((open.attempt > 0 && open.target == 0).then_some(self.now));
        self.events[open.event].ends += 1;
    }

    /// Lambda has given up an invocation, and could not send that anywhere.
    pub fn lost(&mut self, request_id: &str, why: &str) {
        let Some(open) = self.open.remove(request_id) else { return };
        self.story.tell(self.now, open.event, || format!("lost by Lambda: {why}"));
        self.tally.count(Seen::Step("lost by Lambda"));
        self.events[open.event].ends += 1;
    }

    /// A topic or a bus wraps a record in a message, and this one grew too large.
    pub fn lost_on_its_way(&mut self, trace: &str) {
        let Some(index) = self.case_with(trace) else { return };
        let case = &mut self.cases[index];
        case.acts += 1;
        if case.acts == 1 {
            self.figures.waiting.ends();
        }
        let event = case.of.event;
        self.story.tell(self.now, event, || "its record is too large to be passed on".to_owned());
        self.tally.count(Seen::Step("lost on its way"));
        self.events[event].ends += 1;
    }

    /// Nothing is left to happen: every event must have ended exactly once.
    pub fn at_rest(&mut self) {
        if let Some(event) = self.open.values().map(|open| open.event).min() {
            self.violated(Check::Settles, event, "an invocation of it has not ended".to_owned());
        }
        if let Some(case) = self.cases.iter().find(|case| case.acts == 0) {
            let (event, attempt, at) = (case.of.event, case.of.attempt, case.at);
            let what = format!("nothing became of the failure of attempt {attempt} at {at}");
            self.violated(Check::Settles, event, what);
        }
        let off = self.events.iter().position(|event| event.ends != 1 + event.forks);
        if let Some(index) = off {
            let Event { ends, forks, .. } = self.events[index];
            let what = format!("it ended {ends} times, and its chain was forked {forks} times");
            self.violated(Check::EndsOneWay, index, what);
        }
        self.orders_are_followed();
    }
}
