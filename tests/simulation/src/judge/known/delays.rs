//! Waits that are kept as delays: the handler sends the message to its own queue again.
//!
//! The received message is done once its copy is in the queue. If it stays nevertheless, because the answer was lost or
//! its handler died, there are two messages about one failure.

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_local_model::sqs::Outgoing;
use wire::{Answer, Origin};

use super::{
    Known, Subject,
    deliveries::{Delivery, was_moved},
};
use crate::{policy::Millis, seen::Seen};

/// The longest delay, and the shortest delay that may end before the message is due, in seconds.
pub const DELAY_MAX: u32 = 900;
pub const HOP_MIN: u32 = 720;

impl Known {
    pub fn starts(&mut self, is_turned: bool) -> usize {
        self.turned.push(is_turned);
        self.faults.starts();
        self.turned.len() - 1
    }

    /// A process begins with a batch.
    pub fn begun(&mut self, run: u64, process: usize) {
        for message in self.runs.get_mut(&run).into_iter().flatten() {
            message.process = process;
            let is_paused = || self.paused.contains(self.cases[message.case].arn(&self.plan));
            message.listing.was_paused = !self.paused.is_empty() && is_paused();
        }
        self.begins_to_judge(run, process);
        self.ends_reads(run);
    }

    /// The message that a handler sends again.
    pub fn sent_by(&self, run: u64, sent: &Outgoing, origin: Origin) -> Option<Subject> {
        let case = self.case_with(sent.trace_header.as_deref().unwrap_or_default())?;
        let is_it =
            |message: &Delivery| message.is_origin(origin) && message.case == case && !message.sent;
        let place = self.batch(run).iter().position(is_it)?;
        Some(match self.batch(run)[place].split {
            Some(_) => self.part_sent((run, place), sent),
            None => Subject { run, place, case, call: None, part: None },
        })
    }

    /// A handler sends a message again, with a delay.
    pub fn sends_again(&mut self, of: Subject, seconds: u32) {
        let (run, event) = (of.run, self.event_of(of.case));
        self.story.tell(self.now, event, || format!("run {run} sends it again for {seconds} s"));
        if let Some(message) = self.message_mut(run, of.place) {
            message.sent = true;
        }
    }

    /// A message that was sent again may still have to wait for `rest` milliseconds, which may take several delays.
    pub fn hops(&mut self, seconds: u32, rest: Millis) {
        let is_hop = rest > i64::from(DELAY_MAX) * 1000;
        if is_hop && (HOP_MIN..=DELAY_MAX).contains(&seconds) {
            self.tally.count(Seen::Step("hops"));
            // In tenths of the range; waits are rounded up to whole seconds.
            let tenth = seconds.saturating_sub(HOP_MIN + 1) * 10 / (DELAY_MAX - HOP_MIN);
            self.tally.hops[tenth as usize] += 1;
        }
    }

    /// A queue has accepted a message that was sent again. Returns whether that stays beside it.
    pub fn sent_again(&mut self, of: Subject) -> bool {
        self.tally.count(Seen::Step("delays"));
        self.cases[of.case].messages += 1;
        self.message_mut(of.run, of.place).is_none_or(|message| {
            message.copies += 1;
            message.copies > 1 || message.copy_refused
        })
    }

    /// A handler received the answer to a message that it sent again. Returns whether that stays beside its copy.
    pub fn told_of_copy(&mut self, of: Subject, answer: &Answer) -> bool {
        let (run, event) = (of.run, self.event_of(of.case));
        self.story.tell(self.now, event, || format!("run {run} is told: {answer:?}"));
        let Some(message) = self.message_mut(run, of.place) else { return false };
        match answer {
            Ok(()) => {
                (message.done, message.copy_accepted) = (true, true);
                false
            }
            Err(_) => {
                message.copy_refused = true;
                message.copies > 0
            }
        }
    }
}

/// Whether a handler has sent this message to its own queue again.
pub fn was_sent_again(record: &SqsMessage) -> bool {
    record.message_attributes.contains_key("FailedAt") && !was_moved(record)
}

/// The parts of a message that stay whenever it is sent again.
pub fn content(of: &Outgoing) -> impl PartialEq {
    (of.body.clone(), of.attributes.clone(), of.group_id.clone())
}
