//! A mapping of a stream: what has a function process its batches, and what becomes of one that it can't process.

use crate::account::names::last;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stream {
    pub uuid: String,
    /// The ARN of the Kinesis stream, the DynamoDB stream, or the Kafka cluster.
    pub source: String,
    /// The ARN of the function, which may be qualified.
    pub function: String,
    /// The ARN of its on-failure destination.
    pub on_failure: Option<String>,
    /// Whether a batch that fails is retried until its records expire.
    pub is_endless: bool,
    /// Whether a batch that fails is split.
    pub is_split: bool,
    pub reports_failures: bool,
}

impl Stream {
    /// Whether an ARN is that of a stream or a cluster.
    pub fn is_source(arn: &str) -> bool {
        [":kinesis:", ":dynamodb:", ":kafka:"].iter().any(|it| arn.contains(it))
    }

    /// Its shards stand still while a batch is retried, and batches can be split.
    pub fn has_shards(&self) -> bool {
        !self.source.contains(":kafka:")
    }

    /// The name of the function that processes it.
    pub fn consumer(&self) -> &str {
        self.function.split(':').nth(6).unwrap_or(&self.function)
    }

    /// The alias or version of the function, if the mapping names one.
    pub fn qualifier(&self) -> Option<&str> {
        self.function.split(':').nth(7)
    }

    /// Its name, such as `stream/clicks` or `table/orders/stream/…`.
    pub fn name(&self) -> &str {
        last(self.source.split("/stream/").next().unwrap_or(&self.source))
    }
}
