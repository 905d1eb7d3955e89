//! The AWS calls that the commands need.

use std::time::Duration;

use super::Letter;
use crate::operate::rules::ports::{Clock, Fault};

/// The maximum number of messages that SQS receives, changes or deletes in one call.
pub const BATCH_MAX: usize = 10;

pub trait DeadLetterQueue {
    /// The clock that measures how long letters are hidden.
    type Clock: Clock;

    fn clock(&self) -> &Self::Clock;

    /// Receives up to `max` letters, at most [`BATCH_MAX`], and hides them from other consumers for `hold`. If there
    /// seem to be none, waits briefly.
    fn receive(
        &self,
        max: usize,
        hold: Duration,
    ) -> impl Future<Output = Result<Vec<Letter>, Fault>>;

    /// Makes at most [`BATCH_MAX`] letters visible again immediately.
    fn release(&self, receipt_handles: &[&str]) -> impl Future<Output = Result<(), Fault>>;

    /// Deletes at most [`BATCH_MAX`] letters, and returns a result for each of them, in order.
    fn delete(&self, receipt_handles: &[&str]) -> impl Future<Output = Vec<Result<(), Fault>>>;
}

pub trait Functions {
    /// Makes all these invocations concurrently, and returns a result for each of them, in order.
    fn invoke(&self, invocations: &[Invocation]) -> impl Future<Output = Vec<Result<(), Fault>>>;
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invocation {
    /// The name or the ARN of the function, with an optional qualifier.
    pub function: String,
    pub payload: String,
}
