//! The rules for waits that are kept as delays: the handler sends the message to its own queue again.
//!
//! The received message is done once its copy is in the queue. If it stays nevertheless, because the answer was lost or
//! its handler died, there are two messages about one failure.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use comeback_core::{Timestamp, fault::FaultKind, time::later};
use comeback_local_model::{
    queue_arn,
    sqs::{AttributeValue, MessageAttribute, Outgoing},
};
use wire::{Answer, Invoke, Origin};

use super::{
    Judge, Subject,
    calls::fits,
    cases::{ATTRIBUTES_MAX, SIZE_MAX},
    deliveries::{Delivery, receive_count, time_of, was_moved},
};
use crate::{
    notes::{Check, Seen},
    rules::Millis,
};

/// The longest delay, and the shortest delay that may end before the message is due, in seconds.
pub const DELAY_MAX: u32 = 900;
pub const HOP_MIN: u32 = 720;

/// A message that is this late at its first receive shows a backlog.
const BACKLOG: Millis = 5_000;

/// A handler may assume that this many handlers each put as many messages in flight as it does. If its counts have
/// shown growth, it may assume as many more as that takes, up to the second number: one for each message by which the
/// queue has grown in this time.
const HANDLERS: (u64, u64) = (25, 1_000);
const GROWN_IN: Millis = 15_000;

/// A handler may assume that up to this many times the highest count it remembers is in flight now.
const GROWTH: u64 = 3;

/// How long a handler may remember counts and what it put in flight, and how long it must remember a count.
const REMEMBERED: Millis = 240_000;
const COUNT_HOLDS: Millis = 170_000;

/// The time that a handler keeps for its answer, and for what follows an act. Times are in whole milliseconds here.
const ANSWER: Duration = Duration::from_millis(500);
const FOLLOW_UP: Duration = Duration::from_secs(3);
pub const ROUNDING: Duration = Duration::from_millis(1);

/// The ledger, beside the targets that a process knows faults of.
pub const LEDGER: &str = "the ledger";

/// When a handler may assume that a fault is over that it hasn't met for this long, or for twice as long as it has met
/// it, but not longer than that.
const FORGETS: (Millis, Millis) = (60_000, 1_800_000);

/// A process of a handler, and what it knows about its queues and about faults.
pub struct Process {
    in_flight_max: u32,
    /// Whether it was deployed after others, with other settings.
    pub is_turned: bool,
    queues: BTreeMap<String, Known>,
    /// When it met the first and the last fault of each target, and of the ledger, in a row.
    faults: BTreeMap<String, (Timestamp, Timestamp)>,
}

/// What a process knows about the messages of one queue that are in flight, by its own clock.
#[derive(Default)]
struct Known {
    /// When it asked for each count, and the count.
    counts: VecDeque<(Millis, u64)>,
    /// The greatest growth in `GROWN_IN` that its counts have shown.
    grown: u64,
    /// When it put messages in flight.
    puts: VecDeque<Millis>,
}

impl Known {
    fn forget(&mut self, at: Millis) {
        while self.counts.front().is_some_and(|(asked, _)| *asked < at - REMEMBERED) {
            self.counts.pop_front();
        }
        while self.puts.front().is_some_and(|put| *put < at - REMEMBERED) {
            self.puts.pop_front();
        }
        if self.counts.is_empty() {
            self.grown = 0;
        }
    }

    fn count(&mut self, at: Millis, count: u64) {
        if let Some((asked, before)) = self.counts.back() {
            let grown = count.saturating_sub(*before) * GROWN_IN as u64;
            self.grown = self.grown.max(grown / (at - asked).max(GROWN_IN) as u64);
        }
        self.counts.push_back((at, count));
    }

    /// The most messages that may be in flight, judging by what the process knows.
    fn most(&self) -> u64 {
        let counted = self.counts.iter().map(|(_, count)| *count).max().unwrap_or_default();
        let handlers = self.grown.clamp(HANDLERS.0, HANDLERS.1);
        GROWTH * counted + handlers * self.puts.len() as u64
    }
}

impl Judge {
    pub fn starts(&mut self, in_flight_max: u32, is_turned: bool) -> usize {
        let (queues, faults) = Default::default();
        self.processes.push(Process { in_flight_max, is_turned, queues, faults });
        self.processes.len() - 1
    }

