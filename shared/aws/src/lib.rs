//! The ports of `comeback-flow` on SQS, Lambda and DynamoDB.
//!
//! Nothing is decided here: a call is put into AWS's words, its answer into ours. The clients are
//! built once and keep their connections between invocations.

mod clients;
mod functions;
mod ledger;
mod queues;

pub use clients::connect;
pub use functions::LambdaFunctions;
pub use ledger::DynamoLedger;
pub use queues::SqsQueues;
