//! Batches of streams, as event source mappings give them to functions. Written from AWS's pages, and not from the code
//! that reads them.

use std::ops::RangeInclusive;

use crate::choices::{Choices, Of};

/// The maximum payload of an asynchronous invocation, and of a part of a batch, in bytes.
pub const INVOCATION_MAX: usize = 1_048_576;
const PART_MAX: usize = 786_432;

/// The sizes of records in large batches. No batch of these is so near the limit that an envelope decides.
const SIZES: [usize; 4] = [1, 300 << 10, 700 << 10, 1_100 << 10];

/// The source of a batch, and the member of a record that names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    Kinesis,
    DynamoDb,
    /// Nobody knows how a function names its records.
    Kafka,
}

/// A batch of records, with the text before, between and after them. White space between the records and the brackets
/// around them is not kept in a part.
#[derive(Clone)]
pub struct Batch {
    pub source: Source,
    before: &'static str,
    between: &'static str,
    after: &'static str,
    records: Vec<Record>,
    /// The places of the records of each part, if it is too large for one invocation.
    parts: Vec<RangeInclusive<usize>>,
}

#[derive(Clone)]
struct Record {
    id: String,
    text: String,
}

impl Source {
    /// The member of a mapping's record that describes the batch.
    pub fn info(self) -> &'static str {
        match self {
            Self::Kinesis => "KinesisBatchInfo",
            Self::DynamoDb => "DDBStreamBatchInfo",
            Self::Kafka => "KafkaBatchInfo",
        }
    }

    fn record(self, id: &str, data: &str) -> String {
        match self {
            Self::Kinesis => format!(
                r#"{{"eventSource":"aws:kinesis" ,"kinesis":{{"sequenceNumber":"{id}","data":"{data}"}},"at":1.0}}"#
            ),
            Self::DynamoDb => format!(
                r#"{{"eventSource":"aws:dynamodb","dynamodb":{{"Keys":{{"n":{{"N":"1.0"}}}},"SequenceNumber":"{id}","New":"{data}"}}}}"#
            ),
            Self::Kafka => format!(r#"{{"topic":"orders", "offset":{id},"value":"{data}"}}"#),
        }
    }
}

impl Batch {
    /// A batch of a few records. Those of another number are others.
    pub fn draw(number: usize, is_large: bool, of: Of, choices: &mut Choices) -> Self {
        let sources = [Source::Kinesis, Source::DynamoDb, Source::Kafka];
        let source = choices.pick(of, "source of the batch", &sources);
        let (before, between, after) = match source {
            Source::Kinesis => (r#"{"Records":["#, ",", "]}"),
            Source::DynamoDb => (r#"{ "window": 1e2, "Records" : ["#, " , ", "] }"),
            Source::Kafka => {
                (r#"{"eventSource":"aws:kafka","records":{"orders-0":["#, ", ", r#"]},"v":1.0}"#)
            }
        };
        let count = choices.number(of, "records of the batch", 1..=5);
        let mut record = |nth| {
            let id = format!("{}", 1_000_000 + 100 * number as u64 + nth);
            let size = if is_large { choices.pick(of, "bytes of the record", &SIZES) } else { 0 };
            let data = format!("\u{fc}\\u00fc{}", "x".repeat(size));
            Record { text: source.record(&id, &data), id }
        };
        let records = (0..count).map(&mut record).collect();
        let batch = Self { source, before, between, after, records, parts: Vec::new() };
        let parts = if batch.text().len() > INVOCATION_MAX { batch.divided() } else { Vec::new() };
        Self { parts: if parts.len() > 1 { parts } else { Vec::new() }, ..batch }
    }

    /// Parts of whole records in order, each as long as it may be. One record may be longer than that.
    fn divided(&self) -> Vec<RangeInclusive<usize>> {
        let mut parts: Vec<RangeInclusive<usize>> = Vec::new();
        for nth in 0..self.records.len() {
            match parts.last_mut() {
                Some(part) if self.part(&(*part.start()..=nth)).text().len() <= PART_MAX => {
                    *part = *part.start()..=nth;
                }
                _ => parts.push(nth..=nth),
            }
        }
        parts
    }

    pub fn parts(&self) -> &[RangeInclusive<usize>] {
        &self.parts
    }

    /// The event with these records only.
    pub fn part(&self, places: &RangeInclusive<usize>) -> Self {
        let records = self.records[places.clone()].to_vec();
        Self { records, parts: Vec::new(), ..self.clone() }
    }

    /// The event with all of its records.
    pub fn text(&self) -> String {
        let records: Vec<_> = self.records.iter().map(|record| record.text.as_str()).collect();
        format!("{}{}{}", self.before, records.join(self.between), self.after)
    }

    /// Whether all of its records are in the record of a mapping.
    pub fn is_in(&self, record: &str) -> bool {
        let is_there = |text: &str| {
            let escaped = serde_json::Value::from(text).to_string();
            record.contains(text) || record.contains(escaped.trim_matches('"'))
        };
        self.records.iter().all(|record| is_there(&record.text))
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The name of a record, for an answer.
    pub fn id(&self, nth: usize) -> &str {
        &self.records[nth].id
    }

    /// The records that are to be retried if the function names these: all from the first of them on, and all if it
    /// names anything else.
    pub fn rest_from(&self, named: &[&str]) -> Self {
        let place = |id: &&str| self.records.iter().position(|record| record.id == **id);
        let places: Option<Vec<_>> = named.iter().map(place).collect();
        let places = places.filter(|_| self.source != Source::Kafka);
        let first = places.and_then(|places| places.into_iter().min()).unwrap_or_default();
        self.part(&(first..=self.records.len() - 1))
    }
}
