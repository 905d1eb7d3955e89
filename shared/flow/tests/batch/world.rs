//! Fake ports that fail in every way, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::{
    borrow::Cow,
    cell::{Cell, RefCell, RefMut},
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use comeback_core::{
    Timestamp,
    arn::{FunctionArn, Home},
    circuit::Minute,
    claim::{Claim, State, is_same},
    dead_letter::DeadLetter,
    fault::{FaultKind, InvokeFault, RecordFault, StoreFault, may_be_accepted},
    lineage::{Key, Known, Note, Siblings, Write},
    notice::Location,
    reason::Reason,
    settings::Settings,
    target::Target,
    time::later,
};
use comeback_flow::{
    batch::{Context, Handler},
    in_flight::Gauges,
    memory::CircuitMemory,
    outages::Outages,
    ports::{
        CallFault, Clock, Entered, Functions, Invocation, Invoked, Ledger, Listing, LookedUp,
        NotExchanged, NotReplaced, Queues, Records, Resent, Stored, VisibilityChange, Wanted,
    },
    report::{Outcome, Report},
};

pub const QUEUE: &str = "arn:aws:sqs:us-east-1:123456789012:retry";
pub const TARGET: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
pub const QUEUE_URL: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/retry";

pub fn start() -> Timestamp {
    "2026-02-01T12:00:00Z".parse().unwrap()
}

/// The result of a call, or of one of its entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    Accepted,
    Refused,
    Never,
    /// Accepted after this many milliseconds.
    Slow(u64),
    /// For the ledger: the write is made, its answer is lost, and the SDK repeats the call.
    Repeated,
    /// For the ledger: the write is made, but its answer is lost for good.
    Lost,
    /// For an invocation or the ledger: this fault.
    Fault(FaultKind),
    /// For a message that is sent: SQS refuses it, and every call that it is in.
    Spoils,
    /// For a call of several entries: all succeed, but the answer of the first is missing.
    OneTooFew,
    /// For a call of several entries: all succeed, and there is one answer more than entries.
    OneTooMany,
    /// For a call of several entries: all succeed, but there are no answers.
    NoneAtAll,
}

/// The answers to a call, as many as these answers to its entries let through.
fn counted<E>(mut answers: Vec<Result<(), E>>, of_entries: &[Answer]) -> Vec<Result<(), E>> {
    if of_entries.contains(&Answer::OneTooFew) {
        answers.drain(..1);
    }
    if of_entries.contains(&Answer::OneTooMany) {
        answers.push(Ok(()));
    }
    if of_entries.contains(&Answer::NoneAtAll) {
        answers.clear();
    }
    answers
}

/// A queue's URL, and the handle and the timeout of each entry.
type VisibilityCall = (String, Vec<(String, u32)>);

/// What happens to a claim behind the handler's back.
#[derive(Clone, Copy, Debug)]
pub enum Meddling {
    /// Another program removes it.
    Removed,
    /// The handler's own write takes effect late.
    Late,
}

/// A function's ARN, the payload and the trace header.
pub type InvokeCall = (String, String, Option<String>);

/// A handler with fake ports.
pub type Fake<'w> = Handler<&'w World, &'w World, &'w World, &'w World, &'w World>;

/// When a world began, on tokio's paused clock.
struct Began(tokio::time::Instant);

impl Default for Began {
    #[allow(clippy::disallowed_methods, reason = "tokio's paused clock is a world's time")]
    fn default() -> Self {
        Self(tokio::time::Instant::now())
    }
}

