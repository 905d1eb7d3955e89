//! The rules of the local cloud. They are pure: every method takes the current time as an argument.
//!
//! [`Cloud`] joins the two services as AWS does: Lambda's destinations and dead-letter queues send to SQS, and event
//! source mappings poll it. Its caller must call [`Cloud::advance`] after every request and at the time of
//! [`Cloud::next_wakeup`], carry out the runs that `advance` returns, and pass each outcome to [`Cloud::finish`].

pub(crate) mod arn;
mod cloud;
mod delivery;
pub(crate) mod emf;
pub(crate) mod ids;
mod invocation;
pub mod lambda;
pub(crate) mod log_filter;
pub mod payload;
mod polling;
pub mod sqs;
#[cfg(test)]
mod tests;

pub use arn::{ACCOUNT, REGION, queue_arn};
pub use cloud::{Cloud, Waiting};
pub use invocation::{Invocation, InvocationType, Invoked};
