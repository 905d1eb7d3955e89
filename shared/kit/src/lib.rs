//! What the author of a Lambda function adds to it.

mod clock;
mod envelope;
mod failure;
pub mod idempotency;
mod layer;
pub mod retry;
pub mod transient;

pub use comeback_core::Timestamp;
pub use envelope::{Enveloped, Retried, idempotency_key};
pub use failure::{Failure, PermanentFailure, RetryAfter};
pub use layer::{Unwrap, Unwrapped};