/// The fake ports, which record their calls.
#[derive(Default)]
pub struct World {
    began: Began,
    /// The answer to calls whose message, payload or key contains this text. The first match counts, and a call without
    /// a match is accepted.
    pub answers: Vec<(&'static str, Answer)>,
    pub visibility_calls: RefCell<Vec<VisibilityCall>>,
    /// How long after the batch's arrival each of them was made.
    pub visibility_calls_at: RefCell<Vec<Duration>>,
    pub letter_calls: RefCell<Vec<Vec<DeadLetter<'static>>>>,
    /// SQS's count of messages in flight; `None` if asking for it is denied.
    pub in_flight: Cell<Option<u64>>,
    /// The queues whose messages in flight were counted.
    pub counted: RefCell<Vec<String>>,
    pub invocations: RefCell<Vec<InvokeCall>>,
    /// The handler's `TENANT_ID` and `DURABLE`, and the tenant ids and the executions of its invocations.
    pub tenant_id: Option<&'static str>,
    pub durable: &'static str,
    pub tenants: RefCell<Vec<String>>,
    /// Whether its functions have tenant isolation; `None` if they take any invocation.
    pub isolation: Option<bool>,
    pub executions: RefCell<Vec<String>>,
    pub queue_targets: &'static str,
    /// The handler's `POLICIES`, instead of one for a function that gets an envelope.
    pub policies: Option<&'static str>,
    /// The handler's `RECORD_BUCKETS`, the objects by their locations, and the locations that were read.
    pub record_buckets: &'static str,
    pub objects: BTreeMap<String, Vec<u8>>,
    pub reads: RefCell<Vec<String>>,
    /// The bodies of messages that were sent again, and the names of their attributes.
    pub sent_again: RefCell<Vec<String>>,
    pub names_sent_again: RefCell<Vec<Vec<String>>>,
    reading: Cell<usize>,
    pub most_reading: Cell<usize>,
    /// The items of runs; `None` where the handler has no ledger.
    runs: Option<RefCell<BTreeMap<Key, Known>>>,
    /// The key and the claim of each conditional write; `None` where an item was to be removed.
    pub ledger_calls: RefCell<Vec<(Key, Option<Claim>)>>,
    /// Whether the handler has a register, and its waits: until when, and the receipt handle.
    pub registers: bool,
    pub waits: RefCell<BTreeMap<Key, (Timestamp, Option<String>)>>,
    /// The policies that the items of waiting events name.
    pub listed_policies: RefCell<Vec<String>>,
    /// What happens to a claim before each write that lists its event.
    pub meddling: RefCell<VecDeque<Meddling>>,
    pub look_ups: RefCell<Vec<(usize, usize)>>,
    /// Whether reads are throttled, and writes are not.
    pub reads_fail: Cell<bool>,
    /// The circuits by target.
    pub circuits: RefCell<BTreeMap<String, Stored>>,
    pub probes: bool,
    /// Whether functions are retried without an envelope.
    pub transparent: bool,
    /// The runs that the next look-ups miss, because they were written just before.
    pub missed: RefCell<Vec<Key>>,
    /// How many items one read of siblings finds at the most.
    pub page: Option<usize>,
    /// The runs for which siblings were read, and whether all of them.
    pub sibling_reads: RefCell<Vec<(String, bool)>>,
    /// How many earlier calls Lambda may have accepted for each invocation.
    pub repeats: u32,
    under_way: Cell<usize>,
    pub most_under_way: Cell<usize>,
}

impl World {
    pub fn new(answers: &[(&'static str, Answer)]) -> Self {
        crate::log::listen();
        let in_flight = Cell::new(Some(0));
        Self { answers: answers.to_vec(), in_flight, durable: "false", ..Self::default() }
    }

    pub fn with_ledger(answers: &[(&'static str, Answer)]) -> Self {
        Self { runs: Some(RefCell::default()), ..Self::new(answers) }
    }

    /// With a ledger, and these objects in a bucket.
    pub fn with_records(
        objects: BTreeMap<String, Vec<u8>>,
        answers: &[(&'static str, Answer)],
    ) -> Self {
        Self { record_buckets: "records", objects, ..Self::with_ledger(answers) }
    }

    pub fn with_register(answers: &[(&'static str, Answer)]) -> Self {
        Self { registers: true, ..Self::with_ledger(answers) }
    }

    /// With a register and probes, and this circuit.
    pub fn with_probes(circuit: &str, answers: &[(&'static str, Answer)]) -> Self {
        let world = Self { probes: true, ..Self::with_register(answers) };
        let stored = Stored { version: 7, text: Some(circuit.to_owned()) };
        world.circuits.borrow_mut().insert(TARGET.to_owned(), stored);
        world
    }

    /// How long ago it began.
    pub fn elapsed(&self) -> Duration {
        self.began.0.elapsed()
    }

    pub fn handler(&self) -> Fake<'_> {
        let variables = BTreeMap::from([
            ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/dead"),
            ("BASE_BACKOFF", "60s"),
            ("LEDGER_TABLE", "ledger"),
            ("TENANT_ID", self.tenant_id.unwrap_or_default()),
            ("DURABLE", self.durable),
            ("QUEUE_TARGETS", self.queue_targets),
            ("PROBE", if self.probes { "true" } else { "false" }),
            ("RECORD_BUCKETS", self.record_buckets),
            ("REGISTER", if self.registers { "true" } else { "false" }),
            ("TRANSPARENT", if self.transparent { "true" } else { "false" }),
            ("POLICIES", self.policies.unwrap_or(r#"{"enveloped":{"TRANSPARENT":"false"}}"#)),
        ]);
        let lookup = |name: &str| variables.get(name).map(|&value| value.to_owned());
        let settings = Settings::from_lookup(lookup).unwrap();
        let ledger = self.runs.is_some().then_some(self);
        Handler {
            settings,
            queues: self,
            functions: self,
            ledger,
            records: (!self.record_buckets.is_empty()).then_some(self),
            clock: self,
            gauges: Gauges::default(),
            memory: CircuitMemory::default(),
            outages: Outages::default(),
        }
    }

    pub fn runs(&self) -> RefMut<'_, BTreeMap<Key, Known>> {
        self.runs.as_ref().unwrap().borrow_mut()
    }

    /// Returns the ledger's item of the run that has failed.
    pub fn run_of(&self, id: &str) -> Known {
        self.runs()[&key_of(id)].clone()
    }

    async fn answer(&self, about: &str) -> Answer {
        let (_, answer) = self
            .answers
            .iter()
            .find(|(part, _)| about.contains(part))
            .unwrap_or(&("", Answer::Accepted));
        if *answer == Answer::Never {
            std::future::pending::<()>().await;
        }
        if let Answer::Slow(millis) = answer {
            tokio::time::sleep(Duration::from_millis(*millis)).await;
        }
        // Every answer takes some time, so that calls overlap.
        tokio::time::sleep(Duration::from_millis(20)).await;
        *answer
    }
}

/// What SQS says of a call that one of its messages spoils.
const SPOILT: FaultKind = FaultKind::Refused(Reason::InvokeRejected);

fn send_fault(kind: FaultKind) -> InvokeFault {
    InvokeFault { kind, code: None, message: "no".into() }
}

fn store_fault(kind: FaultKind) -> StoreFault {
    let is_transient = kind != FaultKind::Configuration;
    StoreFault { is_transient, code: None, message: "no".into() }
}

impl Queues for &World {
    async fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let asked = changes.iter().map(|change| (change.receipt_handle.to_owned(), change.timeout));
        self.visibility_calls.borrow_mut().push((queue_url.to_owned(), asked.collect()));
        self.visibility_calls_at.borrow_mut().push(self.began.0.elapsed());
        let (mut answers, mut of_entries) = (Vec::new(), Vec::new());
        for change in changes {
            let answer = self.answer(change.receipt_handle).await;
            of_entries.push(answer);
            answers.push(match answer {
                Answer::Refused | Answer::Spoils | Answer::Never => {
                    Err(CallFault("InternalError".into()))
                }
                Answer::Accepted
                | Answer::Slow(_)
                | Answer::Repeated
                | Answer::Lost
                | Answer::Fault(_)
                | Answer::OneTooFew
                | Answer::OneTooMany
                | Answer::NoneAtAll => Ok(()),
            });
        }
        counted(answers, &of_entries)
    }

    async fn in_flight(&self, queue_url: &str) -> Result<u64, CallFault> {
        self.counted.borrow_mut().push(queue_url.to_owned());
        self.answer("the count").await;
        self.in_flight.get().ok_or_else(|| CallFault("AccessDenied".into()))
    }

    async fn send_again(&self, _: &str, messages: &[&Resent<'_>]) -> Vec<Result<(), InvokeFault>> {
        let bodies = messages.iter().map(|message| message.body.to_owned());
        self.sent_again.borrow_mut().extend(bodies);
        let names = |it: &Resent<'_>| it.attributes.iter().map(|it| it.name.to_string()).collect();
        self.names_sent_again.borrow_mut().extend(messages.iter().map(|it| names(it)));
        let transient = FaultKind::Transient { retry_after: None };
        let (mut answers, mut of_entries) = (Vec::new(), Vec::new());
        for message in messages {
            let answer = self.answer(message.body).await;
            of_entries.push(answer);
            let kind = match answer {
                Answer::Accepted
                | Answer::Slow(_)
                | Answer::Repeated
                | Answer::OneTooFew
                | Answer::OneTooMany
                | Answer::NoneAtAll => None,
                // A delay's message has the body of the invocation or claim that failed.
                Answer::Fault(_) | Answer::Lost if message.delay > 0 => None,
                Answer::Fault(kind) => Some(kind),
                Answer::Spoils => return vec![Err(send_fault(SPOILT)); messages.len()],
                Answer::Refused | Answer::Lost | Answer::Never => Some(transient),
            };
            answers.push(kind.map_or(Ok(()), |kind| Err(send_fault(kind))));
        }
        counted(answers, &of_entries)
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Vec<Result<(), InvokeFault>> {
        self.letter_calls
            .borrow_mut()
            .push(letters.iter().map(|&letter| letter.clone().into_owned()).collect());
        let (mut answers, mut of_entries) = (Vec::new(), Vec::new());
        for letter in letters {
            let answer = self.answer(&format!("letter of {}", letter.body)).await;
            of_entries.push(answer);
            match answer {
                Answer::Spoils => return vec![Err(send_fault(SPOILT)); letters.len()],
                Answer::Refused | Answer::Never => answers.push(Err(InvokeFault {
                    message: "InternalError".into(),
                    ..send_fault(FaultKind::Transient { retry_after: None })
                })),
                Answer::Accepted
                | Answer::Slow(_)
                | Answer::Repeated
                | Answer::Lost
                | Answer::Fault(_)
                | Answer::OneTooFew
                | Answer::OneTooMany
                | Answer::NoneAtAll => answers.push(Ok(())),
            }
        }
        counted(answers, &of_entries)
    }
}

impl Records for &World {
    async fn read(&self, location: &Location, _: &Home) -> Result<Vec<u8>, RecordFault> {
        let place = location.to_string();
        self.reads.borrow_mut().push(place.clone());
        self.reading.set(self.reading.get() + 1);
        self.most_reading.set(self.most_reading.get().max(self.reading.get()));
        let answer = self.answer(&place).await;
        self.reading.set(self.reading.get() - 1);
        match answer {
            Answer::Fault(kind) => Err(RecordFault::Store(store_fault(kind))),
            Answer::Refused => Err(RecordFault::TooLarge),
            Answer::Accepted
            | Answer::Never
            | Answer::Slow(_)
            | Answer::Repeated
            | Answer::Lost
            | Answer::Spoils
            | Answer::OneTooFew
            | Answer::OneTooMany
            | Answer::NoneAtAll => self.objects.get(&place).cloned().ok_or(RecordFault::Gone),
        }
    }
}

impl Functions for &World {
    async fn invoke(&self, invocation: Invocation<'_>) -> Invoked {
        let answer = self.invoked(invocation).await;
        let is_open = answer.as_ref().is_err_and(|fault| {
            let status = (fault.kind == FaultKind::Configuration).then_some(403);
            may_be_accepted(fault.code.as_deref(), status)
        });
        Invoked { answer, unanswered: self.repeats + u32::from(is_open) }
    }

    async fn minutes(&self, _: &str, _: Timestamp, _: Timestamp) -> Result<Vec<Minute>, CallFault> {
        Ok(Vec::new())
    }
}

impl World {
    /// Accepts an invocation under a request id with its number, or not.
    async fn invoked(&self, invocation: Invocation<'_>) -> Result<Option<String>, InvokeFault> {
        if self.isolation.is_some_and(|is| is != invocation.tenant_id.is_some()) {
            let message = "The invoked function is enabled with tenancy configuration. Add a valid tenant ID in your request and try again.";
            let code = Some("InvalidParameterValueException".to_owned());
            let kind = FaultKind::Configuration;
            return Err(InvokeFault { kind, code, message: message.to_owned() });
        }
        self.under_way.set(self.under_way.get() + 1);
        self.most_under_way.set(self.most_under_way.get().max(self.under_way.get()));
        let trace = invocation.trace_header.map(str::to_owned);
        let call = (invocation.function.to_owned(), invocation.payload.clone(), trace);
        self.invocations.borrow_mut().push(call);
        self.tenants.borrow_mut().extend(invocation.tenant_id.map(Cow::into_owned));
        self.executions.borrow_mut().extend(invocation.execution_name);
        let answer = self.answer(&invocation.payload).await;
        self.under_way.set(self.under_way.get() - 1);
        let kind = match answer {
            Answer::Accepted
            | Answer::Slow(_)
            | Answer::Repeated
            | Answer::Lost
            | Answer::OneTooFew
            | Answer::OneTooMany
            | Answer::NoneAtAll => {
                return Ok(Some(format!("retry-{}", self.invocations.borrow().len())));
            }
            Answer::Refused | Answer::Spoils | Answer::Never => {
                FaultKind::Transient { retry_after: None }
            }
            Answer::Fault(kind) => kind,
        };
        Err(InvokeFault { kind, code: None, message: "no ".repeat(1000) })
    }
}

/// What another handler or program does to an item before a write that lists its event.
fn meddle(world: &World, key: &Key) {
    match world.meddling.borrow_mut().pop_front() {
        Some(Meddling::Removed) => drop(world.runs().remove(key)),
        Some(Meddling::Late) => {
            let calls = world.ledger_calls.borrow();
            let is_held = |it: &&Claim| matches!(it.state, State::Held { .. });
            let own = calls.iter().filter_map(|(_, next)| next.as_ref()).find(is_held);
            let claim = own.unwrap().clone();
            world.runs().insert(key.clone(), Known { claim, note: None, calls: Vec::new() });
        }
        None => {}
    }
}

impl Ledger for &World {
    async fn write(&self, key: &Key, write: &Write<'_>) -> Result<(), NotReplaced> {
        if write.waiting.is_some() {
            meddle(self, key);
        }
        self.ledger_calls.borrow_mut().push((key.clone(), write.next.cloned()));
        let verb = match write.next.map(|claim| claim.state) {
            Some(State::Held { .. }) => "claim",
            Some(State::Done) => "mark",
            Some(State::Waiting) => "register",
            Some(State::Noted) | None => "release",
        };
        let answer = self.answer(&format!("{verb} {}", key.run)).await;
        if let Answer::Fault(kind) = answer {
            return Err(NotReplaced::Fault(store_fault(kind)));
        }
        let mut runs = self.runs();
        let there = runs.get(key);
        if !is_same(there.map(|known| &known.claim), write.seen) {
            return Err(NotReplaced::Changed(there.cloned().map(Box::new)));
        }
        match write.next {
            Some(next) => {
                let (mut calls, note) =
                    runs.remove(key).map(|known| (known.calls, known.note)).unwrap_or_default();
                calls.retain(|call| {
                    let is_written = write.calls.iter().any(|it| it.name == call.name);
                    !is_written && !write.removed.contains(&call.name)
                });
                calls.extend_from_slice(write.calls);
                let own = write.metadata.cloned().map(|metadata| Note { metadata, parent: None });
                let known = Known { claim: next.clone(), note: note.or(own), calls };
                runs.insert(key.clone(), known);
            }
            None => drop(runs.remove(key)),
        }
        let there = runs.get(key).cloned().map(Box::new);
        drop(runs);
        if let Some(waiting) = write.waiting {
            let handle = waiting.receipt_handle.map(str::to_owned);
            self.waits.borrow_mut().insert(key.clone(), (waiting.due, handle));
            let policy = waiting.policy.unwrap_or("none").to_owned();
            self.listed_policies.borrow_mut().push(policy);
        }
        match answer {
            // The SDK repeats the call, and finds its own first write.
            Answer::Repeated => Err(NotReplaced::Changed(there)),
            Answer::Lost => Err(NotReplaced::Fault(store_fault(crate::THROTTLED))),
            Answer::Accepted
            | Answer::Slow(_)
            | Answer::Refused
            | Answer::Spoils
            | Answer::Never
            | Answer::Fault(_)
            | Answer::OneTooFew
            | Answer::OneTooMany
            | Answer::NoneAtAll => Ok(()),
        }
    }

    async fn note(&self, key: &Key, known: &Known) -> Result<(), StoreFault> {
        if let Answer::Fault(kind) = self.answer(&format!("note {}", key.run)).await {
            return Err(store_fault(kind));
        }
        self.runs().insert(key.clone(), known.clone());
        Ok(())
    }

    async fn take(&self, key: &Key, call: &str, run: &str) -> Result<bool, StoreFault> {
        if let Answer::Fault(kind) = self.answer("take").await {
            return Err(store_fault(kind));
        }
        let mut runs = self.runs();
        let mut calls = runs.get_mut(key).into_iter().flat_map(|known| &mut known.calls);
        let Some(call) = calls.find(|it| it.name == call) else { return Ok(false) };
        Ok(call.taken_by.get_or_insert_with(|| run.to_owned()) == run)
    }

    async fn siblings(&self, key: &Key, only_children: bool) -> Result<Siblings, StoreFault> {
        self.sibling_reads.borrow_mut().push((key.run.clone(), only_children));
        if let Answer::Fault(kind) = self.answer("siblings").await {
            return Err(store_fault(kind));
        }
        let runs = self.runs();
        let found = runs.iter().filter(|(it, _)| it.id == key.id);
        let mut found: Vec<_> = found.map(|(it, known)| (it.run.clone(), known.clone())).collect();
        let page = self.page.filter(|page| !only_children && found.len() > *page);
        found.truncate(page.unwrap_or(usize::MAX));
        Ok(Siblings { runs: found, are_all: page.is_none() })
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<LookedUp, StoreFault> {
        self.look_ups.borrow_mut().push((wanted.runs.len(), wanted.targets.len()));
        if let Answer::Fault(kind) = self.answer("look up").await {
            return Err(store_fault(kind));
        }
        if self.reads_fail.get() {
            return Err(store_fault(crate::THROTTLED));
        }
        let (known, waits, missed) = (self.runs(), self.waits.borrow(), self.missed.borrow());
        let entered = |key: &Key| {
            let known = known.get(key).filter(|_| !missed.contains(key))?.clone();
            let delayed = waits.get(key).filter(|(_, handle)| handle.is_none());
            Some((key.clone(), Entered { known, delayed_until: delayed.map(|it| it.0) }))
        };
        let runs = wanted.runs.iter().filter_map(entered).collect();
        let circuits = self.circuits.borrow();
        let of = |target: &&str| Some(((*target).to_owned(), circuits.get(*target)?.clone()));
        let circuits = wanted.targets.iter().filter_map(of).collect();
        Ok(LookedUp { runs, circuits, ..LookedUp::default() })
    }

    async fn exchange(&self, target: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let answer = self.answer(&format!("exchange {target}")).await;
        if let Answer::Fault(kind) = answer {
            return Err(NotExchanged::Fault(store_fault(kind)));
        }
        let mut circuits = self.circuits.borrow_mut();
        let there = circuits.entry(target.to_owned()).or_default();
        if there.version != seen {
            return Err(NotExchanged::Changed(there.clone()));
        }
        *there = Stored { version: seen + 1, text: Some(next.to_owned()) };
        // The SDK repeats the call, and finds its own first write.
        if answer == Answer::Repeated { Err(NotExchanged::Changed(there.clone())) } else { Ok(()) }
    }

    async fn list(&self, _: &str, _: Timestamp, _: u32) -> Result<Listing, StoreFault> {
        Ok(Listing::default())
    }
}

impl Clock for &World {
    fn now(&self) -> Timestamp {
        later(start(), self.began.0.elapsed())
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
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

/// Handles these messages within `seconds`, checks that the answer came in time, and returns the report.
pub async fn handle_within(seconds: u64, world: &World, records: Vec<SqsMessage>) -> Report {
    let mut event = SqsEvent::default();
    event.records = records;
    handle_by(&world.handler(), later(start(), Duration::from_secs(seconds)), &event).await
}

/// Lets this handler handle a batch by the deadline, and checks that the answer came in time.
pub async fn handle_by(handler: &Fake<'_>, deadline: Timestamp, event: &SqsEvent) -> Report {
    let home = home();
    let context = Context { request_id: "the handler's", home: &home, deadline };
    let report = handler.handle(event, &context).await.unwrap();
    assert!(handler.clock.now() < deadline, "answered at {}", handler.clock.now());
    report
}

pub async fn handle(world: &World, records: Vec<SqsMessage>) -> Report {
    handle_within(30, world, records).await
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
