//! One queue and its messages.
//!
//! A message is in one of three places: *delayed*, *visible*, or *in flight* until its visibility timeout ends. Each
//! place is sorted by time, so that a step only has to look at its first messages. Messages whose time has come change
//! places at the beginning of the next step.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use comeback_core::{Timestamp, time};

use super::{
    attributes::{QueueAttributes, VISIBILITY_SECONDS_MAX, bad_visibility},
    error::SqsError,
    message::{Received, Texts},
    packed::{Packed, Packer},
};
use crate::is_name;

/// SQS's quota of messages in flight in one queue. At this limit, a receive returns nothing. AWS says "approximately".
pub const IN_FLIGHT_MAX: usize = 120_000;

#[derive(Debug)]
pub(super) struct Message {
    texts: Packed,
    sent_at: Timestamp,
    first_received_at: Timestamp,
    received_at: Timestamp,
    /// The number of receives in all its queues.
    receives: u32,
    /// The number of receives from this queue, which the redrive policy limits.
    receives_here: u32,
    /// The ARN of the queue that gave it up, if this is a dead-letter queue.
    given_up_by: Option<Arc<str>>,
    place: Place,
}

/// The place of a message, and since or until when it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Delayed(Timestamp),
    Visible(Timestamp),
    InFlight(Timestamp),
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) attributes: QueueAttributes,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) created_at: Timestamp,
    pub(super) modified_at: Timestamp,
    pub(super) purged_at: Option<Timestamp>,
    /// Unique, also among deleted queues of this name and earlier starts, so that an old receipt handle never matches a
    /// message of this queue.
    identity: u64,
    /// By number, in the order in which they were sent. Boxed, because a tree moves its values.
    messages: BTreeMap<u64, Box<Message>>,
    packer: Packer,
    places: Places,
    /// The time for which the queue was last brought up to date. `None` if that must be done again.
    settled_at: Option<Timestamp>,
    pub(super) in_flight_max: usize,
}

/// The numbers of the messages in each place, and when each entered it (visible) or will leave it.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) delayed: BTreeSet<(Timestamp, u64)>,
    pub(super) visible: BTreeSet<(Timestamp, u64)>,
    pub(super) in_flight: BTreeSet<(Timestamp, u64)>,
}

impl Message {
    /// The message as it arrives in a dead-letter queue, from the queue with the ARN `source`.
    pub(super) fn given_up_by(self, source: Arc<str>) -> Self {
        Self { given_up_by: Some(source), receives_here: 0, ..self }
    }

    pub(super) fn texts(&self) -> Texts {
        self.texts.unpack()
    }

    /// Counts a receive, and returns the message with a new receipt handle.
    fn hand_out(&mut self, now: Timestamp, queue: u64, number: u64) -> Received {
        self.received_at = now;
        self.receives_here = self.receives_here.saturating_add(1);
        if self.receives == 0 {
            self.first_received_at = now;
        }
        self.receives = self.receives.saturating_add(1);
        let receipt = Receipt { queue, message: number, receive: self.receives };
        self.received(self.texts(), receipt.handle())
    }

    fn received(&self, texts: Texts, receipt_handle: String) -> Received {
        Received {
            message_id: texts.message_id,
            receipt_handle,
            body: texts.body,
            md5_of_body: texts.md5_of_body,
            attributes: texts.attributes,
            sent_at: self.sent_at,
            first_received_at: self.first_received_at,
            receive_count: self.receives,
            sender_id: texts.sender_id,
            trace_header: texts.trace_header,
            group_id: texts.group_id,
            dead_letter_source: self.given_up_by.clone(),
        }
    }
}

impl Queue {
    pub(super) fn new(now: Timestamp, identity: u64, attributes: QueueAttributes) -> Self {
        Self {
            attributes,
            tags: BTreeMap::new(),
            created_at: now,
            modified_at: now,
            purged_at: None,
            identity,
            messages: BTreeMap::new(),
            packer: Packer::default(),
            places: Places::default(),
            settled_at: None,
            in_flight_max: IN_FLIGHT_MAX,
        }
    }

    pub(super) fn set_attributes(&mut self, now: Timestamp, attributes: QueueAttributes) {
        self.attributes = attributes;
        self.modified_at = now;
        // The retention period may be shorter now.
        self.settled_at = None;
    }

