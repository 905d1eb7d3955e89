//! Everything outside the handlers: queues, pollers, targets and time.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    rc::Rc,
    time::Duration,
};

use aws_lambda_events::event::sqs::SqsEvent;
use comeback_core::{
    Timestamp,
    time::{at_millis, between, later, rfc3339},
};
use comeback_flow::ports::Notes;
use comeback_local::model::{
    ACCOUNT, REGION, queue_arn,
    sqs::{Outgoing, Sqs},
};
use wire::{Answer, AwsHandler, Environment, Exchange, Refusal, Replace, Request};

use super::{Outage, Played, handlers::record, target::Target};
use crate::world::{BEGAN_AT, name_of};

const STEP: Duration = Duration::from_millis(20);

/// How long a run of a target takes that succeeds or fails at once.
const TARGET_TAKES: Duration = Duration::from_millis(50);

/// SQS bills one request for each 64 KiB of a send.
const BILLED_BYTES: usize = 64 * 1024;

const RECEIVE_MAX: usize = 10;

/// How many batches of a queue run at first, how many more may start each second if those are too few, and the most.
const BATCHES_START: usize = 5;
const BATCHES_GROWTH: usize = 5;
const BATCHES_MAX: usize = 1_000;

/// How old SQS's count of messages in flight is, in seconds.
const COUNT_LAG: usize = 60;

/// A run of a target that is under way.
struct Running {
    event: usize,
    attempt: u8,
    payload: String,
    fails: bool,
}

/// Receives messages from a queue and passes them to handlers.
pub struct Poller {
    pub queue: &'static str,
    pub arn: String,
    pub running: usize,
    pub granted: usize,
    pub granted_at: Timestamp,
    /// The number of messages in flight in each of the last seconds.
    pub counted: VecDeque<u64>,
}

/// A batch that a handler has received.
pub struct Batch {
    pub ends: Timestamp,
    pub poller: usize,
    pub done: Vec<String>,
    pub handler: AwsHandler,
}

/// Everything outside the handlers.
pub struct World {
    pub outage: Outage,
    pub now: Timestamp,
    /// The same time, shared with the handlers.
    clock: Rc<Cell<Timestamp>>,
    pub mended: Timestamp,
    pub sqs: Sqs,
    pub pollers: Vec<Poller>,
    /// For each event, the number of attempts so far or [`ENDED`], and whether it is A's or B's.
    pub events: Vec<(u8, u8)>,
    /// How many events of A and of B have failed.
    pub failed: [u64; 2],
    pub open: usize,
    /// By the time when each run ends, and in the order of their begins.
    running: BTreeMap<(Timestamp, u64), Running>,
    begun: u64,
    pub target: Target,
    /// How many of the events of A that waited at the end of the outage were retried since.
    pub resumed: usize,
    pub waiting: Option<HashSet<usize>>,
    /// For how many seconds counts were taken.
    pub counts: u64,
    pub played: Played,
}

const ENDED: u8 = u8::MAX;

const A: u8 = 0;
const B: u8 = 1;
const POISON: u8 = 2;

