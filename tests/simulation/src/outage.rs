//! One long outage, and a neighbour beside it.
//!
//! Function A fails at a steady rate until it is mended, and function B fails once in a while. No call fails and no
//! handler dies; only the number of events is extreme. In the middle are production's handler and the model's queues.
//! Mappings and targets are simpler than in the worlds: a poller hands over at once what a receive returns, and a run
//! takes a moment and fails or succeeds. Nothing but bodies is written as JSON, because there are millions of events.
//!
//! A call takes effect at once, and a batch keeps its handler busy for a fixed time. Time moves in steps of 20
//! milliseconds. SQS's count of messages in flight is a minute late.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    fmt::Write as _,
    pin::pin,
    rc::Rc,
    task::{Context as Polling, Poll, Waker},
    time::Duration,
};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use clap::ValueEnum;
use comeback_core::{
    Timestamp,
    arn::{FunctionArn, Home},
    circuit::Minute,
    claim::Claim,
    dead_letter::DeadLetter,
    fault::{InvokeFault, StoreFault},
    register::Waiting,
    settings::Settings,
    time::{at_millis, between, later, rfc3339},
};
use comeback_flow::{
    batch::{Context, Handler},
    in_flight::Gauges,
    ports::{
        Attribute, CallFault, Circuits, Clock, Delayed, Functions, Invocation, Ledger, Listed,
        NotExchanged, NotReplaced, Notes, Queues, Register, Value, VisibilityChange, Wanted,
        Witness,
    },
    probes::Probes,
    report::Outcome,
};
use comeback_local::model::{
    ACCOUNT, REGION,
    sqs::{AttributeValue, MessageAttribute, Outgoing, Received, Sqs},
};

use crate::{
    target::{self, Kind, Target, Watched},
    world::BEGAN_AT,
};

const DEAD_LETTERS: &str = "dead-letters";

/// By how much time moves at least.
const STEP: Duration = Duration::from_millis(20);

/// How long a run of a target takes, and how long a handler is busy with a batch.
const TARGET_TAKES: Duration = Duration::from_millis(50);
const BATCH_TAKES: Duration = Duration::from_millis(60);

/// The handler's timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How many messages a receive returns at most.
const RECEIVE_MAX: usize = 10;

/// How many batches of a queue run at first, how many more each second if that is too few, and how many at most.
const BATCHES_START: usize = 5;
const BATCHES_GROWTH: usize = 5;
const BATCHES_MAX: usize = 1_000;

/// How late SQS's count of messages in flight is, in seconds.
const COUNT_LAG: usize = 60;

/// After the outage, everything must have ended within this time.
const DRAINED_WITHIN: Duration = Duration::from_hours(30);

/// SQS bills a request for each 64 KiB of a send.
const BILLED_BYTES: usize = 64 * 1024;

/// Dollars for a million requests of SQS and of Lambda, and for a second of a function with 128 MB on arm64, as in
/// `infra/cost/prices.py`.
const SQS_REQUESTS: f64 = 0.40;
const LAMBDA_REQUESTS: f64 = 0.20;
const LAMBDA_SECOND: f64 = 0.125 * 0.000_013_333_4;

/// How the events of both functions wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Design {
    /// In one queue, all in flight.
    Shared,
    /// In one queue, in flight and as delays.
    SharedDelays,
    /// In a queue for each function, all in flight.
    Each,
    /// In a queue for each function, in flight and as delays. This is what is deployed.
    EachDelays,
}

impl Design {
    fn delays(self) -> bool {
        matches!(self, Self::SharedDelays | Self::EachDelays)
    }

    fn queue(self, target: usize) -> &'static str {
        match self {
            Self::Shared | Self::SharedDelays => "retry",
            Self::Each | Self::EachDelays => ["retry-a", "retry-b"][target],
        }
    }
}

/// What is played.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub design: Design,
    /// How many events of A fail in a second, and for how many minutes.
    pub rate: u64,
    pub minutes: u64,
    /// How many events of B fail in a second, once each.
    pub neighbour: u64,
    pub in_flight_max: u32,
    /// Function A, and whether it is probed and its events are listed.
    pub target: target::Settings,
    pub probe: bool,
    pub register: bool,
}

