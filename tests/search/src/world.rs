//! A system: queue, table, targets, handlers and an operator. Its state is small and can be copied. What may happen
//! next is a step.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use comeback_core::{
    arn::{FunctionArn, queue_url},
    claim::{Claim, Order, State as ClaimState, Token},
    lineage::{Key, Known},
    settings::Settings,
    target::Target,
};
use comeback_flow::ports::Stored;
use wire::Request;

use crate::{
    calls::Way,
    machine::{Arena, Attributes, Input, Machine, Millis, RETRY_QUEUE, Start, millis, timestamp},
    recall::Sent,
    scopes::{Kind, Limits, Roots, Scope},
    streams,
};

pub const FUNCTION: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
pub const QUEUE: &str = "arn:aws:sqs:us-east-1:123456789012:imports";
pub const RULE: &str = "arn:aws:events:us-east-1:123456789012:rule/orders";
const DEAD_LETTERS: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/dead";

pub const SECOND: Millis = 1_000;

/// Until when an operator wants an order to be kept: SQS keeps no message for longer.
pub const ORDER_KEPT_UNTIL: Millis = 14 * 24 * 60 * 60 * SECOND;

/// The answer of a function that fails.
const DOWN: &str = r#"{"errorType":"Down","errorMessage":"down"}"#;

/// When the first events are received. They failed at 0, and the fraction shows whether waits are rounded up.
const RECEIVED: Millis = 1_400;
/// The same, so late that the queue has a backlog.
const RECEIVED_LATE: Millis = 6_400;

/// A message or a letter: what is in it, and what it is about.
#[derive(Clone, Debug)]
pub struct Content {
    pub event: usize,
    /// SQS's id of the message.
    pub id: String,
    pub body: String,
    pub attributes: Attributes,
    pub form: Form,
    pub failure: Failure,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    Record,
    /// SQS moved it from a queue whose consumer failed.
    Moved,
    /// EventBridge could not deliver its event.
    Undelivered,
    /// Its record lies in a bucket.
    InBucket,
    /// It was sent again as a delay.
    Resent,
    /// It was a dead letter.
    Redriven,
}

/// The failure that a message describes, as this search knows it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The key of its claim.
    pub key: u32,
    /// The key under which its run may be known: that of the event with which the run was started.
    pub run_key: u32,
    /// The event's id in all attempts.
    pub first_id: String,
    /// How many attempts were made.
    pub attempts: u32,
    pub at: Millis,
    pub first_at: Millis,
    /// A redriven message of a queue is sent back as its producer sent it.
    pub is_redriven: bool,
    /// Its target has never got the event.
    pub is_undelivered: bool,
    /// A mapping has given up the batch for which it has invoked the function itself.
    pub is_of_mapping: bool,
    /// Of a batch, the first record is not left.
    pub is_rest: bool,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Message {
    pub number: u16,
    pub content: u32,
    sent_at: Millis,
    first_at: Option<Millis>,
    pub visible_at: Millis,
    pub receives: u8,
    /// Whether it is unknown which run has failed, so that it is put back for a short time.
    pub is_unknown: bool,
}

impl Message {
    pub fn handle(&self) -> String {
        format!("m{}#{}", self.number, self.receives)
    }
}

/// A handler at work.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Run {
    pub name: u16,
    pub node: u32,
    deadline: Millis,
    /// The numbers and contents of its messages, and which receives these are.
    pub batch: Vec<(u16, u32, u8)>,
    /// Whether a fault has hit it, and whether Lambda has refused its invocation.
    pub is_hit: bool,
    pub is_refused: bool,
    /// Whether it must know that the function is paused.
    pub knows_pause: bool,
    /// The circuit that it knows.
    pub circuit: u32,
    /// The keys of failures that it has acted on, and of those whose messages it has sent again.
    pub acted: Vec<u32>,
    pub resent: Vec<u32>,
    /// The keys of failures whose notes it may have to wait for, and until when at most.
    pub unknown: Vec<(u32, Millis)>,
}