impl World {
    #[allow(clippy::expect_used, reason = "the model accepts these queues")]
    pub fn new(outage: Outage) -> Self {
        let now = at_millis(BEGAN_AT);
        let mended = later(now, Duration::from_mins(outage.minutes));
        let mut sqs = Sqs::new(1);
        let queues = BTreeSet::from([0, 1].map(|target| outage.design.queue(target)));
        let mut poller = |queue| {
            let attributes = [("VisibilityTimeout", "180"), ("MessageRetentionPeriod", "1209600")];
            let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned()));
            sqs.create_queue(now, queue, &attributes.into()).expect("its attributes are valid");
            let counted = VecDeque::new();
            let arn = queue_arn(queue);
            Poller { queue, arn, running: 0, granted: BATCHES_START, granted_at: now, counted }
        };
        let pollers = queues.into_iter().map(&mut poller).collect();
        Self {
            outage,
            now,
            clock: Rc::new(Cell::new(now)),
            mended,
            sqs,
            pollers,
            events: Vec::new(),
            failed: [0; 2],
            open: 0,
            running: BTreeMap::new(),
            begun: 0,
            target: Target::new(outage, mended),
            resumed: 0,
            waiting: None,
            counts: 0,
            played: Played::default(),
        }
    }

    /// The environment of a new process of the handler.
    pub fn environment(&self) -> Environment {
        Environment {
            number: 0,
            now: Rc::clone(&self.clock),
            ahead: Duration::ZERO,
            behind: Duration::ZERO,
            requests: RefCell::default(),
        }
    }

    fn passed(&self) -> Duration {
        between(at_millis(BEGAN_AT), self.now)
    }

    /// Lets the events fail for the first time that should have failed by now.
    pub fn fail_new_events(&mut self) {
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
                    self.begin(takes, Running { event, attempt: 0, payload, fails: true });
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
        let seed = self.outage.seed;
        let body = format!(
            r#"{{"timestamp":"{at}","requestContext":{{"requestId":"{seed}.{event}-{attempt}","functionArn":"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}:$LATEST","condition":"RetriesExhausted"}},"requestPayload":{payload}}}"#
        );
        let message = Outgoing { body: body.into(), ..Outgoing::default() };
        let queue = self.outage.design.queue(target);
        self.sqs.send(self.now, queue, message).expect("the queue exists");
        self.played.sqs_requests += 1;
    }

    fn begin(&mut self, takes: Duration, run: Running) {
        self.begun += 1;
        self.running.insert((later(self.now, takes), self.begun), run);
    }

    /// Ends the runs of targets whose time has come.
    pub fn end_runs(&mut self) {
        while let Some(next) = self.running.first_entry().filter(|run| run.key().0 <= self.now) {
            let Running { event, attempt, payload, fails } = next.remove();
            if fails {
                self.fail(event, attempt, &payload);
            } else {
                self.events[event].0 = ENDED;
                self.open -= 1;
            }
        }
    }

    /// A call of a handler. No call takes time, so a timeout never ends before the work does.
    pub fn answer(&mut self, request: Request) -> Option<Vec<Answer>> {
        let Self { outage, sqs, now, target, played, .. } = self;
        let refused = |_| Refusal::default();
        let mut answer = Ok(());
        match request {
            Request::Sleep(_) => return None,
            Request::Hide { queue_url, changes } => {
                played.sqs_requests += 1;
                let queue = name_of(&queue_url);
                let hide = |(handle, seconds): (String, u32)| {
                    sqs.change_visibility(*now, queue, &handle, seconds).map_err(refused)
                };
                return Some(changes.into_iter().map(hide).collect());
            }
            Request::Again { messages, .. } if !outage.design.delays() => {
                return Some(vec![Err(Refusal::default()); messages.len()]);
            }
            Request::Again { queue_url, messages } => {
                let bytes: usize = messages.iter().map(Outgoing::size).sum();
                played.sqs_requests += bytes.div_ceil(BILLED_BYTES).max(1) as u64;
                let send = |message| {
                    sqs.send(*now, name_of(&queue_url), message).map(drop).map_err(refused)
                };
                return Some(messages.into_iter().map(send).collect());
            }
            Request::Letters(letters) => {
                played.sqs_requests += 1;
                played.letters += letters.len() as u64;
                self.open -= letters.len();
                return Some(vec![Ok(()); letters.len()]);
            }
            Request::Count { queue_url, count } => {
                played.sqs_requests += 1;
                let mut pollers = self.pollers.iter();
                let poller = pollers.find(|poller| poller.queue == name_of(&queue_url));
                let counted = poller.and_then(|poller| poller.counted.front()).copied();
                count.replace(counted.unwrap_or_default());
            }
            Request::Invoke(invoke) => self.invoke(&invoke.message.body),
            Request::Replace(Replace { key, waiting, .. }) => {
                target.enter(key, waiting.filter(|waiting| is_a(&waiting.target)));
            }
            Request::LookUp { targets, notes, .. } => {
                let circuits = targets.into_iter().filter(|target| is_a(target));
                let circuits = circuits.map(|name| (name, target.stored())).collect();
                notes.replace(Notes { circuits, ..Notes::default() });
            }
            Request::Exchange(Exchange { target: name, seen, next, there }) if is_a(&name) => {
                answer = target.exchange(seen, next, *now).map_err(|stored| {
                    there.replace(Some(stored));
                    Refusal { found: Some(None), ..Refusal::default() }
                });
            }
            Request::List { target: name, after, count, listed } if is_a(&name) => {
                listed.replace(target.list(after, count));
            }
            Request::Exchange(_) | Request::List { .. } => {}
            Request::Minutes { from, minutes, .. } => {
                minutes.replace(target.minutes(from, *now));
            }
        }
        Some(vec![answer])
    }

    /// Lambda accepts an invocation.
    #[allow(clippy::expect_used, reason = "only envelopes of these events arrive")]
    fn invoke(&mut self, payload: &str) {
        let number = |after: &str| -> usize {
            let (_, rest) = payload.split_once(after).expect("an envelope");
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse().expect("a number")
        };
        let event = number(r#""event":"#);
        let attempt = number(r#""attempt":"#) as u8;
        let (made, whose) = &mut self.events[event];
        if attempt != made.wrapping_add(1) {
            self.played.forks += 1;
            return;
        }
        *made = attempt;
        let takes = if *whose == B { None } else { self.retry(event, attempt) };
        let payload = payload.to_owned();
        let run = Running { event, attempt, payload, fails: takes.is_some() };
        self.begin(takes.unwrap_or_default().max(TARGET_TAKES), run);
    }

    /// A's run of a retried event. Returns how long the run takes if it fails.
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

    /// Receives the next batch of a queue, if another one may run. If the queue has no message for it, the batches that
    /// run are enough.
    pub fn receive(&mut self, poller: usize) -> Option<SqsEvent> {
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
        let records = messages.into_iter().map(|message| record(message, &poller.arn));
        event.records = records.collect();
        Some(event)
    }

    /// Deletes the messages that are done.
    #[allow(clippy::expect_used, reason = "the queue exists, and the handle is one of its own")]
    pub fn finish(&mut self, batch: &Batch) {
        let poller = &mut self.pollers[batch.poller];
        poller.running -= 1;
        self.played.sqs_requests += u64::from(!batch.done.is_empty());
        for handle in &batch.done {
            self.sqs.delete(self.now, poller.queue, handle).expect("the queue's own handle");
        }
    }

    /// Records once a second the number that SQS would report later.
    pub fn count(&mut self) {
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

    pub fn move_on(&mut self, batch: Option<Timestamp>) {
        let Self { sqs, now, pollers, .. } = self;
        let run = self.running.first_key_value().map(|(&(ends, _), _)| ends);
        let fails =
            (*now < self.mended || self.target.has_traffic(*now)).then(|| later(*now, STEP));
        let visible = pollers.iter().map(|poller| sqs.next_visible_at(poller.queue, *now));
        let next = visible.chain([run, batch, fails]).flatten().min();
        self.now = next.unwrap_or(Timestamp::MAX_UTC).max(later(*now, STEP));
        self.clock.set(self.now);
    }

    pub fn ended(mut self) -> Played {
        let opened_at = self.target.watched.opened_at;
        self.played.opened_after = opened_at.map(|at| between(at_millis(BEGAN_AT), at));
        self.played.watched = self.target.watched;
        self.played.events = self.events.len();
        self.played.lost = self.open;
        self.played.drained = between(self.mended, self.now);
        self.played.retries = self.played.lateness.iter().flat_map(BTreeMap::values).sum();
        self.played
    }
}

fn is_a(target: &str) -> bool {
    target.ends_with(":a:$LATEST")
}