/// What came of it.
pub struct Played {
    /// How many of A's and B's attempts were so many milliseconds late.
    pub lateness: [BTreeMap<u64, u64>; 2],
    /// Most messages of A's queue in flight after the first minute, and most delayed.
    pub in_flight_max: u64,
    pub delayed_max: u64,
    pub events: usize,
    pub retries: u64,
    /// Events that were neither retried to the end nor given up, attempts that were made twice, and dead letters.
    pub lost: usize,
    pub forks: u64,
    pub letters: u64,
    pub sqs_requests: u64,
    pub batches: u64,
    /// How long after the end of the outage the last event had ended.
    pub drained: Duration,
    /// Of A: its retries during the outage; how long after it the first one was made, and how long until 95 % of the
    /// events that waited then were retried; and how many those were.
    pub opened_after: Option<Duration>,
    pub retries_while_down: u64,
    pub first_after: Option<Duration>,
    pub most_after: Option<Duration>,
    pub backlog: usize,
    pub watched: Watched,
}

impl Played {
    pub fn dollars(&self) -> f64 {
        let millions = |count: u64| count as f64 / 1e6;
        let seconds = self.batches as f64 * BATCH_TAKES.as_secs_f64();
        millions(self.sqs_requests) * SQS_REQUESTS
            + millions(self.batches) * LAMBDA_REQUESTS
            + seconds * LAMBDA_SECOND
    }

    /// How late at most this share of A's or B's attempts was.
    pub fn lateness(&self, target: usize, share: f64) -> Duration {
        let all = &self.lateness[target];
        let mut rest = (all.values().sum::<u64>() as f64 * share).ceil() as u64;
        let nth = all.iter().find(|(_, attempts)| {
            rest = rest.saturating_sub(**attempts);
            rest == 0
        });
        nth.map_or(Duration::ZERO, |(&millis, _)| Duration::from_millis(millis))
    }

    /// The row of a table.
    pub fn row(&self, design: Design) -> String {
        let seconds = |target, share| self.lateness(target, share).as_secs_f64();
        let mut row = format!("| {design:?} |");
        for target in [1, 0] {
            for share in [0.5, 0.99, 1.0] {
                // Writing to a string can't fail.
                let _ = write!(row, " {:.1} |", seconds(target, share));
            }
        }
        let events = self.events as f64;
        let _ = write!(
            row,
            " {} | {} | {:.1} | {:.1} M | {:.2} | {:.1} h | {} / {} / {} |",
            self.in_flight_max,
            self.delayed_max,
            self.retries as f64 / events,
            self.sqs_requests as f64 / 1e6,
            self.dollars() / events * 1e6,
            self.drained.as_secs_f64() / 3600.0,
            self.lost,
            self.forks,
            self.letters,
        );
        row
    }
}

/// The head of the table.
pub const HEAD: &str = "\
| design | B late p50 | p99 | max | A late p50 | p99 | max | in flight | delayed | retries each | SQS requests | $ a million events | drained after | lost / forks / dead |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

/// A run of a target that has begun.
struct Running {
    ends: Timestamp,
    event: usize,
    attempt: u8,
    payload: String,
    fails: bool,
}

/// What takes messages from a queue and gives them to handlers.
struct Poller {
    queue: &'static str,
    running: usize,
    granted: usize,
    granted_at: Timestamp,
    /// What the queue had in flight in the last seconds.
    counted: VecDeque<u64>,
}

/// A batch with a handler.
struct Batch {
    ends: Timestamp,
    poller: usize,
    /// The receipt handles of what is done.
    done: Vec<String>,
    handler: AwsHandler,
}

/// Everything outside the handlers.
struct World {
    outage: Outage,
    now: Timestamp,
    mended: Timestamp,
    sqs: Sqs,
    pollers: Vec<Poller>,
    /// The attempts made so far of each event, or [`ENDED`], and whether it is A's or B's.
    events: Vec<(u8, u8)>,
    /// How many events of A and of B have failed.
    failed: [u64; 2],
    open: usize,
    running: VecDeque<Running>,
    /// Runs that take long to fail.
    slow: VecDeque<Running>,
    target: Target,
    /// How many events of A were retried after the outage, of those that waited.
    resumed: usize,
    waiting: Option<HashSet<usize>>,
    /// How many seconds were counted.
    counts: u64,
    played: Played,
}

const ENDED: u8 = u8::MAX;

/// Whose event it is.
const A: u8 = 0;
const B: u8 = 1;
const POISON: u8 = 2;