    pub fn begun(&mut self, run: u64, process: usize, timeout: Duration) {
        // Half a second or a quarter is for the answer, and three seconds or a third of the rest for what follows an
        // act. For half of what is left, a handler waits for notes.
        let all = timeout - ANSWER.min(timeout / 4);
        let acts = all - FOLLOW_UP.min(all / 3);
        // For a quarter of it, it waits for records.
        let reads_until = later(self.now, acts / 4);
        let (recalls_until, acts_until) =
            (later(self.now, acts / 2), later(self.now, acts + ROUNDING));
        for message in self.runs.get_mut(&run).into_iter().flatten() {
            (message.process, message.acts_until) = (process, acts_until);
            (message.reads_until, message.recalls_until) = (reads_until, recalls_until);
            let is_paused = || self.paused.contains(self.cases[message.case].arn(&self.plan));
            message.listing.was_paused = !self.paused.is_empty() && is_paused();
        }
        self.begins_to_judge(run, process);
        self.ends_reads(run);
    }

    /// A handler meets a fault now, of the ledger or of a target. Returns for how long it has known of it. What is
    /// refused for good is no fault that could pass.
    pub fn meets(&mut self, run: u64, whose: &str, fault: Option<FaultKind>) -> Millis {
        let lasts = matches!(fault, Some(FaultKind::Transient { .. } | FaultKind::Configuration));
        let process = self.runs.get(&run).and_then(|batch| batch.first()).map(|it| it.process);
        let process = process.filter(|_| lasts).and_then(|it| self.processes.get_mut(it));
        let Some(process) = process else { return 0 };
        let now = self.now;
        let (first, last) = process.faults.entry(whose.to_owned()).or_insert((now, now));
        let (lasted, ago) = ((*last - *first).num_milliseconds(), (now - *last).num_milliseconds());
        if ago > (2 * lasted).clamp(FORGETS.0, FORGETS.1) {
            *first = now;
        }
        *last = now;
        (now - *first).num_milliseconds()
    }

    fn known(&mut self, process: usize, queue: &str, at: Millis) -> Option<(u64, &mut Known)> {
        let process = self.processes.get_mut(process)?;
        let known = process.queues.entry(queue.to_owned()).or_default();
        known.forget(at);
        Some((process.in_flight_max.into(), known))
    }

    /// A handler that asked at `clock` receives the number of messages in flight.
    pub fn counted(&mut self, run: u64, clock: Timestamp, queue: &str, count: u64) {
        let first = self.runs.get(&run).and_then(|batch| batch.first());
        let Some(process) = first.map(|message| message.process) else { return };
        self.story.tell(self.now, None, || format!("run {run}: {count} in flight in {queue}"));
        self.tally.count(Seen::Step("counts of messages in flight"));
        let at = clock.timestamp_millis();
        if let Some((_, known)) = self.known(process, queue, at) {
            known.count(at, count);
        }
    }

    /// A handler puts a message in flight although it could have sent it again.
    pub fn puts_in_flight(&mut self, of: Subject, at: Millis) {
        let Some(message) = self.runs.get(&of.run).and_then(|run| run.get(of.place)) else {
            return;
        };
        let (process, queue, refused) =
            (message.process, message.queue().to_owned(), message.copy_refused);
        let has_room = self.has_room(message);
        let Some((max, known)) = self.known(process, &queue, at) else { return };
        known.puts.push_back(at);
        let last = known.counts.back().copied();
        if let Some((asked, count)) = last
            && count >= max
            && at - asked <= COUNT_HOLDS
            && !refused
            && has_room
        {
            let event = self.cases[of.case].of.event;
            let what = format!("it waits in flight, with {count} there and at most {max} allowed");
            self.violated(Check::KeepsPlacesFree, event, what);
        }
    }

