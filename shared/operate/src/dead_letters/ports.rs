//! What the commands need of AWS.

use std::time::Duration;

use super::Letter;
use crate::ports::{Clock, Fault};

/// SQS gives, changes and deletes this many messages in one call.
pub const BATCH_MAX: usize = 10;

/// The dead-letter queue.
pub trait DeadLetterQueue {
    /// The clock by which its letters are hidden.
    type Clock: Clock;

    /// That clock.
    fn clock(&self) -> &Self::Clock;

    /// Receives up to `max` letters, at most [`BATCH_MAX`]. Nobody else receives them for as long as `hold`. Waits
    /// for a moment if there seem to be none.
    fn receive(
        &self,
        max: usize,
        hold: Duration,
    ) -> impl Future<Output = Result<Vec<Letter>, Fault>>;

    /// Makes at most [`BATCH_MAX`] letters visible again at once.
    fn release(&self, receipt_handles: &[&str]) -> impl Future<Output = Result<(), Fault>>;

    /// Deletes at most [`BATCH_MAX`] letters, and returns an answer for each of them, in order.
    fn delete(&self, receipt_handles: &[&str]) -> impl Future<Output = Vec<Result<(), Fault>>>;
}

/// The functions.
pub trait Functions {
    /// Invokes functions asynchronously, all at the same time, and returns an answer for each of them, in order.
    fn invoke(&self, invocations: &[Invocation]) -> impl Future<Output = Vec<Result<(), Fault>>>;
}

/// An asynchronous invocation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invocation {
    /// The name or the ARN of the function, with its qualifier.
    pub function: String,
    /// The payload.
    pub payload: String,
}
