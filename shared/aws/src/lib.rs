//! The ports of `comeback-flow` on SQS and Lambda.
//!
//! Nothing is decided here: a call is put into AWS's words, its answer into ours. The clients are
//! built once and keep their connections between invocations.

mod clients;
mod functions;
mod queues;

pub use clients::connect;
pub use functions::LambdaFunctions;
pub use queues::SqsQueues;
