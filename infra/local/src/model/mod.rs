//! The rules of the local cloud, pure: every method takes the present as an argument.
//!
//! [`Cloud`] joins the two services where AWS does: Lambda's destinations and dead-letter queues
//! send to SQS, and event source mappings poll it.

pub(crate) mod ids;
pub mod payload;
pub mod sqs;

use crate::Timestamp;
use crate::journal::Event;

/// The account that everything belongs to.
pub const ACCOUNT: &str = "000000000000";

/// The region that everything is in.
pub const REGION: &str = "us-east-1";

/// The whole of the local cloud's state.
pub struct Cloud {
    happened: Vec<Event>,
}

impl Cloud {
    /// An empty cloud. Runs with the same `seed` and the same calls are the same.
    pub fn new(_seed: u64) -> Self {
        Self { happened: Vec::new() }
    }

    /// When [`Cloud::advance`] is to be called next, if nothing else happens before.
    pub fn next_wakeup(&mut self, _now: Timestamp) -> Option<Timestamp> {
        None
    }

    /// What happened since this was last asked.
    pub fn take_happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.happened)
    }
}