/// Plays an outage to its end.
pub fn play(outage: Outage) -> Played {
    run(World::new(outage))
}

#[allow(clippy::expect_used, reason = "it is the ARN of a function")]
fn run(world: World) -> Played {
    let settings = settings(world.outage);
    let arn = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:retry-handler");
    let home = FunctionArn::parse(&arn).expect("the ARN of a function").home();
    let world = Rc::new(RefCell::new(world));
    let pollers = world.borrow().pollers.len();
    let mut idle: Vec<AwsHandler> = Vec::new();
    let mut busy: VecDeque<Batch> = VecDeque::new();
    loop {
        let now = world.borrow().now;
        world.borrow_mut().fail_new_events();
        world.borrow_mut().end_runs();
        while let Some(batch) = busy.pop_front_if(|batch| batch.ends <= now) {
            world.borrow_mut().finish(&batch);
            idle.push(batch.handler);
        }
        for poller in 0..pollers {
            loop {
                let Some(event) = world.borrow_mut().receive(poller) else { break };
                let handler = idle.pop().unwrap_or_else(|| handler(&world, settings.clone()));
                let done = handle(&world, &handler, &home, event);
                busy.push_back(Batch { ends: later(now, BATCH_TAKES), poller, done, handler });
            }
        }
        let mut world = world.borrow_mut();
        world.count();
        let over = world.open == 0 && now >= world.mended;
        if over || now > later(world.mended, DRAINED_WITHIN) {
            break;
        }
        world.move_on(busy.front().map(|batch| batch.ends));
    }
    drop((idle, busy));
    let world = Rc::into_inner(world).map(RefCell::into_inner);
    world.map_or_else(|| unreachable!("the handlers are gone"), World::ended)
}

type AwsHandler = Handler<Port, Port, Port, Port>;

fn handler(world: &Rc<RefCell<World>>, settings: Settings) -> AwsHandler {
    let port = || Port(Rc::clone(world));
    let (gauges, probes) = (Gauges::default(), Probes::default());
    let ledger = settings.ledger_table.is_some().then(port);
    Handler { settings, queues: port(), functions: port(), ledger, clock: port(), gauges, probes }
}

#[allow(clippy::expect_used, reason = "the settings are valid")]
fn settings(outage: Outage) -> Settings {
    let dead_letters = format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{DEAD_LETTERS}");
    let lookup = |name: &str| match name {
        "DEAD_LETTER_QUEUE_URL" => Some(dead_letters.clone()),
        "IN_FLIGHT_MAX" => Some(outage.in_flight_max.to_string()),
        "LEDGER_TABLE" => (outage.probe || outage.register).then(|| "ledger".to_owned()),
        "PROBE" => Some(outage.probe.to_string()),
        "REGISTER" => Some(outage.register.to_string()),
        "MAX_AGE"
            if outage.target.kind == Kind::Poison || outage.target.kind == Kind::DownPoison =>
        {
            Some("1h".to_owned())
        }
        _ => None,
    };
    Settings::from_lookup(lookup).expect("the variables are valid")
}

/// Lets a handler handle a batch, and returns the receipt handles of what is done. All its calls answer at once, so
/// it is polled only once.
#[allow(clippy::expect_used, reason = "every record has an id")]
fn handle(
    world: &RefCell<World>,
    handler: &AwsHandler,
    home: &Home,
    event: SqsEvent,
) -> Vec<String> {
    let deadline = later(handler.clock.now(), TIMEOUT);
    let context = Context { request_id: "batch", home, deadline };
    let report = {
        let mut working = pin!(handler.handle(&event, &context));
        let Poll::Ready(report) = working.as_mut().poll(&mut Polling::from_waker(Waker::noop()))
        else {
            unreachable!("no call waits");
        };
        report.expect("every record has an id")
    };
    let World { played, target: function, now, .. } = &mut *world.borrow_mut();
    played.batches += 1;
    for entry in &report.entries {
        if let Outcome::Invoked { lateness } = entry.outcome {
            let target = usize::from(entry.target.as_deref() == Some("b"));
            if target == 0 {
                function.late(lateness, *now);
            }
            *played.lateness[target].entry(lateness.as_millis() as u64).or_default() += 1;
        }
    }
    let stays = report.response().batch_item_failures;
    let mut stays = stays.iter().map(|failure| &failure.item_identifier).peekable();
    let mut done = Vec::new();
    for record in event.records {
        if stays.next_if(|id| Some(*id) == record.message_id.as_ref()).is_none() {
            done.extend(record.receipt_handle);
        }
    }
    done
}

