//! The services that handling a batch needs.
//!
//! A call with several entries returns an answer for each of them, in order, because SQS may refuse one and accept
//! the others. If the call itself fails, every entry gets its error.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    claim::Claim,
    dead_letter::DeadLetter,
    fault::{InvokeFault, StoreFault},
};

/// SQS accepts this many entries in one call.
pub const ENTRIES_MAX: usize = 10;

/// The queues.
pub trait Queues {
    /// Changes the visibility timeouts of at most [`ENTRIES_MAX`] messages of one queue.
    fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> impl Future<Output = Vec<Result<(), CallFault>>>;

    /// Sends at most [`ENTRIES_MAX`] dead letters, which together are no larger than one message may be.
    fn send_dead_letters(
        &self,
        letters: &[&DeadLetter<'_>],
    ) -> impl Future<Output = Vec<Result<(), CallFault>>>;
}

/// The functions.
pub trait Functions {
    /// Invokes a function asynchronously. Once it is accepted, Lambda keeps the event.
    fn invoke(&self, invocation: Invocation<'_>) -> impl Future<Output = Result<(), InvokeFault>>;
}

/// The claims on failures, shared by all handlers.
pub trait Ledger {
    /// Replaces the claim under `key` by `next`, or removes it, if it is still the one that was `seen`. If none was
    /// seen, there must still be none. One conditional write.
    fn replace(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: Option<&Claim>,
    ) -> impl Future<Output = Result<(), NotReplaced>>;
}

/// The time.
pub trait Clock {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// Returns when this much time has passed.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// The change of one message's visibility timeout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VisibilityChange<'a> {
    /// SQS's handle for this receive of the message.
    pub receipt_handle: &'a str,
    /// The visibility timeout in seconds from now.
    pub timeout: u32,
}

/// One re-invocation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invocation<'a> {
    /// The qualified ARN of the function, as the failure record names it.
    pub function: &'a str,
    /// The envelope as JSON.
    pub payload: String,
    /// The event's trace. Lambda's recursive-loop detection counts by it.
    pub trace_header: Option<&'a str>,
}

/// Why a claim was not replaced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NotReplaced {
    /// Another claim than the one that was seen is there: this one, or none.
    Changed(Option<Claim>),
    /// The call failed. The write may have been made all the same.
    Fault(StoreFault),
}

/// A call to SQS, or one entry of it, that failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct CallFault(pub String);
