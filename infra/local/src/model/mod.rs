//! The rules of the local cloud, pure: every method takes the present as an argument.
//!
//! [`Cloud`] joins the two services where AWS does: Lambda's destinations and dead-letter queues
//! send to SQS, and event source mappings poll it. Who drives it does three things: it calls
//! [`Cloud::advance`] whenever [`Cloud::next_wakeup`] says so and after every request, it makes the
//! runs that come out, and it gives each one's outcome to [`Cloud::finish`].

pub(crate) mod arn;
mod delivery;
pub(crate) mod ids;
mod invocation;
pub mod lambda;
pub mod payload;
mod polling;
pub mod sqs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use comeback_core::Timestamp;
pub use invocation::{Invocation, InvocationType, Invoked};
use lambda::{Lambda, run::Run};
use sqs::Sqs;

use crate::journal::Event;

/// The account that everything belongs to.
pub const ACCOUNT: &str = "000000000000";

/// The region that everything is in.
pub const REGION: &str = "us-east-1";

/// The events that have not come to their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Those that Lambda has accepted: queued, running, or between two runs.
    pub invocations: usize,
    /// The messages of each queue that has any, received or not, by the queue's name.
    pub messages: BTreeMap<String, usize>,
}

/// The whole of the local cloud's state.
pub struct Cloud {
    /// The queues.
    pub sqs: Sqs,
    /// The functions.
    pub lambda: Lambda,
    happened: Vec<Event>,
}

impl Cloud {
    /// An empty cloud with room for `concurrency` runs of functions at a time. With the same
    /// `seed`, the same calls have the same results.
    pub fn new(concurrency: u32, seed: u64) -> Self {
        Self {
            sqs: Sqs::new(REGION, ACCOUNT, seed),
            // Another sequence than that of the queues.
            lambda: Lambda::new(concurrency, seed.wrapping_add(1)),
            happened: Vec::new(),
        }
    }

    /// Does everything that is due, and returns the runs that are to be made for it.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Run> {
        let mut runs = Vec::new();
        self.sqs.move_due(now);
        self.run_due_events(now, &mut runs);
        self.poll_queues(now, &mut runs);
        runs
    }

    /// When [`Cloud::advance`] is to be called next, if nothing else happens before.
    pub fn next_wakeup(&mut self, now: Timestamp) -> Option<Timestamp> {
        let event = self.lambda.queue.next_due();
        let poll = self.next_poll(now);
        let next_move = self.sqs.next_move_at();
        [event, poll, next_move].into_iter().flatten().min()
    }

    /// The events that are here.
    pub fn waiting(&mut self, now: Timestamp) -> Waiting {
        Waiting { invocations: self.lambda.invocations(), messages: self.sqs.messages(now) }
    }

    /// Whether messages went from one queue to another since this was last asked: that can happen in a
    /// step that tells of nothing else.
    pub fn take_redriven(&mut self) -> bool {
        self.sqs.take_redriven()
    }

    /// What happened since this was last asked.
    pub fn take_happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.happened)
    }
}