    /// A handler sends messages to their own queue again, or back to the queue whose consumer failed. Returns the
    /// message of each.
    pub fn sends_again(
        &mut self,
        run: u64,
        clock: Timestamp,
        queue: &str,
        messages: &[Outgoing],
        origins: &[Origin],
    ) -> Vec<Option<Subject>> {
        let size = messages.iter().map(Outgoing::size).sum();
        if !fits(messages.len(), size) {
            let what = format!("{} messages of {size} bytes in one call", messages.len());
            self.violated(Check::CallsFit, None, what);
        }
        let at = clock.timestamp_millis();
        let is_back = self.plan.source(queue).is_some();
        let mut subjects = Vec::with_capacity(messages.len());
        for (message, &origin) in messages.iter().zip(origins) {
            subjects.push(if is_back {
                let invoke = Invoke { target: queue_arn(queue), message: message.clone(), origin };
                self.invokes(run, clock, &invoke)
            } else {
                self.judge_again(run, at, queue, message, origin)
            });
        }
        subjects
    }

    fn judge_again(
        &mut self,
        run: u64,
        at: Millis,
        queue: &str,
        sent: &Outgoing,
        origin: Origin,
    ) -> Option<Subject> {
        let trace = sent.trace_header.as_deref().unwrap_or_default();
        let case = self.case_with(trace);
        let seconds = sent.delay.unwrap_or_default();
        let batch = self.runs.get(&run)?;
        let is_it = |message: &Delivery| {
            message.is_origin(origin) && Some(message.case) == case && !message.sent
        };
        let (Some(case), Some(place)) = (case, batch.iter().position(is_it)) else {
            let what =
                format!("run {run} sends a message with trace {trace:?}, which none left has");
            let event = case.map(|case| self.cases[case].of.event);
            self.violated(Check::HopsChangeNothing, event, what);
            return None;
        };
        if batch[place].split.is_some() {
            return self.sends_part((run, place), queue, sent);
        }
        let event = self.cases[case].of.event;
        if let Some(what) = self.wrong_copy(&batch[place], queue, sent) {
            self.violated(Check::HopsChangeNothing, event, what);
        }
        self.story.tell(self.now, event, || format!("run {run} sends it again for {seconds} s"));
        let of = Subject { run, place, case, call: None, part: None };
        self.runs.get_mut(&run)?[place].sent = true;
        let rest = self.judge_length(of, at, seconds, true);
        let is_hop = rest > i64::from(DELAY_MAX) * 1000;
        if is_hop && (HOP_MIN..=DELAY_MAX).contains(&seconds) {
            self.tally.count(Seen::Step("hops"));
            // In tenths of the range; waits are rounded up to whole seconds.
            let tenth = seconds.saturating_sub(HOP_MIN + 1) * 10 / (DELAY_MAX - HOP_MIN);
            self.tally.hops[tenth as usize] += 1;
        }
        let has_backlog =
            self.runs.get(&run)?.iter().any(|message| is_backlog(message.record(), at));
        let process = self.runs.get(&run)?[place].process;
        let (max, known) = self.known(process, queue, at)?;
        let most = known.most();
        if 2 * most < max && (is_hop || !has_backlog) {
            let what =
                format!("at most {most} are in flight, and the handler may have {max} there");
            self.violated(Check::HopsForAReason, event, what);
        }
        Some(of)
    }

    /// What a message must carry when it is sent again, beside its own attributes.
    fn carried(&self, message: &Delivery) -> Vec<(&'static str, String)> {
        let case = &self.cases[message.case];
        let mut carried = vec![
            ("FailedAt", self.failed_at(message)),
            ("MessageId", message.message_id().to_owned()),
        ];
        if self.plan.targets[case.of.target].is_queue() {
            carried.push(("SourceQueueArn", case.arn(&self.plan).to_owned()));
        }
        carried
    }

    /// Whether a message can be sent again, and still be told from all others. One that SQS has moved may have any
    /// attributes, and one of several failures is of none.
    fn has_room(&self, message: &Delivery) -> bool {
        if message.split.is_some() {
            return false;
        }
        if !was_moved(message.record()) {
            return true;
        }
        let mut copy = as_sent(message.record());
        let carried = self.carried(message);
        let is_clear = !copy.attributes.contains_key("Reason")
            && carried.iter().all(|(name, _)| !copy.attributes.contains_key(*name));
        let carried = carried.into_iter();
        copy.attributes
            .extend(carried.map(|(name, it)| (name.to_owned(), MessageAttribute::string(it))));
        let fits = copy.attributes.len() <= ATTRIBUTES_MAX && copy.size() <= SIZE_MAX;
        is_clear && fits
    }