/// A run of a slow target.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Flight {
    pub content: u32,
    pub payload: u32,
    pub since: Millis,
    pub is_probe: bool,
}

/// What is known about a failure.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Act {
    /// How often it was acted on.
    pub count: u8,
    /// Whether it may be acted on once more: its handler could not mark it, or got no answer.
    pub may_repeat: bool,
    /// An order that was accepted, and whether it was followed.
    pub order: Option<Order>,
    pub is_followed: bool,
    /// Whether it may be followed only when the event is due: a handler's call to put the message back was under way,
    /// and hid the message again.
    pub may_wait: bool,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Fate {
    /// Whether the event has happened.
    pub is_there: bool,
    pub delivered: u8,
    pub letters: u8,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct State {
    pub now: Millis,
    pub begun: u16,
    numbered: u16,
    pub messages: Vec<Message>,
    pub letters: Vec<u32>,
    pub handlers: [Option<Run>; 2],
    pub items: BTreeMap<u32, u32>,
    /// The items before the writes of this moment, which a read that is not consistent may still find.
    pub stale: BTreeMap<u32, Option<u32>>,
    /// The calls without an envelope, by name.
    pub sent: BTreeMap<String, Sent>,
    pub accepted: u16,
    pub circuit: u32,
    pub is_paused: bool,
    pub flights: Vec<Flight>,
    pub fates: Vec<Fate>,
    pub acts: BTreeMap<u32, Act>,
    pub left: Limits,
}

/// An item of the ledger's table: what is known of a run, and of an event that waits, until when and its receipt
/// handle.
#[derive(Clone, Debug)]
pub struct Item {
    pub known: Known,
    pub waiting: Option<(Millis, Option<String>)>,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// A handler receives these messages.
    Deliver(Vec<u16>),
    /// A message that a handler has is visible again.
    Copy(u16),
    Call {
        handler: usize,
        nth: usize,
        way: Way,
        /// Which runs of the target that is invoked fail: a bit for each.
        fails: u8,
    },
    Report(usize),
    Crash(usize),
    Order(u32, Order),
    Pause(bool),
    /// A slow target ends.
    End(usize, bool),
    Redrive(usize),
    /// Nothing can happen before the next message is visible.
    Time,
    /// Time passes although something could happen now.
    Late,
}

/// A rule that does not hold, and why.
#[derive(Debug)]
pub struct Broken(pub &'static str, pub String);

pub struct World {
    pub scope: Scope,
    pub machine: Machine,
    pub contents: Arena<Content>,
    pub items: Arena<Item>,
    pub circuits: Arena<Stored>,
    pub keys: Arena<Key>,
    pub payloads: Arena<String>,
    /// The rare things that the search has seen.
    pub seen: BTreeSet<&'static str>,
    pub base: Millis,
    pub max_age: Millis,
    pub max_attempts: u32,
}

fn payload(event: usize) -> String {
    format!(r#"{{"event":{event}, "exact": 1.0}}"#)
}

pub fn time(at: Millis) -> String {
    timestamp(at).format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

impl World {
    #[allow(
        clippy::expect_used,
        reason = "the settings of a scope are right, or it can't be searched"
    )]
    pub fn new(scope: Scope) -> Self {
        let common =
            [("DEAD_LETTER_QUEUE_URL", DEAD_LETTERS), ("BASE_BACKOFF", "60s"), ("JITTER", "none")];
        let all: BTreeMap<_, _> = common
            .into_iter()
            .chain([("MAX_AGE", "1h")])
            .chain(scope.settings.iter().copied())
            .collect();
        let settings = Settings::from_lookup(|name| all.get(name).map(|value| (*value).to_owned()))
            .expect("settings");
        let policy = settings.rules.policies.of("orders");
        let (base, max_age) = (policy.backoff.base.as_millis(), policy.max_age.as_millis());
        let max_attempts = policy.max_attempts.map_or(u32::MAX, comeback_core::Attempt::get);
        let home = FunctionArn::parse(FUNCTION).expect("an ARN");
        Self {
            machine: Machine::new(settings, &home),
            contents: Arena::default(),
            items: Arena::default(),
            circuits: Arena::default(),
            keys: Arena::default(),
            payloads: Arena::default(),
            seen: BTreeSet::new(),
            base: base as Millis,
            max_age: max_age as Millis,
            max_attempts,
            scope,
        }
    }

    pub fn has_ledger(&self) -> bool {
        self.scope.settings.iter().any(|(name, _)| *name == "LEDGER_TABLE")
    }

    pub fn registers(&self) -> bool {
        self.scope.settings.iter().any(|(name, _)| *name == "REGISTER")
    }

    pub fn is_transparent(&self) -> bool {
        self.scope.settings.iter().any(|(name, _)| *name == "TRANSPARENT")
    }

    /// The trace header of an event's messages.
    pub fn trace(&self, event: usize) -> Option<String> {
        match self.scope.roots {
            Roots::Own => Some(format!("Root=1-{event};Sampled=0")),
            Roots::Equal => Some("Root=1-0;Sampled=0".to_owned()),
            Roots::OneMissing => (event == 0).then(|| "Root=1-0;Sampled=0".to_owned()),
            Roots::Missing => None,
        }
    }

    #[allow(clippy::expect_used, reason = "the targets of this search are right")]
    pub fn key(&mut self, event: usize, is_rest: bool, run: &str) -> u32 {
        let target = Target::parse(self.target(event)).expect("a target");
        self.keys.number(Key::of(&target, &self.payload(event, is_rest), run))
    }

    /// The messages that a handler has received.
    pub fn batch_of(&self, state: &State, handler: usize) -> impl Iterator<Item = Rc<Content>> {
        let batch = state.handlers[handler].iter().flat_map(|run| &run.batch);
        batch.map(|(_, content, _)| self.contents.get(*content))
    }

    /// What the target of an event gets, or what is left of it.
    pub fn payload(&self, event: usize, is_rest: bool) -> String {
        let number = if self.scope.is_equal { 0 } else { event };
        match self.scope.events[event] {
            kind @ (Kind::Batch | Kind::Large) => streams::batch(number, kind, is_rest),
            kind @ Kind::Part(_) => streams::batch(0, kind, is_rest),
            Kind::Function | Kind::Queue | Kind::Delivery => payload(number),
        }
    }

    pub fn payload_of(&self, Content { event, failure, .. }: &Content) -> String {
        self.payload(*event, failure.is_rest)
    }

    pub fn initial(&mut self) -> State {
        let circuit = self.scope.is_down.then(|| {
            let [since, next_at] = [0, RECEIVED].map(|at| timestamp(at).timestamp_millis());
            format!(r#"{{"by":"","patience_seconds":20,"watchers":0,"phase":{{"open":{{"since":{since},"next_at":{next_at},"interval_seconds":10}}}}}}"#)
        });
        let circuit =
            self.circuits.number(Stored { version: u64::from(circuit.is_some()), text: circuit });
        let events = self.scope.events;
        let mut state = State {
            circuit,
            fates: vec![Fate::default(); events.len()],
            left: self.scope.limits,
            ..State::default()
        };
        for (event, kind) in events.iter().enumerate() {
            let sent = self.payload(event, false);
            let own = match kind {
                Kind::Function | Kind::Queue => vec![("own", "1")],
                Kind::Batch | Kind::Large => Vec::new(),
                // It becomes an event when its batch is sent in parts.
                Kind::Part(_) => continue,
                Kind::Delivery => {
                    vec![("RULE_ARN", RULE), ("TARGET_ARN", FUNCTION), ("ERROR_CODE", "Down")]
                }
            };
            let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            self.fail(&mut state, event, None, None, &sent, own.collect());
            state.fates[event].is_there = true;
        }
        state.now = if self.scope.is_crowded { RECEIVED_LATE } else { RECEIVED };
        state
    }

    /// The target of an event fails. Lambda or SQS puts a message into the retry queue. Before the first failure there
    /// is none before.
    fn fail(
        &mut self,
        state: &mut State,
        event: usize,
        before: Option<&Failure>,
        accepted_as: Option<&str>,
        sent: &str,
        attributes: Attributes,
    ) {
        let id = accepted_as.map_or_else(|| format!("id-{}", state.numbered), str::to_owned);
        let form = match self.scope.events[event] {
            Kind::Function => Form::Record,
            Kind::Queue => Form::Moved,
            Kind::Delivery if before.is_none() => Form::Undelivered,
            Kind::Batch | Kind::Large if before.is_none() => Form::InBucket,
            Kind::Delivery | Kind::Batch | Kind::Large | Kind::Part(_) => Form::Record,
        };
        // The metadata counts whole seconds. A redriven message of a queue has none, and what a function makes of an
        // event that it never got is a failure of its own.
        let before = before.filter(|it| form == Form::Record || !it.is_redriven);
        let before = before.filter(|it| !it.is_undelivered);
        let was_rest = before.is_some_and(|it| it.is_rest);
        // A function that answers with names has succeeded, in Lambda's eyes.
        let names = self.scope.names && form == Form::Record;
        let is_rest = names || was_rest;
        let failure = Failure {
            key: self.key(event, is_rest, &id),
            run_key: self.key(event, was_rest, &id),
            first_id: before.map_or(id.clone(), |it| it.first_id.clone()),
            attempts: before.map_or(0, |it| it.attempts + 1),
            at: state.now,
            first_at: before.map_or(state.now, |it| it.first_at.div_euclid(SECOND) * SECOND),
            is_redriven: false,
            is_undelivered: form == Form::Undelivered,
            is_of_mapping: form == Form::InBucket,
            is_rest,
        };
        let (body, attributes) = match form {
            Form::Moved | Form::Undelivered => (sent.to_owned(), attributes),
            Form::InBucket => (streams::notice(&id), attributes),
            Form::Record | Form::Resent | Form::Redriven => {
                let (condition, answer) = match names {
                    true => ("Success", streams::answer(event)),
                    false => ("RetriesExhausted", DOWN.to_owned()),
                };
                let body = format!(
                    r#"{{"timestamp":"{}","requestContext":{{"requestId":"{id}","functionArn":"{FUNCTION}","condition":"{condition}"}},"requestPayload":{sent},"responsePayload":{answer}}}"#,
                    time(state.now)
                );
                (body, Vec::new())
            }
        };
        self.send(state, Content { event, id, body, attributes, form, failure }, 0);
    }

    pub fn send(&mut self, state: &mut State, content: Content, delay: Millis) {
        let (number, now) = (state.numbered, state.now);
        let content = Content { id: format!("id-{number}"), ..content };
        state.numbered += 1;
        // SQS has received a moved message before.
        let first_at = (content.form == Form::Moved).then_some(now);
        let content = self.contents.number(content);
        let visible_at = now + delay;
        let (sent_at, receives, is_unknown) = (now, 0, false);
        let message =
            Message { number, content, sent_at, first_at, visible_at, receives, is_unknown };
        state.messages.push(message);
    }

    /// What may happen next.
    pub fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        let Limits { faults, copies, orders, failures, redrives } = state.left;
        let visible: Vec<_> = state
            .messages
            .iter()
            .filter(|it| it.visible_at <= state.now)
            .map(|it| it.number)
            .collect();
        let busy = state.handlers.iter().flatten().count();
        for (handler, run) in
            state.handlers.iter().enumerate().filter_map(|(nth, run)| Some((nth, run.as_ref()?)))
        {
            let node = self.machine.node(run.node);
            if node.kept.is_some() {
                steps.push(Step::Report(handler));
            }
            for (nth, _, call) in node.calls.iter().filter(|_| node.kept.is_none()) {
                let acts = matches!(call, Request::Invoke(_))
                    || matches!(call, Request::Again { queue_url, .. } if !is_retry_queue(queue_url));
                let acts = acts && !self.scope.is_down;
                let ways = self.ways(state, call).into_iter();
                for way in ways.filter(|way| faults > 0 || *way == Way::Answered) {
                    let most = if acts { u32::from(failures) } else { 0 };
                    let fails = way.failures(self.is_transparent());
                    for fails in fails.filter(|fails| fails.count_ones() <= most) {
                        steps.push(Step::Call { handler, nth: *nth, way, fails });
                    }
                }
            }
            if faults > 0 {
                steps.push(Step::Crash(handler));
            }
        }
        if busy < usize::from(self.scope.handlers) {
            steps.extend(visible.iter().map(|number| Step::Deliver(vec![*number])));
            if self.scope.batches && visible.len() > 1 {
                steps.push(Step::Deliver(visible.clone()));
            }
        }
        if copies > 0 {
            let in_flight =
                state.messages.iter().filter(|it| it.visible_at > state.now && it.receives > 0);
            steps.extend(in_flight.map(|it| Step::Copy(it.number)));
        }
        if orders > 0 && self.registers() && !state.messages.is_empty() {
            for (key, item) in &state.items {
                let claim = &self.items.get(*item).known.claim;
                if claim.state == ClaimState::Waiting && !claim.is_expired(timestamp(state.now)) {
                    steps.extend(
                        [Order::Retry, Order::Cancel].map(|order| Step::Order(*key, order)),
                    );
                }
            }
            steps.extend((!self.scope.batches).then_some(Step::Pause(!state.is_paused)));
        }
        for flight in 0..state.flights.len() {
            steps.push(Step::End(flight, false));
            steps.extend((failures > 0).then_some(Step::End(flight, true)));
        }
        if redrives > 0 {
            steps.extend((0..state.letters.len()).map(Step::Redrive));
        }
        let waits = state.messages.iter().any(|it| it.visible_at > state.now);
        if busy == 0 && visible.is_empty() {
            steps.extend(waits.then_some(Step::Time));
        } else if faults > 0 && (waits || busy > 0) {
            steps.push(Step::Late);
        }
        steps
    }

    pub fn take(&mut self, before: &State, step: &Step) -> Result<State, Broken> {
        let mut state = before.clone();
        match step {
            Step::Deliver(numbers) => self.deliver(&mut state, numbers)?,
            Step::Copy(number) => {
                state.left.copies -= 1;
                let now = state.now;
                state
                    .messages
                    .iter_mut()
                    .filter(|it| it.number == *number)
                    .for_each(|it| it.visible_at = now);
            }
            Step::Call { handler, nth, way, fails } => {
                self.call(&mut state, *handler, *nth, *way, *fails)?
            }
            Step::Report(handler) => {
                self.check_report(&state, *handler)?;
                let Some(run) = state.handlers[*handler].take() else { return Ok(state) };
                let kept = self.machine.node(run.node).kept.clone().unwrap_or_default();
                let contents = &self.contents;
                state.messages.retain(|it| {
                    let received = run.batch.contains(&(it.number, it.content, it.receives));
                    !received || kept.contains(&contents.get(it.content).id)
                });
            }
            Step::Crash(handler) => {
                state.left.faults -= 1;
                self.see_death(&state, *handler);
                self.cut_off(&mut state, *handler);
                state.handlers[*handler] = None;
            }
            Step::Order(key, order) => self.order(&mut state, *key, *order),
            Step::Pause(pauses) => {
                state.left.orders -= 1;
                state.is_paused = *pauses;
                state.handlers.iter_mut().flatten().for_each(|run| run.knows_pause &= *pauses);
            }
            Step::End(flight, fails) => {
                let flight = state.flights.remove(*flight);
                let content = self.contents.get(flight.content);
                let sent = self.payloads.get(flight.payload);
                self.end(&mut state, &content, None, &sent, Vec::new(), *fails);
            }
            Step::Redrive(nth) => {
                state.left.redrives -= 1;
                let letter = self.contents.get(state.letters.remove(*nth));
                state.fates[letter.event].letters -= 1;
                let id = format!("id-{}", state.numbered);
                let key = self.key(letter.event, letter.failure.is_rest, &id);
                let now = state.now;
                let failure = Failure {
                    key,
                    run_key: key,
                    attempts: 0,
                    at: now,
                    first_at: now,
                    is_redriven: true,
                    is_of_mapping: false,
                    ..letter.failure.clone()
                };
                self.send(
                    &mut state,
                    Content { id, form: Form::Redriven, failure, ..(*letter).clone() },
                    0,
                );
            }
            Step::Time => {
                self.check_rest(&state)?;
                let waits =
                    state.messages.iter().map(|it| it.visible_at).filter(|at| *at > state.now);
                state.now = waits.min().unwrap_or(state.now);
                state.stale.clear();
            }
            Step::Late => self.late(&mut state)?,
        }
        if state.left.faults == 0 {
            state.stale.clear();
        }
        self.check_all(&state)?;
        Ok(state)
    }

    pub fn target(&self, event: usize) -> &'static str {
        if self.scope.events[event] == Kind::Queue { QUEUE } else { FUNCTION }
    }

    fn deliver(&mut self, state: &mut State, numbers: &[u16]) -> Result<(), Broken> {
        let (now, name) = (state.now, state.begun);
        state.begun += 1;
        let (mut batch, mut event) = (Vec::new(), SqsEvent::default());
        let mut key = format!("run-{name} {now}");
        for message in state.messages.iter_mut().filter(|it| numbers.contains(&it.number)) {
            message.receives += 1;
            message.is_unknown = false;
            message.visible_at = now + 6 * self.scope.timeout;
            let first_at = *message.first_at.get_or_insert(now);
            let content = self.contents.get(message.content);
            let trace = self.trace(content.event);
            if message.receives > 40 {
                return Err(Broken("Ends", format!("{} was received 40 times", content.id)));
            }
            key += &format!(" {message:?}");
            event.records.push(received(message, &content, first_at, trace));
            batch.push((message.number, message.content, message.receives));
        }
        let deadline = now + self.scope.timeout;
        let start = Start { run: format!("run-{name}"), at: now, deadline, event };
        let node = self.machine.begin(key, start);
        let run = Run {
            name,
            node,
            deadline,
            batch,
            is_hit: false,
            is_refused: false,
            knows_pause: state.is_paused,
            circuit: state.circuit,
            acted: Vec::new(),
            resent: Vec::new(),
            unknown: Vec::new(),
        };
        let free = state.handlers.iter_mut().find(|it| it.is_none());
        if let Some(free) = free {
            *free = Some(run);
        }
        Ok(())
    }

    /// A target ends.
    pub fn end(
        &mut self,
        state: &mut State,
        content: &Content,
        accepted_as: Option<&str>,
        sent: &str,
        attributes: Attributes,
        fails: bool,
    ) {
        if fails {
            state.left.failures -= 1;
            let before = Some(&content.failure);
            self.fail(state, content.event, before, accepted_as, sent, attributes);
        } else {
            state.fates[content.event].delivered += 1;
        }
    }

    /// An operator writes an order into the item of an event that waits, and makes its message visible.
    fn order(&mut self, state: &mut State, key: u32, order: Order) {
        state.left.orders -= 1;
        let Some(number) = state.items.get(&key) else { return };
        let item = self.items.get(*number);
        let token = Token {
            generation: item.known.claim.token.generation + 1,
            owner: format!("operator-{}", state.left.orders),
        };
        let expires_at = timestamp(ORDER_KEPT_UNTIL);
        let claim = Claim { token, order: Some(order), expires_at, ..item.known.claim.clone() };
        let handle = item.waiting.clone().and_then(|(_, handle)| handle);
        let known = Known { claim, ..item.known.clone() };
        let next = self.items.number(Item { known, waiting: item.waiting.clone() });
        self.write(state, key, Some(next));
        let hides = |it: &Request| matches!(it, Request::Hide { changes, .. } if changes.iter().any(|it| Some(&it.0) == handle.as_ref()));
        let mut runs = state.handlers.iter().flatten().map(|run| self.machine.node(run.node));
        let may_wait = runs.any(|node| node.calls.iter().any(|(.., call)| hides(call)));
        let act = state.acts.entry(key).or_default();
        (act.order, act.is_followed, act.may_wait) = (Some(order), false, may_wait);
        let message = |it: &&mut Message| {
            handle.as_ref().is_some_and(|handle| handle.starts_with(&format!("m{}#", it.number)))
        };
        let now = state.now;
        state.messages.iter_mut().filter(message).for_each(|it| it.visible_at = now);
    }

    /// A handler did not get to mark what it has acted on.
    fn cut_off(&self, state: &mut State, handler: usize) {
        let Some(run) = &mut state.handlers[handler] else { return };
        run.is_hit = true;
        let (name, acted) = (run.name, run.acted.clone());
        for key in acted {
            if !self.is_marked(state, key) {
                state.acts.entry(key).or_default().may_repeat = true;
            }
        }
        self.doubt(state, name);
    }

    /// Writes an item, or removes it.
    pub fn write(&self, state: &mut State, key: u32, next: Option<u32>) {
        let before = match next {
            Some(next) => state.items.insert(key, next),
            None => state.items.remove(&key),
        };
        if self.is_transparent() || self.registers() {
            state.stale.entry(key).or_insert(before);
        }
    }

    fn late(&mut self, state: &mut State) -> Result<(), Broken> {
        state.left.faults -= 1;
        let runs = state.handlers.iter().flatten();
        let ends = runs
            .flat_map(|run| [self.machine.node(run.node).wakes_at, Some(run.deadline)])
            .flatten();
        let leases =
            state.items.values().filter_map(|item| match self.items.get(*item).known.claim.state {
                ClaimState::Held { until } => Some(millis(until)),
                ClaimState::Noted | ClaimState::Waiting | ClaimState::Done => None,
            });
        let moments = state.messages.iter().map(|it| it.visible_at).chain(ends).chain(leases);
        let Some(next) = moments.filter(|at| *at > state.now).min() else { return Ok(()) };
        state.now = next;
        state.stale.clear();
        for handler in 0..state.handlers.len() {
            self.cut_off(state, handler);
            let Some(run) = &mut state.handlers[handler] else { continue };
            let node = self.machine.node(run.node);
            if node.wakes_at.is_some_and(|at| at <= next) {
                run.node = self.machine.go_on(run.node, next, Input::Time);
            }
            if run.deadline <= next {
                if node.kept.is_none() {
                    return Err(Broken(
                        "AnswersInTime",
                        format!("run-{} was killed at its deadline", run.name),
                    ));
                }
                state.handlers[handler] = None;
            }
        }
        Ok(())
    }
}

/// A message as a handler receives it.
fn received(
    message: &Message,
    content: &Content,
    first_at: Millis,
    trace: Option<String>,
) -> SqsMessage {
    let absolute = |at: Millis| timestamp(at).timestamp_millis().to_string();
    let mut system = vec![
        ("ApproximateReceiveCount", message.receives.to_string()),
        ("SentTimestamp", absolute(message.sent_at)),
        ("ApproximateFirstReceiveTimestamp", absolute(first_at)),
    ];
    system.extend(trace.map(|trace| ("AWSTraceHeader", trace)));
    if content.form == Form::Moved {
        system.push(("DeadLetterQueueSourceArn", QUEUE.to_owned()));
    }
    let attribute = |(name, value): &(String, String)| {
        let mut attribute = SqsMessageAttribute::default();
        attribute.data_type = Some("String".to_owned());
        attribute.string_value = Some(value.clone());
        (name.clone(), attribute)
    };
    let mut record = SqsMessage::default();
    record.message_id = Some(content.id.clone());
    record.receipt_handle = Some(message.handle());
    record.body = Some(content.body.clone());
    record.event_source_arn = Some(RETRY_QUEUE.to_owned());
    record.attributes = system.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
    record.message_attributes = content.attributes.iter().map(attribute).collect();
    record
}

pub fn is_retry_queue(url: &str) -> bool {
    queue_url(RETRY_QUEUE).as_deref() == Some(url)
}
