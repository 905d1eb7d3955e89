//! The handler as a machine that can be stopped at any call, copied, and continued with any answer.
//!
//! A future can't be copied. But a handler is a function of its batch and of the answers to its calls, so its state is
//! the list of these answers: to continue it, it runs again from the start, and gets the answers of the list. Each list
//! is played once. A node of the tree is such a list; its number stands for the state of the handler.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt::Debug,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll, Wake, Waker},
    time::Duration,
};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use comeback_core::{
    Timestamp,
    arn::{FunctionArn, Home},
    circuit::Minute,
    claim::Claim,
    dead_letter::DeadLetter,
    fault::{FaultKind, InvokeFault, StoreFault},
    register::Waiting,
    settings::Settings,
};
use comeback_flow::{
    batch::{Context, Handler},
    in_flight::Gauges,
    memory::CircuitMemory,
    ports::{
        CallFault, Clock, Entered, Functions, Invocation, Ledger, Listed, NotExchanged,
        NotReplaced, Notes, Queues, Resent, Stored, Value, VisibilityChange, Wanted,
    },
};

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

#[derive(Clone, Debug)]
pub struct Sent {
    pub body: String,
    pub attributes: Attributes,
    pub trace: Option<String>,
    pub delay: u32,
}

#[derive(Clone, Debug)]
pub enum Call {
    /// The receipt handles, and the visibility timeouts in seconds.
    Visibility(Vec<(String, u32)>),
    Count,
    /// To this queue.
    Send(String, Vec<Sent>),
    Letters(Vec<(String, Attributes)>),
    Invoke {
        function: String,
        payload: String,
        trace: Option<String>,
    },
    Minutes,
    Replace {
        key: String,
        seen: Option<Claim>,
        next: Option<Claim>,
        /// Of an event that begins to wait: until when, and its receipt handle.
        waiting: Option<(Millis, Option<String>)>,
    },
    LookUp {
        events: Vec<String>,
        targets: Vec<String>,
    },
    Exchange {
        seen: u64,
        next: String,
    },
    List {
        after: Millis,
        count: u32,
    },
}

#[derive(Clone, Debug)]
pub enum Answer {
    /// Whether each entry was accepted.
    Entries(Vec<bool>),
    Count(Option<u64>),
    Minutes(bool),
    Replaced(Result<(), NotReplaced>),
    Notes(Option<Found>),
    Exchanged(Result<(), NotExchanged>),
    Listed(Option<Vec<Listed>>),
}

/// What a look-up has found: [`Notes`], in order.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub events: Vec<(String, Entered)>,
    pub paused: Vec<String>,
    pub circuits: Vec<(String, Stored)>,
}

/// A batch that a handler receives.
#[derive(Debug)]
pub struct Start {
    pub run: String,
    pub at: Millis,
    pub deadline: Millis,
    pub batch: Vec<Received>,
}

/// A message as a handler receives it.
#[derive(Debug)]
pub struct Received {
    pub id: String,
    pub handle: String,
    pub body: String,
    pub system: Attributes,
    pub attributes: Attributes,
}

impl Received {
    fn message(&self) -> SqsMessage {
        let attribute = |(name, value): &(String, String)| {
            let mut attribute = SqsMessageAttribute::default();
            attribute.data_type = Some("String".to_owned());
            attribute.string_value = Some(value.clone());
            (name.clone(), attribute)
        };
        let mut message = SqsMessage::default();
        message.message_id = Some(self.id.clone());
        message.receipt_handle = Some(self.handle.clone());
        message.body = Some(self.body.clone());
        message.event_source_arn = Some(RETRY_QUEUE.to_owned());
        message.attributes = self.system.iter().cloned().collect();
        message.message_attributes = self.attributes.iter().map(attribute).collect();
        message
    }
}

#[derive(Clone, Debug)]
pub enum Input {
    /// The answer to the nth call.
    Answer(usize, Answer),
    /// Nothing but the time.
    Time,
}

/// Where a handler stands.
#[derive(Debug)]
pub struct Node {
    start: Rc<Start>,
    /// The node before, the time, and what the handler has learned since.
    before: Option<(u32, Millis, Input)>,
    /// The calls that have no answer yet: their numbers, and when they were made.
    pub calls: Vec<(usize, Millis, Call)>,
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

    pub fn begin(&mut self, start: Start) -> u32 {
        let key = format!("{start:?}");
        self.remember(key, Rc::new(start), None)
    }

