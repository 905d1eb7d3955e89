//! Batches of streams, as event source mappings give them to functions. Written from AWS's pages, and not from the code
//! that reads them.

use crate::choices::{Choices, Of};

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
    /// A batch of a few small records. Those of another number are others.
    pub fn draw(number: usize, of: Of, choices: &mut Choices) -> Self {
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
        let record = |nth| {
            let id = format!("{}", 1_000_000 + 100 * number as u64 + nth);
            Record { text: source.record(&id, "\u{fc}\\u00fc"), id }
        };
        Self { source, before, between, after, records: (0..count).map(record).collect() }
    }

    /// The event with all of its records.
    pub fn text(&self) -> String {
        let records: Vec<_> = self.records.iter().map(|record| record.text.as_str()).collect();
        format!("{}{}{}", self.before, records.join(self.between), self.after)
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
        Self { records: self.records[first..].to_vec(), ..self.clone() }
    }
}
