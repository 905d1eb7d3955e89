//! The state of the local cloud, and its steps in time.

use std::collections::BTreeMap;

use comeback_core::Timestamp;

use super::{
    lambda::{Lambda, run::Run},
    sqs::Sqs,
};
use crate::journal::Event;

/// The pending invocations and messages, which are lost when the local cloud stops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Accepted asynchronous invocations: queued, running, or waiting for a retry.
    pub invocations: usize,
    /// The number of messages in each queue, delayed and in flight included. Empty queues are left out.
    pub messages: BTreeMap<String, usize>,
}

/// The state of both services.
pub struct Cloud {
    pub sqs: Sqs,
    pub lambda: Lambda,
    pub(super) happened: Vec<Event>,
}

impl Cloud {
    /// Creates an empty cloud with this concurrency of the account. With the same `seed`, the same calls have the same
    /// results.
    pub fn new(concurrency: u32, seed: u64) -> Self {
        Self {
            sqs: Sqs::new(seed),
            // A different seed, so that Lambda's ids differ from those of SQS.
            lambda: Lambda::new(concurrency, seed.wrapping_add(1)),
            happened: Vec::new(),
        }
    }

    /// Does everything that is due, and returns the runs that the host must start.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Run> {
        let mut runs = Vec::new();
        self.sqs.move_due(now);
        self.run_due_events(now, &mut runs);
        self.poll_queues(now, &mut runs);
        runs
    }

    /// When [`Cloud::advance`] must be called next, unless another step comes first.
    pub fn next_wakeup(&mut self, now: Timestamp) -> Option<Timestamp> {
        let event = self.lambda.queue.next_due();
        let poll = self.next_poll(now);
        let next_move = self.sqs.next_move_at();
        [event, poll, next_move].into_iter().flatten().min()
    }

    /// The pending invocations and messages, which are lost when the local cloud stops.
    pub fn waiting(&mut self, now: Timestamp) -> Waiting {
        Waiting { invocations: self.lambda.invocations(), messages: self.sqs.messages(now) }
    }

    /// Returns and clears the journal events since the last call.
    pub fn take_happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.happened)
    }
}
