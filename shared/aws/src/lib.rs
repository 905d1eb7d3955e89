//! The ports of `comeback-flow` on SQS, Lambda, DynamoDB and CloudWatch.
//!
//! Nothing is decided here; calls and answers are only translated. The clients are built once and keep their
//! connections between invocations.

mod clients;
mod functions;
mod ledger;
mod metrics;
mod queues;

pub use clients::connect;
pub use functions::LambdaFunctions;
pub use ledger::DynamoLedger;
pub use queues::SqsQueues;
