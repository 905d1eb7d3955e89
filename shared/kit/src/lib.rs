//! What the author of a Lambda function adds to it.
//!
//! An event that fails comes back later, by the retry loop outside. Before that, what passes in seconds is
//! ridden out inside the function ([`retry`], by what [`transient`] says of errors); and what must not be done
//! twice is done once, however often its event comes ([`idempotency`]). A function under the layer
//! [`Unwrap`] sees its own payload only, in its envelope or bare, and what it fails with becomes a
//! [`Failure`] that the retry loop understands. What its tests need is in [`testing`].
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
//! // Over a `DynamoStore`, or `Memory` in a test.
//! async fn handle<S: Store>(
//!     event: LambdaEvent<String>,
//!     once: &Idempotency<S>,
//!     retry: &Retry,
//! ) -> Result<(), Failure> {
//!     let LambdaEvent { payload: order, context } = event;
//!     let deadline = Deadline::of(&context)?;
//!     // Once, however often the event comes. It is not tried again at once: after a time-out nobody knows
//!     // whether it was done.
//!     let request = Request::of_event(&order, &context)?;
//!     let charge = once.run(&request, |_lease| charge(&order)).await?;
//!     // A receipt may come twice.
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

mod ask;
mod cause;
mod clock;
mod envelope;
mod failure;
pub mod idempotency;
mod layer;
pub mod retry;
pub mod testing;
mod text;
pub mod transient;

/// A time as this crate tells it, in UTC. A `SystemTime` becomes one.
///
/// ```
/// use std::time::SystemTime;
/// use comeback::Timestamp;
///
/// let epoch = Timestamp::from(SystemTime::UNIX_EPOCH);
/// assert_eq!(epoch.to_rfc3339(), "1970-01-01T00:00:00+00:00");
/// ```
pub use comeback_core::Timestamp;

pub use ask::{PermanentFailure, RetryAfter};
pub use envelope::{Enveloped, Retried, idempotency_key};
pub use failure::Failure;
pub use layer::{Received, Unwrap, Unwrapped};
