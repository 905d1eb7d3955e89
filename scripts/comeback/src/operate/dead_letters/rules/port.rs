//! A dead-letter queue, and the functions and queues to redrive to, as the commands need them.

use std::time::Duration;

use super::{letter::Letter, order::Redrive};

use crate::account::fault::{Answer, Clock};

/// The maximum number of messages that SQS receives, changes or deletes in one call.
pub const BATCH_MAX: usize = 10;

pub trait DeadLetterQueue: Clock {
    /// Receives up to `max` letters, at most [`BATCH_MAX`], and hides them from other consumers for `hold`. If there
    /// seem to be none, waits briefly.
    fn receive(&self, max: usize, hold: Duration) -> impl Future<Output = Answer<Vec<Letter>>>;

    /// Makes at most [`BATCH_MAX`] letters visible again immediately.
    fn release(&self, receipt_handles: &[&str]) -> impl Future<Output = Answer<()>>;

    /// Deletes at most [`BATCH_MAX`] letters, and returns a result for each of them, in order.
    fn delete(&self, receipt_handles: &[&str]) -> impl Future<Output = Vec<Answer<()>>>;

    /// Invokes the functions and sends to the queues, all concurrently. Returns a result for each, in order.
    fn redrive(&self, redrives: &[Redrive]) -> impl Future<Output = Vec<Answer<()>>>;
}
