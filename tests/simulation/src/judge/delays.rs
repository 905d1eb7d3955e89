//! The rules for waits that are kept as delays: the handler sends the message to its own queue again.
//!
//! The received message is done once its copy is in the queue. If it stays nevertheless, because the answer was lost or
//! its handler died, there are two messages about one failure.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{Timestamp, time::later};
use comeback_local_model::{queue_arn, sqs::Outgoing};
use wire::{Answer, Invoke, Origin};

use super::{
    Judge, Subject,
    calls::fits,
    deliveries::{Delivery, was_moved},
};
use crate::{
    notes::{Check, Seen},
    rules::Millis,
};

/// The longest delay, and the shortest delay that may end before the message is due, in seconds.
pub const DELAY_MAX: u32 = 900;
pub const HOP_MIN: u32 = 720;

/// The time that a handler keeps for its answer, and for what follows an act. Times are in whole milliseconds here.
const ANSWER: Duration = Duration::from_millis(500);
const FOLLOW_UP: Duration = Duration::from_secs(3);
const ROUNDING: Duration = Duration::from_millis(1);

impl Judge {
    pub fn starts(&mut self, is_turned: bool) -> usize {
        self.turned.push(is_turned);
        self.faults.starts();
        self.turned.len() - 1
    }

    pub fn begun(&mut self, run: u64, process: usize, timeout: Duration) {
        // Half a second or a quarter is for the answer, and three seconds or a third of the rest for what follows an
        // act.
        let all = timeout - ANSWER.min(timeout / 4);
        let acts_until = later(self.now, all - FOLLOW_UP.min(all / 3) + ROUNDING);
        for message in self.runs.get_mut(&run).into_iter().flatten() {
            (message.process, message.acts_until) = (process, acts_until);
            let is_paused = || self.paused.contains(self.cases[message.case].arn(&self.plan));
            message.listing.was_paused = !self.paused.is_empty() && is_paused();
        }
        self.begins_to_judge(run, process);
        self.ends_reads(run);
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
                self.judge_again(run, at, message, origin)
            });
        }
        subjects
    }

    fn judge_again(
        &mut self,
        run: u64,
        at: Millis,
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
            self.violated(Check::NothingUnexplained, event, what);
            return None;
        };
        if batch[place].split.is_some() {
            return self.sends_part((run, place), sent);
        }
        let event = self.cases[case].of.event;
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
        Some(of)
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

/// Whether a handler has sent this message to its own queue again.
pub fn was_sent_again(record: &SqsMessage) -> bool {
    record.message_attributes.contains_key("FailedAt") && !was_moved(record)
}

/// What a message keeps whenever it is sent again.
pub fn content(of: &Outgoing) -> impl PartialEq {
    (of.body.clone(), of.attributes.clone(), of.group_id.clone())
}