    /// Returns what a message lost when it was sent to its own queue again, or None.
    fn wrong_copy(&self, message: &Delivery, queue: &str, sent: &Outgoing) -> Option<String> {
        let received = message.record();
        let source = received.event_source_arn.as_deref().unwrap_or_default();
        if !source.ends_with(&format!(":{queue}")) {
            return Some(format!("it was received from {source}, and is sent to {queue}"));
        }
        if !self.has_room(message) {
            return Some("it has no room for what it must carry".to_owned());
        }
        let mut expected = as_sent(received);
        // A stranger's `FailedAt` is replaced. The first message's id stays.
        expected.attributes.remove("FailedAt");
        for (name, value) in self.carried(message) {
            let value = MessageAttribute::string(value);
            expected.attributes.entry(name.to_owned()).or_insert(value);
        }
        let is_same = content(sent) == content(&expected);
        (!is_same).then(|| format!("it is sent as {sent:?}, expected {expected:?}"))
    }

    /// The message that was sent again by this call.
    fn sent_by(&mut self, of: Subject) -> Option<&mut Delivery> {
        self.runs.get_mut(&of.run)?.get_mut(of.place)
    }

    /// A queue has accepted a message that was sent again.
    pub fn sent_again(&mut self, of: Subject) {
        if let Some(nth) = of.part {
            return self.has_part(of, nth);
        }
        self.tally.count(Seen::Step("delays"));
        self.cases[of.case].messages += 1;
        let is_extra = self.sent_by(of).is_none_or(|message| {
            message.copies += 1;
            message.copies > 1 || message.copy_refused
        });
        if is_extra {
            self.stays_beside_its_copy(of.case);
        }
    }

    /// A handler received the answer to a message that it sent again.
    pub fn told_of_copy(&mut self, of: Subject, answer: &Answer) {
        if let Some(nth) = of.part {
            return self.told_of_part(of, nth, answer);
        }
        let event = self.cases[of.case].of.event;
        let (run, now) = (of.run, self.now);
        self.story.tell(now, event, || format!("run {run} is told: {answer:?}"));
        let Some(message) = self.sent_by(of) else { return };
        match answer {
            Ok(()) => {
                message.done = true;
                message.copy_accepted = true;
            }
            Err(_) => {
                message.copy_refused = true;
                if message.copies > 0 {
                    self.stays_beside_its_copy(of.case);
                }
            }
        }
    }

    /// A message that was sent again stays in the queue, so there are two about one failure.
    pub fn stays_beside_its_copy(&mut self, case: usize) {
        self.tally.count(Seen::Step("copies of delays"));
        self.copied(case);
    }
}

/// Whether a message was late at its first receive. One that was sent again was delayed on purpose.
fn is_backlog(record: &SqsMessage, at: Millis) -> bool {
    let waited = at - time_of(record, "SentTimestamp") > BACKLOG;
    receive_count(record) == 1 && waited && !was_sent_again(record)
}

/// Whether a handler has sent this message to its own queue again.
pub fn was_sent_again(record: &SqsMessage) -> bool {
    record.message_attributes.contains_key("FailedAt") && !was_moved(record)
}

/// What a message keeps whenever it is sent again.
pub fn content(of: &Outgoing) -> impl PartialEq {
    (of.body.clone(), of.attributes.clone(), of.group_id.clone())
}

/// A received message as its sender sent it.
pub fn as_sent(received: &SqsMessage) -> Outgoing {
    let attribute = |attribute: &SqsMessageAttribute| {
        let text = attribute.string_value.clone().unwrap_or_default();
        let binary =
            attribute.binary_value.as_ref().map(|bytes| AttributeValue::Binary(bytes.0.clone()));
        MessageAttribute {
            data_type: attribute.data_type.clone().unwrap_or_default(),
            value: binary.unwrap_or(AttributeValue::String(text)),
        }
    };
    let attributes = received.message_attributes.iter();
    Outgoing {
        body: received.body.as_deref().unwrap_or_default().into(),
        attributes: attributes.map(|(name, it)| (name.clone(), attribute(it))).collect(),
        group_id: received.attributes.get("MessageGroupId").cloned(),
        ..Outgoing::default()
    }
}
