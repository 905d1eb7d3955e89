//! One batch after another in a world whose services do what a test says, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    ops::Range,
    pin::pin,
    rc::Rc,
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use comeback_core::{
    Timestamp,
    arn::{FunctionArn, Home},
    dead_letter::DeadLetter,
    lineage::{Key, Known},
    reason::Reason,
    settings::Settings,
    target::Target,
    time::later,
};
use comeback_flow::{
    batch::{BatchRefused, Context},
    ports::Stored,
    report::{Outcome, Report},
};
use wire::{AwsHandler, Entry, Environment, Invoke, Request};

use crate::{services::Answer, table::Table};

pub const QUEUE: &str = "arn:aws:sqs:us-east-1:123456789012:retry";
pub const TARGET: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
pub const QUEUE_URL: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/retry";

pub fn start() -> Timestamp {
    "2026-02-01T12:00:00Z".parse().unwrap()
}

pub struct World {
    now: Rc<Cell<Timestamp>>,
    /// The handler's settings, beside those that all have.
    pub settings: BTreeMap<&'static str, &'static str>,
    /// The answer to calls of which a text contains this one: a message, a payload, a verb and a run. The first match
    /// counts, and a call without a match is accepted.
    pub answers: Vec<(&'static str, Answer)>,
    /// All calls in order, and from when until when each takes.
    pub log: RefCell<Vec<(Range<Timestamp>, Request)>>,
    /// SQS's count of messages in flight.
    pub in_flight: u64,
    /// The objects in buckets by their locations.
    pub objects: BTreeMap<String, Vec<u8>>,
    pub table: Table,
    /// How many invocations were accepted.
    pub accepted: Cell<usize>,
    /// How many earlier calls Lambda may have accepted for each invocation.
    pub repeats: u32,
}

impl World {
    pub fn new(answers: &[(&'static str, Answer)]) -> Self {
        crate::log::listen();
        Self {
            now: Rc::new(Cell::new(start())),
            settings: BTreeMap::from([
                ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/dead"),
                ("BASE_BACKOFF", "60s"),
            ]),
            answers: answers.to_vec(),
            log: RefCell::default(),
            in_flight: 0,
            objects: BTreeMap::new(),
            table: Table::default(),
            accepted: Cell::default(),
            repeats: 0,
        }
    }

    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.settings.insert(name, value);
        self
    }

    pub fn with_ledger(answers: &[(&'static str, Answer)]) -> Self {
        Self::new(answers).with("LEDGER_TABLE", "ledger")
    }

    pub fn with_register(answers: &[(&'static str, Answer)]) -> Self {
        Self::with_ledger(answers).with("REGISTER", "true")
    }

    /// With a register and probes, and this circuit.
    pub fn with_probes(circuit: &str, answers: &[(&'static str, Answer)]) -> Self {
        let world = Self::with_register(answers).with("PROBE", "true");
        let stored = Stored { version: 7, text: Some(circuit.to_owned()) };
        world.table.circuits.borrow_mut().insert(TARGET.to_owned(), stored);
        world
    }

    pub fn now(&self) -> Timestamp {
        self.now.get()
    }

    pub fn pass(&self, time: Duration) {
        self.pass_until(later(self.now(), time));
    }

    pub fn pass_until(&self, time: Timestamp) {
        self.now.set(time);
    }

    pub fn handler(&self) -> AwsHandler {
        let lookup = |name: &str| self.settings.get(name).map(|&value| value.to_owned());
        let settings = Settings::from_lookup(lookup).unwrap();
        let has_ledger = settings.ledger_table.is_some();
        let (number, ahead, behind) = (0, Duration::ZERO, Duration::ZERO);
        let (now, requests) = (Rc::clone(&self.now), RefCell::default());
        Environment { number, now, ahead, behind, requests }.handler(settings, has_ledger)
    }

    /// Lets a handler handle a batch, and answers its calls.
    pub fn play(
        &self,
        handler: &AwsHandler,
        event: &SqsEvent,
        deadline: Timestamp,
    ) -> Result<Report, BatchRefused> {
        let home = home();
        let context = Context { request_id: "the handler's", home: &home, deadline };
        let mut handling = pin!(handler.handle(event, &context));
        let mut open = BTreeMap::new();
        loop {
            if let Poll::Ready(report) =
                handling.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()))
            {
                return report;
            }
            for (request, slot) in handler.clock.0.requests.take() {
                let ends = later(self.now(), self.takes(&request));
                self.log.borrow_mut().push((self.now()..ends, request.clone()));
                open.insert((ends, self.log.borrow().len()), (request, slot));
            }
            let (ends, _) = *open.first_key_value().unwrap().0;
            assert!(ends < Timestamp::MAX_UTC, "the handler waits for ever");
            self.now.set(ends);
            let rest = open.split_off(&(ends, usize::MAX));
            for (request, slot) in std::mem::replace(&mut open, rest).into_values() {
                let reply = self.answer(&request);
                slot.upgrade().into_iter().for_each(|slot| slot.answer(reply.clone()));
            }
        }
    }

    /// What this finds in the calls.
    pub fn calls<T>(&self, find: impl Fn(&Request) -> Option<T>) -> Vec<T> {
        self.log.borrow().iter().filter_map(|(_, request)| find(request)).collect()
    }

    /// How many calls have this name.
    pub fn count(&self, name: &str) -> usize {
        self.calls(|request| (request.name() == name).then_some(())).len()
    }

    /// How many calls of this name were open at once, at the most.
    pub fn most(&self, name: &str) -> usize {
        let log = self.log.borrow();
        let times = || log.iter().filter(|(_, it)| it.name() == name).map(|(times, _)| times);
        let open_at = |at| times().filter(|times| times.contains(at)).count();
        times().map(|times| open_at(&times.start)).max().unwrap_or_default()
    }

    /// A queue's URL, and the handle and the timeout of each entry.
    pub fn visibility_calls(&self) -> Vec<(String, Vec<(String, u32)>)> {
        self.calls(|request| {
            let Request::Hide { queue_url, changes } = request else { return None };
            Some((queue_url.clone(), changes.clone()))
        })
    }

    pub fn letter_calls(&self) -> Vec<Vec<DeadLetter<'static>>> {
        self.calls(
            |request| if let Request::Letters(it) = request { Some(it.clone()) } else { None },
        )
    }

    /// The body of each message that was sent again, and the names of its attributes.
    pub fn sent_again(&self) -> Vec<(String, Vec<String>)> {
        let sent = |request: &Request| {
            let Request::Again { messages, .. } = request else { return None };
            let names = messages.iter().map(|it| it.attributes.keys().cloned().collect());
            Some(messages.iter().map(|it| it.body.to_string()).zip(names).collect::<Vec<_>>())
        };
        self.calls(sent).concat()
    }

    pub fn invocations(&self) -> Vec<Invoke> {
        self.calls(
            |request| if let Request::Invoke(it) = request { Some(it.clone()) } else { None },
        )
    }

    pub fn payloads(&self) -> Vec<String> {
        self.invocations().into_iter().map(|it| it.message.body.to_string()).collect()
    }

    /// How many runs and targets each look-up is about.
    pub fn look_ups(&self) -> Vec<(usize, usize)> {
        self.calls(|request| {
            let Request::LookUp { runs, targets } = request else { return None };
            Some((runs.len(), targets.len()))
        })
    }

    /// The register's entry of an event.
    pub fn listed(&self, id: &str) -> Entry {
        self.table.listed.borrow()[&key_of(id)].clone()
    }

    pub fn know(&self, key: Key, known: Known) {
        self.table.runs.borrow_mut().insert(key, known);
    }

    pub fn runs(&self) -> BTreeMap<Key, Known> {
        self.table.runs.borrow().clone()
    }

    /// Returns the ledger's item of the run that has failed.
    pub fn run_of(&self, id: &str) -> Known {
        self.runs()[&key_of(id)].clone()
    }
}

/// A message with this id and body, sent and received when the batches arrive.
pub fn message(id: &str, body: &str) -> SqsMessage {
    let mut message = SqsMessage::default();
    message.message_id = Some(id.to_owned());
    message.receipt_handle = Some(format!("handle of {id}"));
    message.body = Some(body.to_owned());
    message.event_source_arn = Some(QUEUE.to_owned());
    message.attributes = HashMap::from([
        ("ApproximateReceiveCount".to_owned(), "2".to_owned()),
        ("SentTimestamp".to_owned(), start().timestamp_millis().to_string()),
    ]);
    message
}

/// The key of the run of an event that has failed.
pub fn key_of(id: &str) -> Key {
    let target = Target::parse(TARGET).unwrap();
    Key::of(&target, &format!("\"payload of {id}\""), &format!("request of {id}"))
}

/// An event that failed this many seconds ago. The backoff of these tests is a minute, so it waits or is due.
pub fn failed(id: &str, seconds_ago: u64) -> SqsMessage {
    let failed_at = (start() - Duration::from_secs(seconds_ago)).to_rfc3339();
    message(
        id,
        &format!(
            r#"{{"timestamp":"{failed_at}","requestContext":{{"requestId":"request of {id}","functionArn":"{TARGET}","condition":"RetriesExhausted"}},"requestPayload":"payload of {id}"}}"#
        ),
    )
}

pub fn waiting(id: &str) -> SqsMessage {
    failed(id, 0)
}

pub fn due(id: &str) -> SqsMessage {
    failed(id, 60)
}

pub fn poison(id: &str) -> SqsMessage {
    message(id, &format!("no JSON in {id}"))
}

pub fn batch(records: Vec<SqsMessage>) -> SqsEvent {
    let mut event = SqsEvent::default();
    event.records = records;
    event
}

/// Handles these messages within `seconds`, checks that the answer came in time, and returns the report.
pub fn handle_within(seconds: u64, world: &World, records: Vec<SqsMessage>) -> Report {
    handle_by(world, &world.handler(), seconds, records)
}

/// Lets this handler handle a batch within `seconds`, and checks that the answer came in time.
pub fn handle_by(
    world: &World,
    handler: &AwsHandler,
    seconds: u64,
    records: Vec<SqsMessage>,
) -> Report {
    let deadline = later(world.now(), Duration::from_secs(seconds));
    let report = world.play(handler, &batch(records), deadline).unwrap();
    assert!(world.now() < deadline, "answered at {}", world.now());
    report
}

pub fn handle(world: &World, records: Vec<SqsMessage>) -> Report {
    handle_within(30, world, records)
}

pub fn home() -> Home {
    FunctionArn::parse("arn:aws:lambda:us-east-1:123456789012:function:retry-handler")
        .unwrap()
        .home()
}

/// A short name for the outcome of each message.
pub fn outcomes(report: &Report) -> Vec<&'static str> {
    let word = |outcome: &Outcome| match outcome {
        Outcome::Invoked { .. } => "invoked",
        Outcome::DeadLettered(reason) => Reason::as_str(*reason),
        Outcome::Duplicate => "duplicate",
        Outcome::Tested => "tested",
        Outcome::Succeeded => "succeeded",
        Outcome::Split => "split",
        Outcome::Waits { .. } => "waits",
        Outcome::Delayed { .. } => "delayed",
        Outcome::LeftToQueue(_) => "left to queue",
        Outcome::DeadLetterNotSent { .. } => "dead letter not sent",
        Outcome::NotReached => "not reached",
    };
    report.entries.iter().map(|entry| word(&entry.outcome)).collect()
}

/// The messages that the response reports as failed, so that they stay in the queue.
pub fn kept(report: &Report) -> Vec<String> {
    report
        .response()
        .batch_item_failures
        .into_iter()
        .map(|failure| failure.item_identifier)
        .collect()
}