/// A message as Lambda gives it to the handler, without what the handler doesn't read.
fn record(message: Received, queue: &str) -> SqsMessage {
    let mut record = SqsMessage::default();
    record.message_id = Some(message.message_id);
    record.receipt_handle = Some(message.receipt_handle);
    record.body = Some(message.body.as_ref().to_owned());
    record.event_source_arn = Some(format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"));
    record.attributes = HashMap::from([
        ("ApproximateReceiveCount".to_owned(), message.receive_count.to_string()),
        ("SentTimestamp".to_owned(), message.sent_at.timestamp_millis().to_string()),
    ]);
    let attributes = message.attributes.iter().filter_map(|(name, attribute)| {
        let AttributeValue::String(text) = &attribute.value else { return None };
        let mut value = SqsMessageAttribute::default();
        value.data_type = Some(attribute.data_type.clone());
        value.string_value = Some(text.clone());
        Some((name.clone(), value))
    });
    record.message_attributes = attributes.collect();
    record
}

impl World {
    #[allow(clippy::expect_used, reason = "the model accepts these queues")]
    fn new(outage: Outage) -> Self {
        let now = at_millis(BEGAN_AT);
        let mut sqs = Sqs::new(REGION, ACCOUNT, 1);
        let queues = BTreeSet::from([0, 1].map(|target| outage.design.queue(target)));
        let mut poller = |queue| {
            let attributes = [("VisibilityTimeout", "180"), ("MessageRetentionPeriod", "1209600")];
            let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned()));
            sqs.create_queue(now, queue, &attributes.into()).expect("its attributes are valid");
            let counted = VecDeque::new();
            Poller { queue, running: 0, granted: BATCHES_START, granted_at: now, counted }
        };
        let pollers = queues.into_iter().map(&mut poller).collect();
        Self {
            outage,
            now,
            mended: later(now, Duration::from_secs(outage.minutes * 60)),
            sqs,
            pollers,
            events: Vec::new(),
            failed: [0; 2],
            open: 0,
            running: VecDeque::new(),
            slow: VecDeque::new(),
            target: Target::new(
                outage.target,
                later(now, Duration::from_secs(outage.minutes * 60)),
            ),
            resumed: 0,
            waiting: None,
            counts: 0,
            played: Played {
                lateness: Default::default(),
                in_flight_max: 0,
                delayed_max: 0,
                events: 0,
                retries: 0,
                lost: 0,
                forks: 0,
                letters: 0,
                sqs_requests: 0,
                batches: 0,
                drained: Duration::ZERO,
                opened_after: None,
                retries_while_down: 0,
                first_after: None,
                most_after: None,
                backlog: 0,
                watched: Watched::default(),
            },
        }
    }

    fn passed(&self) -> Duration {
        between(at_millis(BEGAN_AT), self.now)
    }

    /// Lets as many events fail for the first time as should have by now.
    fn fail_new_events(&mut self) {
        let Outage { rate, neighbour, .. } = self.outage;
        let now = self.now;
        if self.waiting.is_none() && now >= self.target.mended() {
            let waits = |&(_, &(made, whose)): &(usize, &(u8, u8))| whose != B && made != ENDED;
            let waiting: HashSet<_> =
                self.events.iter().enumerate().filter(waits).map(|(event, _)| event).collect();
            self.played.backlog = waiting.len();
            self.waiting = Some(waiting);
        }
        for (target, rate) in [rate, neighbour].into_iter().enumerate() {
            let comes = if target == 0 { self.target.has_traffic(now) } else { now < self.mended };
            let due = self.passed().as_millis() as u64 * rate / 1000;
            for nth in self.failed[target]..if comes { due } else { self.failed[target] } {
                let event = self.events.len();
                let is_poison = target == 0 && self.target.is_poison(nth, now);
                let takes = match target {
                    0 => self.target.invoke(nth, 0, is_poison, now),
                    _ => Some(Duration::ZERO),
                };
                let Some(takes) = takes else { continue };
                let whose = if is_poison { POISON } else { [A, B][target] };
                self.events.push((0, whose));
                self.open += 1;
                let payload = format!(r#"{{"event":{event}}}"#);
                if takes.is_zero() {
                    self.fail(event, 0, &payload);
                } else {
                    let ends = later(now, takes);
                    self.slow.push_back(Running { ends, event, attempt: 0, payload, fails: true });
                }
            }
            self.failed[target] = due;
        }
    }

    /// A run has failed: Lambda sends its record to the retry queue.
    #[allow(clippy::expect_used, reason = "the queue exists")]
    fn fail(&mut self, event: usize, attempt: u8, payload: &str) {
        let target = usize::from(self.events[event].1 == B);
        let name = ["a", "b"][target];
        let at = rfc3339(self.now);
        let seed = self.outage.target.seed;
        let body = format!(
            r#"{{"timestamp":"{at}","requestContext":{{"requestId":"{seed}.{event}-{attempt}","functionArn":"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}:$LATEST","condition":"RetriesExhausted"}},"requestPayload":{payload}}}"#
        );
        let message = Outgoing { body: body.into(), ..Outgoing::default() };
        let queue = self.outage.design.queue(target);
        self.sqs.send(self.now, queue, message).expect("the queue exists");
        self.played.sqs_requests += 1;
    }

    /// Ends the runs of targets whose time has come.
    fn end_runs(&mut self) {
        let now = self.now;
        while let Some(run) = self.running.pop_front_if(|run| run.ends <= now) {
            if run.fails {
                self.fail(run.event, run.attempt, &run.payload);
            } else {
                self.events[run.event].0 = ENDED;
                self.open -= 1;
            }
        }
        while let Some(run) = self.slow.pop_front_if(|run| run.ends <= now) {
            self.fail(run.event, run.attempt, &run.payload);
        }
    }

    /// A retries an event. If the run fails, how long that takes.
    fn retry(&mut self, event: usize, attempt: u8) -> Option<Duration> {
        let now = self.now;
        let mended = self.target.mended();
        let is_poison = self.events[event].1 == POISON;
        let takes = self.target.invoke(event as u64, attempt, is_poison, now);
        self.target.retried(event, attempt);
        let played = &mut self.played;
        if now < mended {
            played.retries_while_down += 1;
            return takes;
        }
        let after = between(mended, now);
        played.first_after.get_or_insert(after);
        if self.waiting.as_mut().is_some_and(|waiting| waiting.remove(&event)) {
            self.resumed += 1;
            if self.resumed * 100 >= played.backlog * 95 {
                played.most_after.get_or_insert(after);
            }
        }
        takes
    }

    /// Receives the next batch of a queue, if one more may run. If there is no message for it, the ones that run
    /// are enough.
    fn receive(&mut self, poller: usize) -> Option<SqsEvent> {
        let Self { sqs, now, pollers, played, .. } = self;
        let poller = &mut pollers[poller];
        if poller.running == poller.granted {
            if *now < later(poller.granted_at, Duration::from_secs(1)) {
                return None;
            }
            poller.granted = (poller.granted + BATCHES_GROWTH).min(BATCHES_MAX);
            poller.granted_at = *now;
        }
        let messages = sqs.receive(*now, poller.queue, RECEIVE_MAX, None).unwrap_or_default();
        if messages.is_empty() {
            poller.granted_at = *now;
            if poller.running == 0 {
                poller.granted = BATCHES_START;
            }
            return None;
        }
        poller.running += 1;
        played.sqs_requests += 1;
        let mut event = SqsEvent::default();
        let records = messages.into_iter().map(|message| record(message, poller.queue));
        event.records = records.collect();
        Some(event)
    }

    /// Deletes what is done.
    #[allow(clippy::expect_used, reason = "the queue exists, and the handle is one of its own")]
    fn finish(&mut self, batch: &Batch) {
        let poller = &mut self.pollers[batch.poller];
        poller.running -= 1;
        self.played.sqs_requests += u64::from(!batch.done.is_empty());
        for handle in &batch.done {
            self.sqs.delete(self.now, poller.queue, handle).expect("the queue's own handle");
        }
    }

    /// Notes once a second what SQS would count.
    fn count(&mut self) {
        let second = self.passed().as_secs();
        if second < self.counts {
            return;
        }
        self.counts = second + 1;
        let Self { sqs, now, pollers, played, .. } = self;
        for Poller { queue, counted, .. } in pollers {
            let Ok(told) = sqs.attributes(*now, queue) else { continue };
            let number = |name: &str| told.get(name).and_then(|count| count.parse().ok());
            let in_flight = number("ApproximateNumberOfMessagesNotVisible").unwrap_or(0);
            counted.push_back(in_flight);
            if counted.len() > COUNT_LAG {
                counted.pop_front();
            }
            if second >= 60 {
                played.in_flight_max = played.in_flight_max.max(in_flight);
            }
            let delayed = number("ApproximateNumberOfMessagesDelayed").unwrap_or(0);
            played.delayed_max = played.delayed_max.max(delayed);
        }
    }

    fn move_on(&mut self, batch: Option<Timestamp>) {
        let Self { sqs, now, pollers, .. } = self;
        let run = self.running.front().map(|run| run.ends);
        let run = run.into_iter().chain(self.slow.front().map(|run| run.ends)).min();
        let fails =
            (*now < self.mended || self.target.has_traffic(*now)).then(|| later(*now, STEP));
        let visible = pollers.iter().map(|poller| sqs.next_visible_at(poller.queue, *now));
        let next = visible.chain([run, batch, fails]).flatten().min();
        self.now = next.unwrap_or(Timestamp::MAX_UTC).max(later(*now, STEP));
    }

    fn ended(mut self) -> Played {
        let opened = self.target.watched.turns.iter().find(|(_, name)| *name == "open");
        self.played.opened_after = opened.map(|(at, _)| between(at_millis(BEGAN_AT), *at));
        self.played.watched = self.target.watched;
        self.played.events = self.events.len();
        self.played.lost = self.open;
        self.played.drained = between(self.mended, self.now);
        self.played.retries = self.played.lateness.iter().flat_map(BTreeMap::values).sum();
        self.played
    }
}

