//! What the judge holds a handler to from the delivery of a batch to its answer.

use std::{collections::BTreeSet, sync::Arc};

use comeback_core::{Timestamp, claim::Claim};
use comeback_flow::report::{Outcome, Report};

use super::{Check, FaultSeen, Judge, Verdict};
use crate::rules::Millis;

/// A message of a batch, as it was delivered.
pub(crate) struct Delivered {
    pub(crate) message_id: String,
    pub(crate) handle: String,
    pub(crate) trace: Arc<str>,
    /// How often it was received, as the handler is told.
    pub(crate) receive_count: u32,
}

/// A message with a handler, and what the handler has done about it.
pub(super) struct Watched {
    pub(super) failure: usize,
    pub(super) message_id: String,
    pub(super) handle: String,
    pub(super) receive_count: u32,
    /// When it was to be invoked, by the handler's clock.
    pub(super) invoked_at: Option<Millis>,
    /// What came back instead of a yes.
    pub(super) fault: Option<FaultSeen>,
    pub(super) lettered: bool,
    /// Whether it had an effect that can't be undone, and how often.
    pub(super) acts: u32,
    /// Whether the handler was told that its act had no effect, and whether there is a permit for one
    /// that had.
    pub(super) told_no: bool,
    pub(super) permitted: bool,
    /// Whether the handler knows that it is done.
    pub(super) done: bool,
    /// The claim that the handler holds.
    pub(super) claim: Option<Claim>,
    /// Whether the handler has put it back.
    pub(super) put_back: bool,
    /// Whether the handler wrote what has become of its claim.
    pub(super) concluded: bool,
    /// The claim that the handler wrote last, whether or not it knows what became of that.
    pub(super) written: Option<Claim>,
    /// Which answer was the last that is about this message, of all answers.
    pub(super) told: u64,
    /// Until when another holds the claim, as far as the handler knows.
    pub(super) held_until: Option<Millis>,
}

impl Judge {
    /// A batch is with a handler from now on.
    pub(crate) fn delivered(&mut self, now: Timestamp, run: u64, batch: Vec<Delivered>) {
        let mut watched = Vec::with_capacity(batch.len());
        for message in batch {
            let Some(&failure) = self.by_trace.get(&message.trace) else {
                let what = format!("a message with an unknown trace, {}", message.trace);
                self.violated(Check::NothingUnexplained, now, None, what);
                continue;
            };
            let with = self.with.entry(message.message_id.clone()).or_default();
            *with += 1;
            let event = self.failures[failure].event;
            self.story.tell(now, Some(event), || {
                format!("received by run {run}, for the {}. time", message.receive_count)
            });
            if *with > 1 {
                self.failures[failure].delivered_twice();
            }
            watched.push(Watched {
                failure,
                message_id: message.message_id,
                handle: message.handle,
                receive_count: message.receive_count,
                invoked_at: None,
                fault: None,
                lettered: false,
                acts: 0,
                told_no: false,
                permitted: false,
                done: false,
                claim: None,
                put_back: false,
                concluded: false,
                written: None,
                told: 0,
                held_until: None,
            });
        }
        self.runs.insert(run, watched);
    }

    /// A handler has answered, and Lambda has its answer unless that was lost.
    ///
    /// `stays` tells of a handle whether its message is still in the queue: of what a handler is done
    /// with, SQS may have handed out another receipt meanwhile.
    pub(crate) fn answered(
        &mut self,
        now: Timestamp,
        run: u64,
        report: &Report,
        stays: impl Fn(&str) -> bool,
    ) {
        let Some(watched) = self.runs.remove(&run) else { return };
        self.deadlines.remove(&run);
        for (message, entry) in watched.iter().zip(&report.entries) {
            if let Outcome::Invoked { lateness } = entry.outcome
                && !lateness.is_zero()
                && let Some(at) = message.invoked_at
            {
                let late = i64::try_from(lateness.as_millis()).unwrap_or(i64::MAX);
                self.shown_exactly(now, message.failure, at - late);
            }
        }
        let response = report.response();
        let kept: BTreeSet<&str> =
            response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
        // Where a message is in a batch twice, both stay or neither.
        let undone: BTreeSet<String> = watched
            .iter()
            .filter(|message| !message.done)
            .map(|message| message.message_id.clone())
            .collect();
        for message in watched {
            let is_kept = kept.contains(message.message_id.as_str());
            let event = self.failures[message.failure].event;
            if is_kept != undone.contains(&message.message_id) {
                let (is, said) = match message.done {
                    true => ("done", "stays in the queue"),
                    false => ("not done", "is done"),
                };
                let what = format!("a message is {is}, and run {run} says that it {said}");
                self.violated(Check::ReportsTruly, now, Some(event), what);
            }
            let is_over = message.done || message.put_back;
            if message.claim.is_some() && is_over && !message.concluded {
                let what = format!("run {run} has acted or put it back, and leaves its claim");
                self.violated(Check::MarksAfterActing, now, Some(event), what);
            }
            self.let_go(now, run, &message, stays(&message.handle));
        }
    }

    /// A handler has ended without an answer.
    pub(crate) fn cut(&mut self, now: Timestamp, run: u64) {
        self.deadlines.remove(&run);
        for message in self.runs.remove(&run).unwrap_or_default() {
            self.let_go(now, run, &message, true);
        }
    }

    fn let_go(&mut self, now: Timestamp, run: u64, message: &Watched, comes_back: bool) {
        if let Some(with) = self.with.get_mut(&message.message_id) {
            *with -= 1;
            if *with == 0 {
                self.with.remove(&message.message_id);
            }
        }
        let failure = &mut self.failures[message.failure];
        let has_no_mark = if failure.claimed { !failure.marked } else { comes_back };
        if has_no_mark && message.acts > 0 && !message.permitted {
            failure.permits += 1;
            self.tally.count("acts without their mark");
        }
        let event = failure.event;
        self.story.tell(now, Some(event), || {
            let fate = if comes_back { "comes back" } else { "is done" };
            format!("run {run} is over: the message {fate}")
        });
    }

    /// An invocation has shown to the millisecond when it was due.
    fn shown_exactly(&mut self, now: Timestamp, index: usize, due: Millis) {
        let failure = &mut self.failures[index];
        let Verdict::Next(next) = failure.verdict else { return };
        let (event, shown, before) = (failure.event, failure.shown, failure.due);
        failure.due = Some(due);
        let (low, high) = next.due;
        if !(low..=high).contains(&due) {
            let what = format!("due at {due}, expected from {low} to {high}");
            self.violated(Check::BackoffInRange, now, Some(event), what);
        } else if before.is_some_and(|before| before != due) || due <= shown.0 || due > shown.1 {
            let what = format!("due at {due}, before it was {before:?}, within {shown:?}");
            self.violated(Check::SameDraw, now, Some(event), what);
        } else if before.is_none() && next.drawn && high - low >= 10_000 {
            let tenth = (due - low) * 10 / (high - low + 1);
            self.tally.draws[usize::try_from(tenth).unwrap_or_default()] += 1;
        }
    }
}
