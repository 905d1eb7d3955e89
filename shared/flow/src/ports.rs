//! What a batch needs of the world.
//!
//! A call that takes several entries answers for each of them, in their order: SQS may refuse one
//! and accept its neighbours. Where the call itself failed, every entry has its error.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    claim::Claim,
    dead_letter::DeadLetter,
    fault::{InvokeFault, StoreFault},
};

/// SQS takes this many entries in one call.
pub const ENTRIES_MAX: usize = 10;

/// The queues.
pub trait Queues {
    /// Keeps messages of one queue from view, at most [`ENTRIES_MAX`] of them.
    fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> impl Future<Output = Vec<Result<(), CallFault>>>;

    /// Sends dead letters, at most [`ENTRIES_MAX`] of them and together no larger than one message
    /// may be.
    fn send_dead_letters(
        &self,
        letters: &[&DeadLetter<'_>],
    ) -> impl Future<Output = Vec<Result<(), CallFault>>>;
}

/// The functions.
pub trait Functions {
    /// Invokes a function asynchronously: accepted means that Lambda keeps the event from now on.
    fn invoke(&self, invocation: Invocation<'_>) -> impl Future<Output = Result<(), InvokeFault>>;
}

/// The claims on failures, shared by all handlers.
pub trait Ledger {
    /// Writes `next` under `key` in place of the claim that was `seen` there, or removes that one, if
    /// it is still as it was; without one seen, if there is still none. One write, whatever its answer.
    fn replace(
        &self,
        key: &str,
        seen: Option<&Claim>,
        next: Option<&Claim>,
    ) -> impl Future<Output = Result<(), NotReplaced>>;
}

/// The time, read and waited for.
pub trait Clock {
    /// The present.
    fn now(&self) -> Timestamp;

    /// Ends when this much time has passed.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// One message to be kept from view.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VisibilityChange<'a> {
    /// SQS's handle for this receive of the message.
    pub receipt_handle: &'a str,
    /// For how many seconds from now.
    pub timeout: u32,
}

/// One re-invocation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invocation<'a> {
    /// The qualified ARN of the function, as the failure record names it.
    pub function: &'a str,
    /// The envelope.
    pub payload: String,
    /// The trace that this event belongs to; by it Lambda counts the rounds of a loop.
    pub trace_header: Option<&'a str>,
}

/// Why a claim is as it was.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NotReplaced {
    /// Another was there than the one that was seen: this one, or none.
    Changed(Option<Claim>),
    /// The ledger can't be asked. The write may still have been made.
    Fault(StoreFault),
}

/// A call to SQS, or one entry of it, that failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct CallFault(pub String);