/// The ports of all handlers. Every call answers at once.
#[derive(Clone)]
struct Port(Rc<RefCell<World>>);

fn queue_of(queue_url: &str) -> &str {
    queue_url.rsplit('/').next().unwrap_or_default()
}

impl Queues for Port {
    async fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let World { sqs, now, played, .. } = &mut *self.0.borrow_mut();
        played.sqs_requests += 1;
        let change = |change: &VisibilityChange<'_>| {
            let VisibilityChange { receipt_handle, timeout } = *change;
            let queue = queue_of(queue_url);
            let changed = sqs.change_visibility(*now, queue, receipt_handle, timeout);
            changed.map_err(|error| CallFault(error.to_string()))
        };
        changes.iter().map(change).collect()
    }

    async fn in_flight(&self, queue_url: &str) -> Result<u64, CallFault> {
        let world = &mut *self.0.borrow_mut();
        world.played.sqs_requests += 1;
        let poller = world.pollers.iter().find(|poller| poller.queue == queue_of(queue_url));
        Ok(poller.and_then(|poller| poller.counted.front()).copied().unwrap_or_default())
    }

    async fn send_again(
        &self,
        queue_url: &str,
        messages: &[&Delayed<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let World { outage, sqs, now, played, .. } = &mut *self.0.borrow_mut();
        if !outage.design.delays() {
            return vec![Err(CallFault("this design has no delays".to_owned())); messages.len()];
        }
        let bytes: usize = messages.iter().map(|message| message.size()).sum();
        played.sqs_requests += bytes.div_ceil(BILLED_BYTES).max(1) as u64;
        let send = |message: &&Delayed<'_>| {
            let attributes =
                message.attributes.iter().filter_map(|Attribute { name, value, .. }| {
                    let Value::Text(text) = value else { return None };
                    Some(((*name).to_owned(), MessageAttribute::string(&**text)))
                });
            let again = Outgoing {
                body: message.body.into(),
                attributes: attributes.collect(),
                trace_header: message.trace_header.map(str::to_owned),
                delay: Some(message.delay),
                ..Outgoing::default()
            };
            let sent = sqs.send(*now, queue_of(queue_url), again);
            sent.map(drop).map_err(|error| CallFault(error.to_string()))
        };
        messages.iter().map(send).collect()
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Vec<Result<(), CallFault>> {
        let world = &mut *self.0.borrow_mut();
        world.played.sqs_requests += 1;
        world.played.letters += letters.len() as u64;
        world.open -= letters.len();
        vec![Ok(()); letters.len()]
    }
}

