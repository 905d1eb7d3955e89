//! What the judge knows of a world: all that has happened, and what each handler has learned of it.
//!
//! Here is only recorded, and nothing judged. Promises read it.

mod acts;
mod cases;
mod circuits;
mod delays;
mod deliveries;
mod faults;
mod names;
mod phase;
mod recall;
mod records;
mod register;
mod sent;
mod split;
mod streams;
mod undelivered;

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
    acts::{Cause, REASONS, WAIT_MAX, Waits, Why},
    cases::{Case, Condition, Stranger},
    circuits::{Circuit, Concluded, Evidence},
    delays::{DELAY_MAX, HOP_MIN, content},
    deliveries::{Delivery, Met, is_claim, receive_count, trace_of, was_moved},
    names::{Arns, named},
    phase::{PATIENCE_MIN, Phase},
    recall::{Recall, Says},
    records::{Fetch, NOTHING, Place},
    register::{LOOKS_MAX, Wait, came_back, is_free},
    undelivered::Undelivered,
};
use self::{
    cases::{Cases, Errors},
    faults::Faults,
    sent::Calls,
    split::Part,
};
use super::figures::{Backlog, Figures};
use crate::{
    ids::{Id, Trace},
    payload::{Foreign, METADATA, Payload, envelope, metadata, plain_text},
    plan::Plan,
    policy::Millis,
    seen::{Seen, Story, Tally},
    stream::Batch,
};

/// An event with this many forks gets no further faults that may fork it.
const FORKS_MAX: u16 = 6;

#[derive(Default)]
pub struct Known {
    pub story: Story,
    pub tally: Tally,
    pub now: Timestamp,
    pub figures: Figures,
    pub plan: Rc<Plan>,
    pub events: Vec<Event>,
    pub cases: Cases,
    errors: Errors,
    /// Invocations that Lambda has accepted and that have not ended, by their request ids.
    pub open: FxHashMap<Arc<str>, Open>,
    /// Cases by the trace that their messages carry.
    by_trace: FxHashMap<Trace, u32>,
    /// The messages that each run of a handler has received.
    pub runs: FxHashMap<u64, Vec<Delivery>>,
    /// Whether each process of a handler was deployed after others, with other settings.
    turned: Vec<bool>,
    faults: Faults,
    /// What the runs know about circuits, by run and target.
    circuits: FxHashMap<u64, BTreeMap<String, Circuit>>,
    pub calls: Calls,
    /// The parts of notices of several objects, by their cases.
    joined: FxHashMap<usize, Vec<Part>>,
    /// The number of answers that handlers have received.
    answers: u64,
    /// The functions that operators have paused, by the names in their failure records.
    pub paused: BTreeSet<String>,
    /// The number of handlers that have a message now, by message id.
    holders: FxHashMap<String, u32>,
}

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

pub struct Event {
    /// What was sent, unless that is the plain payload of an event with this number.
    original: Option<Box<Original>>,
    pub ends: u16,
    /// How often one of its cases was acted on again.
    pub forks: u16,
    copies: u16,
}

struct Original {
    /// The original bytes.
    payload: String,
    foreign: Option<Foreign>,
    /// A queue's message, without metadata.
    message: Option<Box<Outgoing>>,
    batch: Option<Rc<Batch>>,
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
    pub fn first_failure(&self, at: Millis) -> Millis {
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
        let original = Original { payload, foreign, message, batch: None };
        let original = (!is_plain).then(|| original.into());
        Self { original, ends: 0, forks: 0, copies: 0 }
    }

    /// The same, if it is a batch of a stream.
    fn of_batch(mut self, batch: Rc<Batch>) -> Self {
        if let Some(original) = &mut self.original {
            original.batch = Some(batch);
        }
        self
    }

    /// Whether its payload is made again from its number, and not kept.
    pub fn is_plain(&self) -> bool {
        self.original.is_none()
    }

    pub fn foreign(&self) -> Option<&Foreign> {
        self.original.as_ref()?.foreign.as_ref()
    }

    pub fn message(&self) -> Option<&Outgoing> {
        self.original.as_ref()?.message.as_deref()
    }

    fn may_fork(&self) -> bool {
        self.forks + self.copies < FORKS_MAX
    }
}

impl Known {
    pub fn new(plan: Rc<Plan>, is_story_written: bool) -> Self {
        let events = Vec::with_capacity((plan.events + plan.strangers) as usize);
        let backlogs = plan.queues.iter().map(|_| Backlog::default()).collect();
        let figures = Figures { backlogs, ..Figures::default() };
        let mut known = Self { plan, events, figures, ..Self::default() };
        known.story.is_written = is_story_written;
        known
    }

    pub fn calm_at(&self) -> Millis {
        crate::world::BEGAN_AT as Millis + self.plan.calm_after.as_millis() as Millis
    }

    /// The messages that a run has received.
    pub fn batch(&self, run: u64) -> &[Delivery] {
        self.runs.get(&run).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn message(&self, of: Subject) -> Option<&Delivery> {
        self.batch(of.run).get(of.place)
    }

    fn message_mut(&mut self, run: u64, place: usize) -> Option<&mut Delivery> {
        self.runs.get_mut(&run)?.get_mut(place)
    }

    /// The event of which this case is a failure.
    pub fn event_of(&self, case: usize) -> usize {
        self.cases[case].of.event
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

    /// A run of a target has begun. Returns its event.
    pub fn began(&mut self, request_id: &str, trace: &str) -> Option<usize> {
        let open = self.open.get_mut(request_id)?;
        open.trace = trace.into();
        Some(open.event)
    }

    /// The metadata of an attempt.
    fn metadata(&self, of: &Open, attempt: u32, initial: i64) -> String {
        let foreign = self.events[of.event].foreign().filter(|_| of.is_foreign);
        let others = foreign.map_or("", |foreign| &foreign.others);
        metadata(attempt, initial, self.event_id(of).as_deref(), others)
    }

    /// The original bytes of an event.
    pub fn payload(&self, event: usize) -> Cow<'_, str> {
        match &self.events[event].original {
            Some(original) => original.payload.as_str().into(),
            None => plain_text(event).into(),
        }
    }

    /// What a target must be given at this attempt: a function its payload, a queue its message. Without the time of
    /// its first failure, it is the original payload.
    pub fn expected(&self, of: &Open, attempt: u32, initial: Option<i64>) -> Outgoing {
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

    /// The request id of the event in its dead letter.
    pub fn request_of(&self, index: usize) -> String {
        let case = &self.cases[index];
        self.event_id(&case.of).unwrap_or_else(|| case.request_id.to_string())
    }

    /// The request id by which an event is known in all its attempts. Another writer's envelope may have none.
    pub fn event_id(&self, of: &Open) -> Option<String> {
        match self.events[of.event].foreign().filter(|_| of.is_foreign) {
            Some(foreign) => foreign.request_id.clone(),
            None => Some(of.first_request.to_string()),
        }
    }
}
