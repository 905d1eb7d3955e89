//! The state of the local cloud, and its passing of time.

use std::collections::BTreeMap;

use comeback_core::Timestamp;

use super::{
    lambda::{Lambda, run::Run},
    sqs::Sqs,
};
use crate::journal::Event;

/// The events that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Those that Lambda has accepted: queued, running, or between two runs.
    pub invocations: usize,
    /// How many messages each queue has, received or not; queues without messages are left out.
    pub messages: BTreeMap<String, usize>,
}

/// The whole of the local cloud's state.
pub struct Cloud {
    /// The queues.
    pub sqs: Sqs,
    /// The functions.
    pub lambda: Lambda,
    pub(super) happened: Vec<Event>,
}

impl Cloud {
    /// An empty cloud with room for `concurrency` runs of functions at a time. With the same `seed`, the same
    /// calls have the same results.
    pub fn new(concurrency: u32, seed: u64) -> Self {
        Self {
            sqs: Sqs::new(seed),
            // The queues' identifiers must be others.
            lambda: Lambda::new(concurrency, seed.wrapping_add(1)),
            happened: Vec::new(),
        }
    }

    /// Does everything that is due, and returns the runs that the host has to make.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Run> {
        let mut runs = Vec::new();
        self.sqs.move_due(now);
        self.run_due_events(now, &mut runs);
        self.poll_queues(now, &mut runs);
        runs
    }

    /// When [`Cloud::advance`] must be called next if nothing else happens before.
    pub fn next_wakeup(&mut self, now: Timestamp) -> Option<Timestamp> {
        let event = self.lambda.queue.next_due();
        let poll = self.next_poll(now);
        let next_move = self.sqs.next_move_at();
        [event, poll, next_move].into_iter().flatten().min()
    }

    /// The events that have not ended.
    pub fn waiting(&mut self, now: Timestamp) -> Waiting {
        Waiting { invocations: self.lambda.invocations(), messages: self.sqs.messages(now) }
    }

    /// What happened since the last call.
    pub fn take_happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.happened)
    }
}
