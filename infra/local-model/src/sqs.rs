//! Amazon SQS as a pure model of standard queues.
//!
//! A message ([`Outgoing`]) is *sent* to a queue. When its delay is over, it is visible, and a *receive* returns
//! it. Then it is in flight, and its receiver can *delete* it by its receipt handle until the visibility timeout
//! ends. The receiver can *change* that timeout, which is how a retry waits for hours at no cost. If it does
//! neither, the message becomes visible again, until the queue's redrive policy moves it to the dead-letter queue,
//! or until the retention period ends.
//!
//! Every step takes the current time as an argument, and identifiers come from one seeded generator, so that a
//! simulation can replay the same steps. If the time goes back, messages that were visible stay visible.
//!
//! Unlike on AWS, a message can be received as soon as it is sent, and counts are exact, so that tests needn't
//! wait.

mod attributes;
mod error;
mod md5;
mod message;
mod message_attribute;
mod move_task;
mod packed;
mod queue;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::Duration};

use attributes::QueueAttributes;
pub use attributes::{Attributes, VISIBILITY_SECONDS_MAX, WAIT_SECONDS_MAX};
pub use attributes::{STORED, bad_visibility};
use comeback_core::{Timestamp, time};
pub use error::SqsError;
pub use md5::Md5;
use message::Texts;
pub use message::{MESSAGE_BYTES_MAX, Outgoing, Received, bad_delay, too_long};
pub use message_attribute::{AttributeValue, MessageAttribute, MessageAttributes, is_valid_char};
pub use move_task::{MoveStatus, MoveTask, TASKS_LISTED_MAX};
pub use queue::IN_FLIGHT_MAX;
use queue::{Places, Queue};

use super::{ACCOUNT, Ids, queue_arn, queue_name};

/// How long a deleted queue's name can't be reused, and how long after a purge the next one is refused.
const COOLDOWN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Sqs {
    /// The sender of messages that don't name one. Callers aren't distinguished, so it is the account, as on AWS for
    /// the root user.
    account: Arc<str>,
    ids: Ids,
    /// The number of the next message. Numbers are unique across queues.
    next_number: u64,
    queues: BTreeMap<Arc<str>, Queue>,
    deleted: BTreeMap<Arc<str>, Timestamp>,
    move_tasks: Vec<MoveTask>,
    pub in_flight_max: usize,
    /// Whether messages were moved from one queue to another since the last [`Sqs::take_redriven`].
    redriven: bool,
}

