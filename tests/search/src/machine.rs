//! The handler as a machine that can be stopped at any call, copied, and continued with any answer.
//!
//! A future can't be copied. But a handler is a function of its batch and of the answers to its calls, so its state is
//! the list of these answers: to continue it, it runs again from the start, and gets the answers of the list. Each list
//! is played once. A node of the tree is such a list; its number stands for the state of the handler.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt::Debug,
    pin::pin,
    rc::{Rc, Weak},
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use aws_lambda_events::event::sqs::SqsEvent;
use comeback_core::{
    Timestamp,
    arn::{FunctionArn, Home},
    settings::Settings,
};
use comeback_flow::batch::Context;
use comeback_local_model::sqs::{AttributeValue, MessageAttribute, Outgoing};
use wire::{Environment, Found, Reply, Request, Slot};

/// Times are milliseconds since the beginning of the search.
pub type Millis = i64;

pub const RETRY_QUEUE: &str = "arn:aws:sqs:us-east-1:123456789012:retry";
const BEGINNING: Millis = 1_769_947_200_000;

pub fn timestamp(at: Millis) -> Timestamp {
    Timestamp::from_timestamp_millis(BEGINNING + at).unwrap_or_default()
}

pub fn millis(at: Timestamp) -> Millis {
    at.timestamp_millis() - BEGINNING
}

/// The time of so many seconds since 1970.
pub fn since_beginning(seconds: i64) -> Millis {
    seconds * 1000 - BEGINNING
}

/// Values that states name by their numbers.
#[derive(Debug)]
pub struct Arena<T>(Vec<Rc<T>>, HashMap<String, u32>);

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self(Vec::new(), HashMap::new())
    }
}

impl<T: Debug> Arena<T> {
    pub fn number(&mut self, value: T) -> u32 {
        let next = self.0.len() as u32;
        let number = *self.1.entry(format!("{value:?}")).or_insert(next);
        if number == next {
            self.0.push(Rc::new(value));
        }
        number
    }

    pub fn get(&self, number: u32) -> Rc<T> {
        Rc::clone(&self.0[number as usize])
    }
}

/// A name and a value of each attribute.
pub type Attributes = Vec<(String, String)>;

