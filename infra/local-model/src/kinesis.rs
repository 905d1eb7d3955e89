//! Kinesis data streams, as far as an event source mapping needs them: one shard, whose records keep their order.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use comeback_core::Timestamp;
use serde::Deserialize;

use super::{ACCOUNT, REGION, is_name};

/// The only shard of each stream.
pub const SHARD: &str = "shardId-000000000000";

const NAME_MAX: usize = 128;

/// The longest partition key, in characters, and the largest record, in bytes: AWS's limits.
const KEY_MAX: usize = 256;
const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// How many records a stream keeps. The oldest go first, where AWS keeps them for a day.
const RECORDS_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KinesisError {
    #[error("Stream {0} under account {ACCOUNT} not found.")]
    ResourceNotFound(String),
    #[error("Stream {0} under account {ACCOUNT} already exists.")]
    ResourceInUse(String),
    #[error("{0}")]
    Invalid(String),
    #[error("This local cloud does not have {0}.")]
    UnknownOperation(String),
}

impl KinesisError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::ResourceNotFound(_) => "ResourceNotFoundException",
            Self::ResourceInUse(_) => "ResourceInUseException",
            Self::Invalid(_) => "InvalidArgumentException",
            Self::UnknownOperation(_) => "UnknownOperationException",
        }
    }
}

/// A record to put. Its data is base64, as in requests and in events.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Entry {
    data: String,
    partition_key: String,
}

#[derive(Clone, Debug)]
pub struct Record {
    pub sequence_number: String,
    pub partition_key: String,
    pub data: String,
    pub arrived_at: Timestamp,
}

#[derive(Debug)]
pub struct Stream {
    pub arn: Arc<str>,
    pub created: Timestamp,
    records: BTreeMap<u64, Record>,
    /// The number of the next record.
    next: u64,
}

#[derive(Debug, Default)]
pub struct Kinesis(BTreeMap<Arc<str>, Stream>);

impl Kinesis {
    pub fn create(&mut self, now: Timestamp, name: &str) -> Result<(), KinesisError> {
        if !is_name(&name.replace('.', "_"), NAME_MAX) {
            return Err(KinesisError::Invalid(format!(
                "StreamName must be 1 to {NAME_MAX} letters, digits, dots, hyphens and underscores, got {name:?}"
            )));
        }
        if self.0.contains_key(name) {
            return Err(KinesisError::ResourceInUse(name.to_owned()));
        }
        let arn = format!("{}{name}", arn_prefix()).into();
        let stream = Stream { arn, created: now, records: BTreeMap::new(), next: 0 };
        self.0.insert(name.into(), stream);
        Ok(())
    }

    pub fn delete(&mut self, name: &str) -> Result<(), KinesisError> {
        self.0.remove(name).map(drop).ok_or_else(|| not_found(name))
    }

    pub fn get(&self, name: &str) -> Result<&Stream, KinesisError> {
        self.0.get(name).ok_or_else(|| not_found(name))
    }

    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    /// Puts a record at the end of a stream. Returns its sequence number.
    pub fn put(
        &mut self,
        now: Timestamp,
        name: &str,
        entry: Entry,
    ) -> Result<String, KinesisError> {
        let Entry { data, partition_key } = entry;
        let stream = self.0.get_mut(name).ok_or_else(|| not_found(name))?;
        let bytes = BASE64.decode(&data).map_err(|error| {
            KinesisError::Invalid(format!("Data must be base64, and is not: {error}"))
        })?;
        if bytes.len() > RECORD_BYTES_MAX {
            let why =
                format!("Data must have at most {RECORD_BYTES_MAX} bytes, got {}", bytes.len());
            return Err(KinesisError::Invalid(why));
        }
        if !(1..=KEY_MAX).contains(&partition_key.chars().count()) {
            let why = format!("PartitionKey must have 1 to {KEY_MAX} characters");
            return Err(KinesisError::Invalid(why));
        }
        // A number of AWS's length, and in the order of the records.
        let sequence_number = format!("4959{:052}", stream.next);
        let record = Record {
            sequence_number: sequence_number.clone(),
            partition_key,
            data,
            arrived_at: now,
        };
        stream.records.insert(stream.next, record);
        stream.next += 1;
        if stream.records.len() > RECORDS_MAX {
            stream.records.pop_first();
        }
        Ok(sequence_number)
    }
}

impl Stream {
    /// The numbers of the records that it keeps.
    pub(crate) fn numbers(&self) -> Range<u64> {
        let first = self.records.first_key_value().map_or(self.next, |(number, _)| *number);
        first..self.next
    }

    pub(crate) fn records(&self, numbers: Range<u64>) -> impl Iterator<Item = &Record> {
        self.records.range(numbers).map(|(_, record)| record)
    }
}

/// The stream's name in `arn`, or `None` if it is not the ARN of a stream in this account and region.
pub fn stream_name(arn: &str) -> Option<&str> {
    let name = arn.strip_prefix(&*arn_prefix())?;
    (!name.is_empty() && !name.contains(['/', ':'])).then_some(name)
}

fn arn_prefix() -> String {
    format!("arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/")
}

fn not_found(name: &str) -> KinesisError {
    KinesisError::ResourceNotFound(name.to_owned())
}