    pub fn go_on(&mut self, number: u32, at: Millis, input: Input) -> u32 {
        let key = format!("{number} {at} {input:?}");
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
        let script = Script::default();
        script.now.set(start.at);
        let handler = Handler {
            settings: self.settings.clone(),
            queues: &script,
            functions: &script,
            ledger: self.settings.ledger_table.as_ref().map(|_| &script),
            clock: &script,
            gauges: Gauges::default(),
            memory: CircuitMemory::default(),
        };
        let mut event = SqsEvent::default();
        event.records = start.batch.iter().map(Received::message).collect();
        let deadline = timestamp(start.deadline);
        let context = Context { request_id: &start.run, home: &self.home, deadline };
        let mut handling = pin!(handler.handle(&event, &context));
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&flag));
        let mut poll = || {
            loop {
                flag.0.store(false, Ordering::Relaxed);
                let polled = handling.as_mut().poll(&mut TaskContext::from_waker(&waker));
                if polled.is_ready() || !flag.0.load(Ordering::Relaxed) {
                    return polled;
                }
            }
        };
        let mut polled = poll();
        for (at, input) in inputs.into_iter().rev() {
            if polled.is_ready() {
                break;
            }
            script.take(at, input);
            polled = poll();
        }
        let kept = match polled {
            Poll::Ready(Ok(report)) => {
                let failures = report.response().batch_item_failures;
                Some(failures.into_iter().map(|failure| failure.item_identifier).collect())
            }
            Poll::Ready(Err(_)) => Some(start.batch.iter().map(|it| it.id.clone()).collect()),
            Poll::Pending => None,
        };
        let calls = script.calls.borrow();
        let open = calls.iter().enumerate().filter(|(_, asked)| asked.is_open);
        let sleeps = script.sleeps.borrow();
        let ahead =
            sleeps.iter().map(|(until, _)| *until).filter(|until| *until > script.now.get());
        Node {
            before,
            calls: open.map(|(nth, asked)| (nth, asked.at, asked.call.clone())).collect(),
            wakes_at: ahead.min(),
            kept,
            start: Rc::clone(&start),
        }
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Asked {
    at: Millis,
    call: Call,
    is_open: bool,
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// The ports of a handler, which answer as the list says.
#[derive(Default)]
struct Script {
    now: Cell<Millis>,
    calls: RefCell<Vec<Asked>>,
    sleeps: RefCell<Vec<(Millis, Waker)>>,
}

impl Script {
    fn take(&self, at: Millis, input: Input) {
        self.now.set(at);
        for (_, waker) in self.sleeps.borrow().iter().filter(|(until, _)| *until <= at) {
            waker.wake_by_ref();
        }
        if let Input::Answer(nth, answer) = input {
            let asked = &mut self.calls.borrow_mut()[nth];
            (asked.answer, asked.is_open) = (Some(answer), false);
            if let Some(waker) = asked.waker.take() {
                waker.wake();
            }
        }
    }

    async fn ask(&self, call: Call) -> Answer {
        let nth = self.calls.borrow().len();
        let at = self.now.get();
        self.calls.borrow_mut().push(Asked { at, call, is_open: true, answer: None, waker: None });
        poll_fn(|cx| {
            let asked = &mut self.calls.borrow_mut()[nth];
            asked.waker = Some(cx.waker().clone());
            asked.answer.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    async fn entries(&self, call: Call) -> Vec<bool> {
        let Answer::Entries(entries) = self.ask(call).await else { unreachable!() };
        entries
    }
}

fn transient() -> InvokeFault {
    let kind = FaultKind::Transient { retry_after: None };
    InvokeFault { kind, code: None, message: "no".to_owned() }
}

pub fn store_fault() -> StoreFault {
    StoreFault { passes: true, code: None, message: "no".to_owned() }
}

fn call_results(entries: Vec<bool>) -> Vec<Result<(), CallFault>> {
    let result = |accepted: bool| accepted.then_some(()).ok_or(CallFault("no".to_owned()));
    entries.into_iter().map(result).collect()
}

fn owned(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Binary(bytes) => format!("{bytes:?}"),
    }
}

impl Queues for &Script {
    async fn change_visibility(
        &self,
        _: &str,
        changes: &[VisibilityChange<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let change = |it: &VisibilityChange<'_>| (it.receipt_handle.to_owned(), it.timeout);
        call_results(self.entries(Call::Visibility(changes.iter().map(change).collect())).await)
    }

    async fn in_flight(&self, _: &str) -> Result<u64, CallFault> {
        let Answer::Count(count) = self.ask(Call::Count).await else { unreachable!() };
        count.ok_or(CallFault("no".to_owned()))
    }

    async fn send_again(
        &self,
        queue_url: &str,
        messages: &[&Resent<'_>],
    ) -> Vec<Result<(), InvokeFault>> {
        let sent = messages.iter().map(|message| {
            let attributes = message.attributes.iter();
            let mut attributes: Attributes =
                attributes.map(|it| (it.name.to_string(), owned(&it.value))).collect();
            // Their order differs from one run to the next.
            attributes.sort_unstable();
            let trace = message.trace_header.map(str::to_owned);
            Sent { body: message.body.to_owned(), attributes, trace, delay: message.delay }
        });
        let entries = self.entries(Call::Send(queue_url.to_owned(), sent.collect())).await;
        entries.into_iter().map(|accepted| accepted.then_some(()).ok_or_else(transient)).collect()
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Vec<Result<(), CallFault>> {
        let letter = |it: &&DeadLetter<'_>| {
            let attributes = it.attributes.iter();
            let attributes = attributes.map(|(name, value)| ((*name).to_owned(), value.clone()));
            (it.body.to_string(), attributes.collect())
        };
        call_results(self.entries(Call::Letters(letters.iter().map(letter).collect())).await)
    }
}

impl Functions for &Script {
    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), InvokeFault> {
        let call = Call::Invoke {
            function: invocation.function.to_owned(),
            payload: invocation.payload,
            trace: invocation.trace_header.map(str::to_owned),
        };
        if self.entries(call).await == [true] { Ok(()) } else { Err(transient()) }
    }

    async fn minutes(&self, _: &str, _: Timestamp, _: Timestamp) -> Result<Vec<Minute>, CallFault> {
        let Answer::Minutes(minutes) = self.ask(Call::Minutes).await else { unreachable!() };
        minutes.then(Vec::new).ok_or(CallFault("no".to_owned()))
    }
}

impl Ledger for &Script {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: Option<&Claim>,
    ) -> Result<(), NotReplaced> {
        let (key, seen, next) = (key.to_owned(), seen.cloned(), next.cloned());
        let Answer::Replaced(result) =
            self.ask(Call::Replace { key, seen, next, waiting: None }).await
        else {
            unreachable!()
        };
        result
    }

    async fn enter(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: &Claim,
        waiting: &Waiting<'_>,
    ) -> Result<(), NotReplaced> {
        let handle = waiting.receipt_handle.map(str::to_owned);
        let waiting = Some((millis(waiting.due), handle));
        let (key, seen, next) = (key.to_owned(), seen.cloned(), Some(next.clone()));
        let Answer::Replaced(result) = self.ask(Call::Replace { key, seen, next, waiting }).await
        else {
            unreachable!()
        };
        result
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<Notes, StoreFault> {
        // The order in a set differs from one run to the next.
        let mut events: Vec<_> = wanted.events.iter().cloned().collect();
        events.sort_unstable();
        let mut targets: Vec<_> = wanted.targets.iter().map(|it| (*it).to_owned()).collect();
        targets.sort_unstable();
        let call = Call::LookUp { events, targets };
        let Answer::Notes(found) = self.ask(call).await else { unreachable!() };
        let Found { events, paused, circuits } = found.ok_or_else(store_fault)?;
        Ok(Notes {
            events: events.into_iter().collect(),
            paused: paused.into_iter().collect(),
            circuits: circuits.into_iter().collect(),
        })
    }

    async fn exchange(&self, _: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let Answer::Exchanged(result) =
            self.ask(Call::Exchange { seen, next: next.to_owned() }).await
        else {
            unreachable!()
        };
        result
    }

    async fn list(&self, _: &str, after: Timestamp, count: u32) -> Result<Vec<Listed>, StoreFault> {
        let Answer::Listed(listed) = self.ask(Call::List { after: millis(after), count }).await
        else {
            unreachable!()
        };
        listed.ok_or_else(store_fault)
    }
}

impl Clock for &Script {
    fn now(&self) -> Timestamp {
        timestamp(self.now.get())
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.now.get() + duration.as_millis() as Millis;
        poll_fn(|cx| {
            if self.now.get() >= until {
                return Poll::Ready(());
            }
            self.sleeps.borrow_mut().push((until, cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}