impl Functions for Port {
    #[allow(clippy::expect_used, reason = "only envelopes of these events arrive")]
    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), InvokeFault> {
        let world = &mut *self.0.borrow_mut();
        let number = |after: &str| -> usize {
            let (_, rest) = invocation.payload.split_once(after).expect("an envelope");
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse().expect("a number")
        };
        let event = number(r#""event":"#);
        let attempt = number(r#""attempt":"#) as u8;
        let (made, whose) = &mut world.events[event];
        if attempt != made.wrapping_add(1) {
            world.played.forks += 1;
            return Ok(());
        }
        *made = attempt;
        let is_b = *whose == B;
        let takes = if is_b { None } else { world.retry(event, attempt) };
        let payload = invocation.payload;
        let fails = takes.is_some();
        let ends = later(world.now, takes.unwrap_or_default().max(TARGET_TAKES));
        let run = Running { ends, event, attempt, payload, fails };
        let slow = takes.is_some_and(|takes| takes > TARGET_TAKES);
        if slow { &mut world.slow } else { &mut world.running }.push_back(run);
        Ok(())
    }
}

impl Ledger for Port {
    async fn replace(
        &self,
        key: &str,
        _seen: Option<&Claim>,
        _next: Option<&Claim>,
    ) -> Result<(), NotReplaced> {
        self.0.borrow_mut().target.leave(key);
        Ok(())
    }
}

impl Register for Port {
    async fn enter(
        &self,
        key: &str,
        _seen: Option<&Claim>,
        _next: &Claim,
        waiting: &Waiting<'_>,
    ) -> Result<(), NotReplaced> {
        if is_a(waiting.target) {
            self.0.borrow_mut().target.enter(key, waiting);
        }
        Ok(())
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<Notes, StoreFault> {
        let stored = |target: &&str| {
            let stored = self.0.borrow().target.stored();
            is_a(target).then(|| ((*target).to_owned(), stored))
        };
        let circuits = wanted.targets.iter().filter_map(stored).collect();
        Ok(Notes { circuits, ..Notes::default() })
    }
}

impl Circuits for Port {
    async fn exchange(&self, target: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let World { target: function, now, .. } = &mut *self.0.borrow_mut();
        if is_a(target) { function.exchange(seen, next, *now) } else { Ok(()) }
    }

    async fn list(
        &self,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> Result<Vec<Listed>, StoreFault> {
        let world = self.0.borrow();
        Ok(if is_a(target) { world.target.list(after, count) } else { Vec::new() })
    }
}

impl Witness for Port {
    async fn minutes(
        &self,
        _function: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Minute>, CallFault> {
        Ok(self.0.borrow_mut().target.minutes(from, until))
    }
}

fn is_a(target: &str) -> bool {
    target.ends_with(":a:$LATEST")
}

impl Clock for Port {
    fn now(&self) -> Timestamp {
        self.0.borrow().now
    }

    /// No call takes time, so no time ends before the work.
    async fn sleep(&self, _duration: Duration) {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Who;

    const SMALL: Outage = Outage {
        design: Design::EachDelays,
        rate: 20,
        minutes: 20,
        neighbour: 1,
        in_flight_max: 1_000,
        target: target::Settings {
            kind: Kind::Down,
            capacity: u64::MAX,
            seed: 0,
            witness: Who::Both,
        },
        probe: false,
        register: false,
    };

    #[test]
    fn an_outage_larger_than_the_limit_delays_nobody_and_loses_nothing() {
        let played = play(SMALL);
        assert_eq!((played.lost, played.forks, played.letters), (0, 0, 0));
        // The last event of each function comes at the end of the outage, and succeeds.
        assert_eq!(played.events, 25_198);
        assert!(played.in_flight_max <= SMALL.in_flight_max.into(), "{}", played.in_flight_max);
        assert!(played.delayed_max > 5_000, "{}", played.delayed_max);
        for target in [0, 1] {
            // SQS counts in whole seconds.
            let most = played.lateness(target, 1.0);
            assert!(most <= Duration::from_millis(1_200), "{most:?}");
        }
    }

    #[test]
    fn without_delays_and_places_everything_is_late() {
        let mut world = World::new(Outage { design: Design::Shared, ..SMALL });
        world.sqs.limit_in_flight("retry", 1_000).unwrap();
        let played = run(world);
        assert!(played.lateness(1, 1.0) > Duration::from_mins(1));
    }
}