    /// Accepts a new message.
    pub(super) fn send(
        &mut self,
        now: Timestamp,
        number: u64,
        texts: Texts,
        delay: u32,
    ) -> Received {
        let message = Message {
            texts: self.packer.pack(&texts),
            sent_at: now,
            first_received_at: now,
            received_at: now,
            receives: 0,
            receives_here: 0,
            given_up_by: None,
            place: Place::Visible(now),
        };
        let sent = message.received(texts, String::new());
        self.admit(now, number, message, delay);
        sent
    }

    pub(super) fn admit(&mut self, now: Timestamp, number: u64, message: Message, delay: u32) {
        let place = match delay {
            0 => Place::Visible(now),
            delay => Place::Delayed(after(now, delay)),
        };
        if message.sent_at < now {
            // The message may be older than this queue's retention period.
            self.settled_at = None;
        }
        self.places.add(number, place);
        self.messages.insert(number, Box::new(Message { place, ..message }));
    }

    /// Receives up to `max` visible messages, the longest visible first. Removes messages that have been received
    /// `receives_max` times already, and returns them separately.
    pub(super) fn receive(
        &mut self,
        now: Timestamp,
        max: usize,
        visibility: u32,
        receives_max: Option<u32>,
    ) -> (Vec<Received>, Vec<(u64, Message)>) {
        self.settle(now);
        let max = max.min(self.in_flight_max.saturating_sub(self.places.in_flight.len()));
        let (mut received, mut given_up, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        while received.len() < max
            && let Some(&(_, number)) = self.places.visible.first()
            && let Some(message) = self.messages.get_mut(&number)
        {
            if receives_max.is_some_and(|max| message.receives_here >= max) {
                given_up.extend(self.remove(number).map(|message| (number, message)));
                continue;
            }
            received.push(message.hand_out(now, self.identity, number));
            self.places.put(number, message, Place::InFlight(after(now, visibility)));
            taken.push(number);
        }
        if visibility == 0 {
            // Not earlier, because this receive would find them again.
            for number in taken {
                self.make_visible(number, now);
            }
        }
        (received, given_up)
    }

    /// The message that has been visible longest: its number, and the ARN of the queue that gave it up.
    pub(super) fn longest_visible(&mut self, now: Timestamp) -> Option<(u64, Option<Arc<str>>)> {
        self.settle(now);
        let &(_, number) = self.places.visible.first()?;
        Some((number, self.messages.get(&number)?.given_up_by.clone()))
    }

    /// Deletes the message, unless it was received again since: then only the later handle deletes it. It is no error
    /// if the message is gone.
    pub(super) fn delete(&mut self, now: Timestamp, handle: &str) -> Result<(), SqsError> {
        let receipt = self.read(handle)?;
        self.settle(now);
        let message = self.messages.get(&receipt.message);
        if message.is_some_and(|message| message.receives == receipt.receive) {
            self.remove(receipt.message);
        }
        Ok(())
    }

    pub(super) fn has(&self, handle: &str) -> bool {
        self.read(handle).is_ok_and(|receipt| self.messages.contains_key(&receipt.message))
    }

    /// Makes the message visible again in `seconds`. As on AWS, an earlier handle works as well as the latest one,
    /// and a handle whose visibility timeout has ended hides the message again.
    pub(super) fn change_visibility(
        &mut self,
        now: Timestamp,
        handle: &str,
        seconds: u32,
    ) -> Result<(), SqsError> {
        let receipt = self.read(handle)?;
        check_visibility(seconds)?;
        self.settle(now);
        let Some(message) = self.messages.get_mut(&receipt.message) else {
            let reason =
                "Message does not exist or is not available for visibility timeout change.";
            return Err(SqsError::invalid("ReceiptHandle", handle, reason));
        };
        let until = after(now, seconds);
        if until > after(message.received_at, VISIBILITY_SECONDS_MAX) {
            let reason = format!(
                "Total VisibilityTimeout for the message is beyond the limit [{VISIBILITY_SECONDS_MAX} seconds]"
            );
            return Err(SqsError::invalid("VisibilityTimeout", seconds, reason));
        }
        let place = if seconds == 0 { Place::Visible(now) } else { Place::InFlight(until) };
        self.places.put(receipt.message, message, place);
        Ok(())
    }

    pub(super) fn purge(&mut self) {
        self.messages.clear();
        self.places = Places::default();
    }

    /// When a receive will next find a message. `now` or earlier if one is visible already.
    pub(super) fn next_visible_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        let in_flight_max = self.in_flight_max;
        let Places { delayed, visible, in_flight } = self.places(now);
        let next_back = in_flight.first();
        if in_flight.len() >= in_flight_max {
            return next_back.map(|(until, _)| *until);
        }
        let places = [visible.first(), delayed.first(), next_back];
        places.into_iter().flatten().map(|(at, _)| *at).min()
    }

