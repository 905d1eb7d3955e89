//! The ports of a handler, connected to a world: the simulation's, or the search's.
//!
//! The environment of the handler holds a call until the world takes it. The world decides its outcome, and answers at
//! a time of its choice, or never. There is no thread and no runtime: the world polls a handler whenever it has
//! answered one of its calls.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    arn::Home,
    circuit::Minute,
    claim::Claim,
    dead_letter::DeadLetter,
    envelope::RetryMetadata,
    fault::{
        FaultKind, InvokeFault, RecordFault, StoreFault, classify, classify_read, classify_send,
        may_be_accepted, store_fault_passes,
    },
    lineage::{self, Call, Key, Known, Siblings},
    notice::Location,
    register::Waiting,
    settings::Settings,
    time::later,
};
use comeback_flow::{
    batch::Handler,
    in_flight::Gauges,
    memory::CircuitMemory,
    outages::Outages,
    ports::{
        Attribute, CallFault, Clock, Entered, Functions, Invocation, Invoked, Ledger, Listing,
        LookedUp, NotExchanged, NotReplaced, Queues, RECORD_MAX, Records, Resent, Stored, Value,
        VisibilityChange, Wanted,
    },
};
use comeback_local_model::sqs::{AttributeValue, MessageAttribute, Outgoing};

const MESSAGE: &str = "the world says no";

#[derive(Clone, Debug)]
pub enum Request {
    Sleep(Duration),
    /// Read the failure record that lies there.
    Read(Location),
    /// Change the visibility of messages: receipt handles and seconds.
    Hide {
        queue_url: String,
        changes: Vec<(String, u32)>,
    },
    Count {
        queue_url: String,
    },
    /// Send messages to their own queue again, or to the queue whose consumer failed.
    Again {
        queue_url: String,
        messages: Vec<Outgoing>,
        /// Of which message of the batch each is.
        origins: Vec<Origin>,
    },
    Letters(Vec<DeadLetter<'static>>),
    Invoke(Invoke),
    Write(Box<Write>),
    /// Note what is known of a run that was accepted.
    Note {
        key: Key,
        known: Box<Known>,
    },
    /// Take a call, which is in the item with this key, for the one that has started the `run`.
    Take {
        key: Key,
        call: String,
        run: String,
    },
    /// Read the runs with the target and the payload of this one, consistently.
    Siblings {
        key: Key,
        only_children: bool,
    },
    /// Read items of the ledger.
    LookUp {
        runs: Vec<Key>,
        targets: Vec<String>,
    },
    Exchange(Exchange),
    /// List the events of a target that wait in flight.
    List {
        target: String,
        after: Timestamp,
        count: u32,
    },
    Minutes {
        function: String,
        from: Timestamp,
    },
}

impl Request {
    /// What it asks for, in a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sleep(_) => "sleep",
            Self::Read(_) => "read",
            Self::Hide { .. } => "hide",
            Self::Count { .. } => "count",
            Self::Again { .. } => "send again",
            Self::Letters(_) => "dead letter",
            Self::Invoke(_) => "invoke",
            Self::Write(_) => "claim",
            Self::Note { .. } => "note",
            Self::Take { .. } => "take",
            Self::Siblings { .. } => "recall",
            Self::LookUp { .. } => "look up",
            Self::Exchange(_) => "circuit",
            Self::List { .. } => "list",
            Self::Minutes { .. } => "minutes",
        }
    }
}

/// A write of a target's circuit.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub target: String,
    pub seen: u64,
    pub next: String,
}

/// A retry: a function and its payload, or a queue and its message.
#[derive(Clone, Debug)]
pub struct Invoke {
    pub target: String,
    pub message: Outgoing,
    /// Of which message of the batch it is.
    pub origin: Origin,
}

/// The message of a batch that a call is about. Copies of one message look the same, so it is known by the place in
/// memory of its trace header, which handlers pass on as they have received it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Origin(Option<usize>);

impl Origin {
    pub fn of(trace_header: Option<&str>) -> Self {
        Self(trace_header.map(|text| text.as_ptr().addr()))
    }
}

/// A conditional write to the item of a run. It leaves the note as it is, and all calls that it doesn't name.
#[derive(Clone, Debug)]
pub struct Write {
    pub key: Key,
    pub seen: Option<Claim>,
    /// `None` removes the item.
    pub next: Option<Claim>,
    /// What is written beside the claim of an event that waits.
    pub waiting: Option<Entry>,
    /// What is noted of the run itself.
    pub metadata: Option<RetryMetadata>,
    pub calls: Vec<Call>,
    pub removed: Vec<String>,
}

