//! Retries, idempotency and retry envelopes for AWS Lambda functions.
//!
//! Comeback's retry loop invokes a function again, later, with each event that failed. This crate is for the code
//! inside the function. [`retry`] retries faults that pass within seconds, and [`transient`] classifies errors as
//! transient or permanent. [`idempotency`] runs an operation once, however often its event arrives. The layer
//! [`Unwrap`] removes the envelope of a retried event, and turns the function's error into a [`Failure`], which
//! the retry loop understands. [`testing`] has helpers for tests.
//!
//! ```no_run
//! use comeback::{
//!     Failure, Unwrap,
//!     idempotency::{Idempotency, Memory, Request, Store},
//!     retry::{Deadline, Policy, Retry, Stopped},
//! };
//! use lambda_runtime::{Error, LambdaEvent, run, service_fn, tower::Layer};
//!
//! # async fn charge(_: &str) -> Result<String, std::io::Error> { Ok("ch_1".to_owned()) }
//! # async fn send_receipt(_: &str) -> Result<(), std::io::Error> { Ok(()) }
//! // `S` is a `DynamoStore`, or `Memory` in a test.
//! async fn handle<S: Store>(
//!     event: LambdaEvent<String>,
//!     once: &Idempotency<S>,
//!     retry: &Retry,
//! ) -> Result<(), Failure> {
//!     let LambdaEvent { payload: order, context } = event;
//!     let deadline = Deadline::of(&context)?;
//!     // Runs once, however often the event arrives. Not retried here: after a timeout, the charge may have
//!     // been made.
//!     let request = Request::of_event(&order, &context)?;
//!     let charge = once.run(&request, |_lease| charge(&order)).await?;
//!     // Retried: sending a receipt twice does no harm.
//!     let call = retry.operation("receipt").until(deadline);
//!     call.run(|| send_receipt(&charge)).await.map_err(Stopped::into_failure)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Error> {
//!     let once = Idempotency::new("charge", Memory::new())?;
//!     let retry = Retry::new(Policy::OUTSIDE_API);
//!     run(Unwrap::new().layer(service_fn(|event| handle(event, &once, &retry)))).await
//! }
//! ```
#![warn(missing_docs)]

mod envelope;
mod failure;
pub mod idempotency;
mod layer;
pub mod retry;
pub mod testing;
pub mod transient;

/// A time in UTC, which can be converted from a `SystemTime`.
pub use comeback_core::Timestamp;

pub use envelope::{Enveloped, Retried, idempotency_key};
pub use failure::{Failure, PermanentFailure, RetryAfter};
pub use layer::{Received, Unwrap, Unwrapped};

/// The only place where this crate reads the system clock.
#[allow(clippy::disallowed_methods, reason = "everything else takes the time as an argument")]
fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}
