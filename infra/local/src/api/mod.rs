//! The services' APIs: they read requests, make steps on the model, and write AWS's answers.

mod body;
pub(crate) mod lambda;
pub(crate) mod sqs;