    pub(super) fn places(&mut self, now: Timestamp) -> &Places {
        self.settle(now);
        &self.places
    }

    fn read(&self, handle: &str) -> Result<Receipt, SqsError> {
        Receipt::read(handle)
            .filter(|receipt| receipt.queue == self.identity)
            .ok_or_else(|| SqsError::ReceiptHandleIsInvalid { handle: handle.to_owned() })
    }

    /// Brings the queue up to date: removes messages whose retention period is over, and makes messages visible
    /// whose delay or visibility timeout is over.
    fn settle(&mut self, now: Timestamp) {
        if self.settled_at.replace(now) == Some(now) {
            return;
        }
        while let Some((&oldest, message)) = self.messages.first_key_value()
            && after(message.sent_at, self.attributes.retention) <= now
        {
            self.remove(oldest);
        }
        while let Some((until, number)) = self.places.first_due(now) {
            self.make_visible(number, until);
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Message> {
        let message = self.messages.remove(&number)?;
        self.places.take(number, message.place);
        Some(*message)
    }

    fn make_visible(&mut self, number: u64, since: Timestamp) {
        if let Some(message) = self.messages.get_mut(&number) {
            self.places.put(number, message, Place::Visible(since));
        }
    }
}

impl Places {
    fn put(&mut self, number: u64, message: &mut Message, place: Place) {
        self.take(number, std::mem::replace(&mut message.place, place));
        self.add(number, place);
    }

    fn add(&mut self, number: u64, place: Place) {
        let (set, at) = self.at(place);
        set.insert((at, number));
    }

    fn take(&mut self, number: u64, place: Place) {
        let (set, at) = self.at(place);
        set.remove(&(at, number));
    }

    fn at(&mut self, place: Place) -> (&mut BTreeSet<(Timestamp, u64)>, Timestamp) {
        match place {
            Place::Delayed(until) => (&mut self.delayed, until),
            Place::Visible(since) => (&mut self.visible, since),
            Place::InFlight(until) => (&mut self.in_flight, until),
        }
    }

    /// The first message that is due to become visible, and since when.
    fn first_due(&self, now: Timestamp) -> Option<(Timestamp, u64)> {
        let first = [self.delayed.first(), self.in_flight.first()].into_iter().flatten().min()?;
        (first.0 <= now).then_some(*first)
    }
}

pub(super) fn check_visibility(seconds: u32) -> Result<(), SqsError> {
    if seconds <= VISIBILITY_SECONDS_MAX { Ok(()) } else { Err(bad_visibility(seconds)) }
}

fn after(from: Timestamp, seconds: u32) -> Timestamp {
    time::later(from, Duration::from_secs(seconds.into()))
}

/// The content of a receipt handle. Callers see opaque text, which differs with every receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Receipt {
    /// The identity of the queue. Other queues refuse the handle.
    queue: u64,
    message: u64,
    /// The number of this receive of the message, counted from 1.
    receive: u32,
}

impl Receipt {
    fn handle(self) -> String {
        let Self { queue, message, receive } = self;
        STANDARD.encode(format!("{queue}/{message}/{receive}"))
    }

    fn read(handle: &str) -> Option<Self> {
        let text = String::from_utf8(STANDARD.decode(handle).ok()?).ok()?;
        let (queue, rest) = text.split_once('/')?;
        let (message, receive) = rest.split_once('/')?;
        let (queue, message) = (queue.parse().ok()?, message.parse().ok()?);
        Some(Self { queue, message, receive: receive.parse().ok()? })
    }
}

const QUEUE_NAME_MAX: usize = 80;

/// Checks a queue's name: up to 80 letters, digits, hyphens and underscores.
pub(super) fn check_name(name: &str) -> Result<(), SqsError> {
    if name.ends_with(".fifo") {
        let reason = "This local cloud has standard queues only, no FIFO queues.";
        return Err(SqsError::UnsupportedOperation(reason.to_owned()));
    }
    if is_name(name, QUEUE_NAME_MAX) {
        return Ok(());
    }
    let reason = format!(
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to {QUEUE_NAME_MAX} in length"
    );
    Err(SqsError::invalid("QueueName", name, reason))
}