/// An entry of the register. Its receipt handle is the one of its message in flight.
#[derive(Clone, Debug)]
pub struct Entry {
    pub target: String,
    pub queue_url: String,
    pub event_id: String,
    pub attempt: u32,
    pub due: Timestamp,
    pub receipt_handle: Option<String>,
}

/// The answer to one entry of a call. Invocations and writes to the ledger have one entry.
pub type Answer = Result<(), Refusal>;

/// The answers to all entries of a call, and what it has read.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub entries: Vec<Answer>,
    pub found: Found,
}

#[derive(Clone, Debug, Default)]
pub enum Found {
    #[default]
    Nothing,
    /// A failure record, as it lies in its bucket.
    Record(Arc<[u8]>),
    Count(u64),
    /// [`LookedUp`], in order.
    LookedUp {
        runs: BTreeMap<Key, Entered>,
        paused: BTreeSet<String>,
        circuits: BTreeMap<String, Stored>,
    },
    /// The circuit that is there instead of the expected one.
    Circuit(Stored),
    Listed(Listing),
    Minutes(Vec<Minute>),
    Siblings(Siblings),
    /// The request id of the run, and how many earlier calls for it Lambda may have accepted, too: the SDK repeats a
    /// call by itself.
    Accepted {
        request_id: String,
        unanswered: u32,
    },
    /// The last call was refused, and Lambda may have accepted so many earlier ones.
    Unanswered(u32),
    /// Whether the call is taken by this run.
    Taken(bool),
}

impl From<Result<Found, Refusal>> for Reply {
    fn from(read: Result<Found, Refusal>) -> Self {
        match read {
            Ok(found) => Self { entries: vec![Ok(())], found },
            Err(refusal) => Self::from(vec![Err(refusal)]),
        }
    }
}

impl From<Vec<Answer>> for Reply {
    fn from(entries: Vec<Answer>) -> Self {
        Self { entries, found: Found::Nothing }
    }
}

/// The answer of a service that refuses a call. Without a code, there was no answer at all.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    pub code: Option<&'static str>,
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
    /// How the contract classifies the fault, if that makes a difference for this call.
    pub kind: Option<FaultKind>,
    /// The item that the ledger has instead of the expected claim.
    pub found: Option<Option<Box<Known>>>,
}

impl Refusal {
    pub fn of(code: &'static str, status: u16, kind: FaultKind) -> Self {
        Self { code: Some(code), status: Some(status), kind: Some(kind), ..Self::default() }
    }
}

/// Holds the reply to one call and wakes the task that waits for it. It is dropped when that task stops waiting.
#[derive(Default)]
pub struct Slot {
    reply: Cell<Option<Reply>>,
    waker: Cell<Option<Waker>>,
}

