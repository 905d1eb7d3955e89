//! The retry handler: its program, and the ports of `comeback-flow` on SQS, Lambda, DynamoDB, S3 and
//! CloudWatch.
//!
//! There are no decisions here, only the translation of calls and answers. The clients are built once and keep their
//! connections between invocations.

mod clients;
mod counts;
mod functions;
mod ledger;
mod program;
mod queues;
mod records;
mod s3;
mod signed;

pub use clients::connect;
pub use functions::LambdaFunctions;
pub use ledger::DynamoLedger;
pub use program::run;
pub use queues::SqsQueues;
pub use records::S3Records;
pub use s3::S3;
pub use signed::{Failed, NoAnswer, Refused, Signer, Unsigned, endpoint};
