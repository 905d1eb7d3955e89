//! What the author of a Lambda function adds to it.

mod clock;
pub mod retry;
pub mod transient;