impl Slot {
    pub fn answer(&self, reply: Reply) {
        self.reply.set(Some(reply));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// One environment of a handler: its number, the time, how far its clock is off, and its new requests.
pub struct Environment {
    pub number: usize,
    pub now: Rc<Cell<Timestamp>>,
    pub ahead: Duration,
    pub behind: Duration,
    pub requests: RefCell<Vec<(Request, Weak<Slot>)>>,
}

#[derive(Clone)]
pub struct Port(pub Rc<Environment>);

/// Production's handler, as it runs in one environment.
pub type AwsHandler = Handler<Port, Port, Port, Port, Port>;

impl Environment {
    pub fn handler(self, settings: Settings, has_ledger: bool) -> AwsHandler {
        let environment = Rc::new(self);
        let port = || Port(Rc::clone(&environment));
        let records = (!settings.record_buckets.is_empty()).then(port);
        Handler {
            settings,
            queues: port(),
            functions: port(),
            ledger: has_ledger.then(port),
            records,
            clock: port(),
            gauges: Gauges::default(),
            memory: CircuitMemory::default(),
            outages: Outages::default(),
        }
    }
}

impl Port {
    async fn ask(&self, request: Request) -> Reply {
        let slot = Rc::new(Slot::default());
        self.0.requests.borrow_mut().push((request, Rc::downgrade(&slot)));
        poll_fn(|context| match slot.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                slot.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    async fn ask_to_send(&self, request: Request) -> Vec<Result<(), InvokeFault>> {
        let answers = self.ask(request).await.entries.into_iter();
        answers.map(|answer| answer.map_err(not_sent)).collect()
    }

    async fn ask_once(&self, request: Request) -> Answer {
        self.ask(request).await.entries.into_iter().collect()
    }

    async fn read(&self, request: Request) -> Result<Found, Refusal> {
        let Reply { entries, found } = self.ask(request).await;
        entries.into_iter().collect::<Answer>().map(|()| found)
    }
}

impl From<Refusal> for CallFault {
    fn from(_: Refusal) -> Self {
        Self(MESSAGE.to_owned())
    }
}

impl From<Refusal> for StoreFault {
    fn from(refusal: Refusal) -> Self {
        Self {
            is_transient: store_fault_passes(refusal.code, refusal.status),
            code: refusal.code.map(str::to_owned),
            message: MESSAGE.to_owned(),
        }
    }
}

impl Queues for Port {
    async fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let handle = |change: &VisibilityChange<'_>| change.receipt_handle.to_owned();
        let changes = changes.iter().map(|change| (handle(change), change.timeout)).collect();
        let answers = self.ask(Request::Hide { queue_url: queue_url.to_owned(), changes }).await;
        answers.entries.into_iter().map(|answer| answer.map_err(CallFault::from)).collect()
    }

    async fn in_flight(&self, queue_url: &str) -> Result<u64, CallFault> {
        let found = self.read(Request::Count { queue_url: queue_url.to_owned() }).await?;
        Ok(if let Found::Count(count) = found { count } else { 0 })
    }

    async fn send_again(
        &self,
        queue_url: &str,
        messages: &[&Resent<'_>],
    ) -> Vec<Result<(), InvokeFault>> {
        let origins = messages.iter().map(|message| Origin::of(message.trace_header)).collect();
        let messages = messages.iter().map(|message| outgoing(message)).collect();
        let queue_url = queue_url.to_owned();
        self.ask_to_send(Request::Again { queue_url, messages, origins }).await
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Vec<Result<(), InvokeFault>> {
        let letters = letters.iter().map(|&letter| letter.clone().into_owned()).collect();
        self.ask_to_send(Request::Letters(letters)).await
    }
}

fn not_sent(Refusal { code, status, .. }: Refusal) -> InvokeFault {
    let kind = classify_send(code, status, MESSAGE);
    InvokeFault { kind, code: code.map(str::to_owned), message: MESSAGE.to_owned() }
}

/// A message as it is sent to its queue again.
fn outgoing(message: &Resent<'_>) -> Outgoing {
    let attribute = |attribute: &Attribute<'_>| {
        let value = match &attribute.value {
            Value::Text(text) => AttributeValue::String(text.to_string()),
            Value::Binary(bytes) => AttributeValue::Binary(bytes.to_vec()),
        };
        let data_type = attribute.data_type.to_string();
        (attribute.name.to_string(), MessageAttribute { data_type, value })
    };
    Outgoing {
        body: message.body.into(),
        attributes: message.attributes.iter().map(attribute).collect(),
        trace_header: message.trace_header.map(str::to_owned),
        group_id: message.group_id.map(str::to_owned),
        delay: Some(message.delay),
        ..Outgoing::default()
    }
}

impl Records for Port {
    async fn read(&self, location: &Location, _home: &Home) -> Result<Vec<u8>, RecordFault> {
        match self.read(Request::Read(location.clone())).await {
            Ok(Found::Record(bytes)) if bytes.len() > RECORD_MAX => Err(RecordFault::TooLarge),
            Ok(Found::Record(bytes)) => Ok(bytes.to_vec()),
            Ok(_) => Err(classify_read(None, None, MESSAGE)),
            Err(refusal) => Err(classify_read(refusal.code, refusal.status, MESSAGE)),
        }
    }
}

impl Functions for Port {
    async fn invoke(&self, invocation: Invocation<'_>) -> Invoked {
        let invoke = Invoke {
            target: invocation.function.to_owned(),
            message: Outgoing {
                body: invocation.payload.into(),
                trace_header: invocation.trace_header.map(str::to_owned),
                ..Outgoing::default()
            },
            origin: Origin::of(invocation.trace_header),
        };
        let Reply { entries, found } = self.ask(Request::Invoke(invoke)).await;
        let answer = entries.into_iter().collect::<Answer>();
        let status = answer.as_ref().err().and_then(|refusal| refusal.status);
        let answer = answer.map_err(|refusal| InvokeFault {
            kind: classify(refusal.code, refusal.status, "", refusal.retry_after),
            code: refusal.code.map(str::to_owned),
            message: MESSAGE.to_owned(),
        });
        match (answer, found) {
            (Ok(()), Found::Accepted { request_id, unanswered }) => {
                Invoked { answer: Ok(Some(request_id)), unanswered }
            }
            (Ok(()), _) => Invoked { answer: Ok(None), unanswered: 0 },
            (Err(fault), found) => {
                let earlier = if let Found::Unanswered(earlier) = found { earlier } else { 0 };
                let unanswered =
                    earlier + u32::from(may_be_accepted(fault.code.as_deref(), status));
                Invoked { answer: Err(fault), unanswered }
            }
        }
    }

    async fn minutes(
        &self,
        function: &str,
        from: Timestamp,
        _until: Timestamp,
    ) -> Result<Vec<Minute>, CallFault> {
        let found = self.read(Request::Minutes { function: function.to_owned(), from }).await?;
        Ok(if let Found::Minutes(minutes) = found { minutes } else { Vec::new() })
    }
}

impl Ledger for Port {
    async fn write(&self, key: &Key, write: &lineage::Write<'_>) -> Result<(), NotReplaced> {
        let entry = |waiting: &Waiting<'_>| Entry {
            target: waiting.target.to_owned(),
            queue_url: waiting.queue_url.to_owned(),
            event_id: waiting.event_id.to_owned(),
            attempt: waiting.attempt.get(),
            due: waiting.due,
            receipt_handle: waiting.receipt_handle.map(str::to_owned),
        };
        let write = Write {
            key: key.clone(),
            seen: write.seen.cloned(),
            next: write.next.cloned(),
            waiting: write.waiting.map(entry),
            metadata: write.metadata.cloned(),
            calls: write.calls.to_vec(),
            removed: write.removed.to_vec(),
        };
        self.ask_once(Request::Write(Box::new(write))).await.map_err(|refusal| {
            match refusal.found {
                Some(found) => NotReplaced::Changed(found),
                None => NotReplaced::Fault(refusal.into()),
            }
        })
    }

    async fn note(&self, key: &Key, known: &Known) -> Result<(), StoreFault> {
        let (key, known) = (key.clone(), Box::new(known.clone()));
        self.ask_once(Request::Note { key, known }).await.map_err(StoreFault::from)
    }

    async fn take(&self, key: &Key, call: &str, run: &str) -> Result<bool, StoreFault> {
        let (call, run) = (call.to_owned(), run.to_owned());
        let found = self.read(Request::Take { key: key.clone(), call, run }).await?;
        Ok(matches!(found, Found::Taken(true)))
    }

    async fn siblings(&self, key: &Key, only_children: bool) -> Result<Siblings, StoreFault> {
        let found = self.read(Request::Siblings { key: key.clone(), only_children }).await?;
        Ok(if let Found::Siblings(siblings) = found { siblings } else { Siblings::default() })
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<LookedUp, StoreFault> {
        let mut runs: Vec<_> = wanted.runs.iter().cloned().collect();
        let mut targets: Vec<_> = wanted.targets.iter().map(|&target| target.to_owned()).collect();
        runs.sort_unstable();
        targets.sort_unstable();
        let found = self.read(Request::LookUp { runs, targets }).await?;
        Ok(if let Found::LookedUp { runs, paused, circuits } = found {
            LookedUp {
                runs: runs.into_iter().collect(),
                paused: paused.into_iter().collect(),
                circuits: circuits.into_iter().collect(),
            }
        } else {
            LookedUp::default()
        })
    }

    async fn exchange(&self, target: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let exchange = Exchange { target: target.to_owned(), seen, next: next.to_owned() };
        let Reply { entries, found } = self.ask(Request::Exchange(exchange)).await;
        entries.into_iter().collect::<Answer>().map_err(|refusal| {
            let there = if let Found::Circuit(there) = found { Some(there) } else { None };
            there.map_or_else(|| NotExchanged::Fault(refusal.into()), NotExchanged::Changed)
        })
    }

    async fn list(
        &self,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> Result<Listing, StoreFault> {
        let found = self.read(Request::List { target: target.to_owned(), after, count }).await?;
        Ok(if let Found::Listed(listing) = found { listing } else { Listing::default() })
    }
}

impl Clock for Port {
    fn now(&self) -> Timestamp {
        later(self.0.now.get(), self.0.ahead) - self.0.behind
    }

    async fn sleep(&self, duration: Duration) {
        self.ask(Request::Sleep(duration)).await;
    }
}