impl Sqs {
    /// Creates an SQS without queues. All identifiers derive from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            account: ACCOUNT.into(),
            ids: Ids::new(seed),
            next_number: 0,
            queues: BTreeMap::new(),
            deleted: BTreeMap::new(),
            move_tasks: Vec::new(),
            in_flight_max: IN_FLIGHT_MAX,
            redriven: false,
        }
    }

    /// Creates a queue. An existing queue with the same attributes is left as it is.
    pub fn create_queue(
        &mut self,
        now: Timestamp,
        name: &str,
        attributes: &Attributes,
    ) -> Result<(), SqsError> {
        queue::check_name(name)?;
        if let Some(existing) = self.queues.get(name) {
            let wanted = existing.attributes.with(attributes)?.to_map();
            let current = existing.attributes.to_map();
            return match attributes.keys().find(|name| wanted.get(*name) != current.get(*name)) {
                Some(attribute) => Err(SqsError::QueueNameExists { attribute: attribute.clone() }),
                None => Ok(()),
            };
        }
        if self.deleted.get(name).is_some_and(|at| now < time::later(*at, COOLDOWN)) {
            return Err(SqsError::QueueDeletedRecently);
        }
        let attributes = QueueAttributes::default().with(attributes)?;
        self.check_redrive(&attributes)?;
        let mut queue = Queue::new(now, self.ids.number(), attributes);
        queue.in_flight_max = self.in_flight_max;
        self.queues.insert(name.into(), queue);
        Ok(())
    }

    pub fn delete_queue(&mut self, now: Timestamp, queue: &str) -> Result<(), SqsError> {
        let (name, _) = self.queues.remove_entry(queue).ok_or(SqsError::QueueDoesNotExist)?;
        self.move_tasks.retain(|task| !task.is_from(&name));
        self.deleted.retain(|_, at| now < time::later(*at, COOLDOWN));
        self.deleted.insert(name, now);
        Ok(())
    }

    pub fn purge_queue(&mut self, now: Timestamp, queue: &str) -> Result<(), SqsError> {
        let purged = self.queue_mut(queue)?;
        if purged.purged_at.is_some_and(|at| now < time::later(at, COOLDOWN)) {
            return Err(SqsError::PurgeQueueInProgress { queue: queue.to_owned() });
        }
        purged.purged_at = Some(now);
        purged.purge();
        Ok(())
    }

    pub fn queue(&self, name: &str) -> Result<&Arc<str>, SqsError> {
        self.queues.get_key_value(name).map(|(name, _)| name).ok_or(SqsError::QueueDoesNotExist)
    }

    pub(crate) fn queue_by_arn(&self, arn: &str) -> Option<&Arc<str>> {
        self.queue(queue_name(arn)?).ok()
    }

    /// The queues whose names begin with `prefix` and come after `after`, sorted by name.
    pub fn queues(&self, prefix: &str, after: Option<&str>) -> impl Iterator<Item = &Arc<str>> {
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        self.queues
            .range::<str, _>((from, Bound::Unbounded))
            .map(|(name, _)| name)
            .filter(move |name| name.starts_with(prefix))
    }

    /// The queues whose dead-letter queue is `queue` and whose names come after `after`.
    pub fn dead_letter_sources(
        &self,
        queue: &str,
        after: Option<&str>,
    ) -> Result<impl Iterator<Item = &Arc<str>>, SqsError> {
        let arn = queue_arn(self.queue(queue)?);
        let is_source = move |name: &&Arc<str>| {
            let redrive =
                self.queues.get(*name).and_then(|queue| queue.attributes.redrive.as_ref());
            redrive.is_some_and(|redrive| redrive.dead_letter_target_arn == arn)
        };
        Ok(self.queues("", after).filter(is_source))
    }

    pub fn attributes(&mut self, now: Timestamp, queue: &str) -> Result<Attributes, SqsError> {
        let arn = queue_arn(queue);
        let queue = self.queue_mut(queue)?;
        let Places { delayed, visible, in_flight } = queue.places(now);
        let [delayed, visible, in_flight] =
            [delayed, visible, in_flight].map(|place| place.len().to_string());
        let mut attributes = queue.attributes.to_map();
        attributes.extend(
            [
                ("ApproximateNumberOfMessages", visible),
                ("ApproximateNumberOfMessagesDelayed", delayed),
                ("ApproximateNumberOfMessagesNotVisible", in_flight),
                ("CreatedTimestamp", queue.created_at.timestamp().to_string()),
                ("LastModifiedTimestamp", queue.modified_at.timestamp().to_string()),
                ("QueueArn", arn),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        Ok(attributes)
    }

    /// The number of messages in each queue. Empty queues are left out.
    pub fn messages(&mut self, now: Timestamp) -> BTreeMap<String, usize> {
        let counts = self.queues.iter_mut().map(|(name, queue)| {
            let Places { delayed, visible, in_flight } = queue.places(now);
            (name.to_string(), delayed.len() + visible.len() + in_flight.len())
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Changes some of a queue's attributes. If one is refused, none is changed.
    pub fn set_attributes(
        &mut self,
        now: Timestamp,
        queue: &str,
        changes: &Attributes,
    ) -> Result<(), SqsError> {
        let changed = self.queue_mut(queue)?.attributes.with(changes)?;
        if changes.contains_key("RedrivePolicy") {
            self.check_redrive(&changed)?;
        }
        self.queue_mut(queue)?.set_attributes(now, changed);
        Ok(())
    }

    pub fn settings(&self, queue: &str) -> Result<&QueueAttributes, SqsError> {
        self.queues.get(queue).map(|queue| &queue.attributes).ok_or(SqsError::QueueDoesNotExist)
    }

    pub fn tags(&mut self, queue: &str) -> Result<&mut BTreeMap<String, String>, SqsError> {
        self.queue_mut(queue).map(|queue| &mut queue.tags)
    }

    pub fn send(
        &mut self,
        now: Timestamp,
        queue: &str,
        message: Outgoing,
    ) -> Result<Received, SqsError> {
        let id = self.ids.uuid().into();
        let number = self.number();
        let account = Arc::clone(&self.account);
        let queue = self.queue_mut(queue)?;
        message.check(queue.attributes.message_bytes_max)?;
        let delay = message.delay.unwrap_or(queue.attributes.delay);
        Ok(queue.send(now, number, Texts::new(id, message, &account), delay))
    }

    /// Receives up to `max` messages and hides them for `visibility` seconds, or for the queue's own timeout. A message
    /// that has been received `maxReceiveCount` times moves to the dead-letter queue instead, if that still exists.
    pub fn receive(
        &mut self,
        now: Timestamp,
        queue: &str,
        max: usize,
        visibility: Option<u32>,
    ) -> Result<Vec<Received>, SqsError> {
        visibility.map_or(Ok(()), queue::check_visibility)?;
        let source = self.queues.get(queue).ok_or(SqsError::QueueDoesNotExist)?;
        let redrive = source.attributes.redrive.as_ref().and_then(|redrive| {
            let target = self.queue_by_arn(&redrive.dead_letter_target_arn)?;
            Some((target.clone(), redrive.max_receive_count))
        });
        let receives_max = redrive.as_ref().map(|(_, count)| *count);
        let source = self.queue_mut(queue)?;
        let visibility = visibility.unwrap_or(source.attributes.visibility);
        let (messages, given_up) = source.receive(now, max, visibility, receives_max);
        if let Some((target, _)) = redrive.filter(|_| !given_up.is_empty()) {
            let source: Arc<str> = queue_arn(queue).into();
            let target = self.queue_mut(&target)?;
            for (number, message) in given_up {
                target.admit(now, number, message.given_up_by(Arc::clone(&source)), 0);
            }
            self.redriven = true;
        }
        Ok(messages)
    }

    /// Deletes a received message, unless it has been received again since. It is no error if the message is gone.
    pub fn delete(
        &mut self,
        now: Timestamp,
        queue: &str,
        receipt_handle: &str,
    ) -> Result<(), SqsError> {
        self.queue_mut(queue)?.delete(now, receipt_handle)
    }

    pub fn has(&self, queue: &str, receipt_handle: &str) -> bool {
        self.queues.get(queue).is_some_and(|queue| queue.has(receipt_handle))
    }

    pub fn change_visibility(
        &mut self,
        now: Timestamp,
        queue: &str,
        receipt_handle: &str,
        seconds: u32,
    ) -> Result<(), SqsError> {
        self.queue_mut(queue)?.change_visibility(now, receipt_handle, seconds)
    }

    pub fn limit_in_flight(&mut self, queue: &str, most: usize) -> Result<(), SqsError> {
        self.queue_mut(queue)?.in_flight_max = most;
        Ok(())
    }

    /// When a receive from this queue will next find a message, if nothing else changes. `now` or earlier if one is
    /// visible already.
    pub fn next_visible_at(&mut self, queue: &str, now: Timestamp) -> Option<Timestamp> {
        self.queues.get_mut(queue)?.next_visible_at(now)
    }

    /// Whether a receive or a move task moved messages to another queue since the last call. A receive may be waiting
    /// for them there, and the journal has no event for such a move.
    pub fn take_redriven(&mut self) -> bool {
        std::mem::take(&mut self.redriven)
    }

    pub fn request_id(&mut self) -> String {
        self.ids.uuid()
    }

    fn check_redrive(&self, attributes: &QueueAttributes) -> Result<(), SqsError> {
        match &attributes.redrive {
            Some(redrive) if self.queue_by_arn(&redrive.dead_letter_target_arn).is_none() => {
                Err(redrive.target_missing())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn queue_mut(&mut self, name: &str) -> Result<&mut Queue, SqsError> {
        self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }
}