/// The attributes of a message that is sent. All are texts.
pub fn text_attributes(sent: &Outgoing) -> Attributes {
    let text = |it: &MessageAttribute| match &it.value {
        AttributeValue::String(text) => text.clone(),
        AttributeValue::Binary(bytes) => format!("{bytes:?}"),
    };
    sent.attributes.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

/// A batch that a handler receives.
pub struct Start {
    pub run: String,
    pub at: Millis,
    pub deadline: Millis,
    pub event: SqsEvent,
}

#[derive(Clone, Debug)]
pub enum Input {
    /// The reply to the nth call.
    Reply(usize, Reply),
    /// Nothing but the time.
    Time,
}

impl Input {
    /// Its text. A record is known by the call that reads it.
    fn key(&self) -> String {
        if let Self::Reply(nth, Reply { entries, found: Found::Record(_) }) = self {
            format!("record {nth} {entries:?}")
        } else {
            format!("{self:?}")
        }
    }
}

/// Where a handler stands.
pub struct Node {
    start: Rc<Start>,
    /// The node before, the time, and what the handler has learned since.
    before: Option<(u32, Millis, Input)>,
    /// The calls that have no reply yet: their numbers, and when they were made.
    pub calls: Vec<(usize, Millis, Request)>,
    /// When the handler does something although it has no answer.
    pub wakes_at: Option<Millis>,
    /// The ids of the messages that stay in the queue, once the handler has ended.
    pub kept: Option<Vec<String>>,
}

pub struct Machine {
    settings: Settings,
    home: Home,
    nodes: Vec<Rc<Node>>,
    next: HashMap<String, u32>,
}

impl Machine {
    pub fn new(settings: Settings, home: &FunctionArn) -> Self {
        Self { settings, home: home.home(), nodes: Vec::new(), next: HashMap::new() }
    }

    pub fn node(&self, number: u32) -> Rc<Node> {
        Rc::clone(&self.nodes[number as usize])
    }

    /// A handler receives a batch. The key stands for all that it is given.
    pub fn begin(&mut self, key: String, start: Start) -> u32 {
        self.remember(key, Rc::new(start), None)
    }

    pub fn go_on(&mut self, number: u32, at: Millis, input: Input) -> u32 {
        let key = format!("{number} {at} {}", input.key());
        let start = Rc::clone(&self.node(number).start);
        self.remember(key, start, Some((number, at, input)))
    }

    fn remember(
        &mut self,
        key: String,
        start: Rc<Start>,
        before: Option<(u32, Millis, Input)>,
    ) -> u32 {
        if let Some(&number) = self.next.get(&key) {
            return number;
        }
        let node = self.play(start, before);
        let number = self.nodes.len() as u32;
        self.nodes.push(Rc::new(node));
        self.next.insert(key, number);
        number
    }

    fn play(&self, start: Rc<Start>, before: Option<(u32, Millis, Input)>) -> Node {
        let mut inputs = Vec::new();
        let mut latest = before.clone();
        while let Some((number, at, input)) = latest {
            inputs.push((at, input));
            latest = self.node(number).before.clone();
        }
        let now = Rc::new(Cell::new(timestamp(start.at)));
        let environment = Environment {
            number: 0,
            now: Rc::clone(&now),
            ahead: Duration::ZERO,
            behind: Duration::ZERO,
            requests: RefCell::default(),
        };
        let handler =
            environment.handler(self.settings.clone(), self.settings.ledger_table.is_some());
        let deadline = timestamp(start.deadline);
        let context = Context { request_id: &start.run, home: &self.home, deadline };
        let mut handling = pin!(handler.handle(&start.event, &context));
        let mut asked: Vec<Asked> = Vec::new();
        // Lets the handler work until it waits for an answer or for a later time.
        let mut work = |at: Millis, asked: &mut Vec<Asked>| {
            loop {
                let polled = handling.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
                let requests = handler.clock.0.requests.take().into_iter();
                asked.extend(requests.map(|(request, slot)| Asked::new(at, request, slot)));
                if polled.is_ready() || !wake(asked, at) {
                    return polled;
                }
            }
        };
        let mut polled = work(start.at, &mut asked);
        for (at, input) in inputs.into_iter().rev() {
            if polled.is_ready() {
                break;
            }
            now.set(timestamp(at));
            wake(&mut asked, at);
            if let Input::Reply(nth, reply) = input {
                asked[nth].is_open = false;
                asked[nth].give(reply);
            }
            polled = work(at, &mut asked);
        }
        let kept = match polled {
            Poll::Ready(Ok(report)) => {
                let failures = report.response().batch_item_failures;
                Some(failures.into_iter().map(|failure| failure.item_identifier).collect())
            }
            Poll::Ready(Err(_)) => {
                let ids = start.event.records.iter().map(|it| it.message_id.clone());
                Some(ids.flatten().collect())
            }
            Poll::Pending => None,
        };
        let mut calls = Vec::new();
        let mut wakes_at: Option<Millis> = None;
        for (nth, asked) in asked.into_iter().enumerate().filter(|(_, asked)| asked.is_open) {
            match asked.until {
                Some(until) => wakes_at = Some(wakes_at.map_or(until, |at| at.min(until))),
                None => calls.push((nth, asked.at, asked.request)),
            }
        }
        Node { before, calls, wakes_at, kept, start: Rc::clone(&start) }
    }
}

/// A call, or a sleep until a time.
struct Asked {
    at: Millis,
    until: Option<Millis>,
    request: Request,
    slot: Weak<Slot>,
    is_open: bool,
}

impl Asked {
    fn new(at: Millis, request: Request, slot: Weak<Slot>) -> Self {
        let lasts = if let Request::Sleep(lasts) = &request { Some(*lasts) } else { None };
        let until = lasts.map(|lasts| at + lasts.as_millis() as Millis);
        Self { at, until, request, slot, is_open: true }
    }

    fn give(&self, reply: Reply) {
        if let Some(slot) = self.slot.upgrade() {
            slot.answer(reply);
        }
    }
}

/// Ends the sleeps whose time has come. Returns whether there are any.
fn wake(asked: &mut [Asked], at: Millis) -> bool {
    let is_over = |it: &&mut Asked| it.is_open && it.until.is_some_and(|until| until <= at);
    let over = asked.iter_mut().filter(is_over).map(|sleep| {
        sleep.is_open = false;
        sleep.give(Reply::default());
    });
    over.count() > 0
}
