//! The batches of streams, as their functions get them.
//!
//! | source | event | identifier of a record |
//! |---|---|---|
//! | Kinesis | `{"Records":[…]}` | `kinesis.sequenceNumber` |
//! | DynamoDB | `{"Records":[…]}` | `dynamodb.SequenceNumber` |
//! | Kafka | `{"records":{"TOPIC-PARTITION":[…], …}, …}` | not documented |
//!
//! A batch may be larger than an asynchronous invocation, and a function may have processed only some of its records.
//! So it can be cut to a [`Part`]: an event of the same shape, with whole records, and with all other members. Nothing
//! is encoded again, so each record keeps its bytes.
//!
//! Records are counted in the order of the text. So a part is the same whoever counts.

use std::{collections::HashSet, fmt};

use serde_json::value::RawValue;

use crate::json::{self, Object, for_each_element, for_each_member};

/// The largest part of a batch, unless a single record is larger. What Lambda writes about a part, if it fails, or if
/// its function names records that have failed, has the part and the function's answer. A queue takes 1 MiB.
pub(crate) const PART_MAX: usize = 768 << 10;

/// Some records of a batch, by their places in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    first: usize,
    last: usize,
}

impl Part {
    /// Reads what [`fmt::Display`] has written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let part = Self { first: first.parse().ok()?, last: last.parse().ok()? };
        (part.first <= part.last && part.to_string() == text).then_some(part)
    }

    fn has(self, place: usize) -> bool {
        (self.first..=self.last).contains(&place)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A batch of records.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    text: &'a str,
    /// The list of its records, or for Kafka an object of lists.
    records: &'a str,
    source: Source,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Source {
    Kinesis,
    DynamoDb,
    Kafka,
    /// A service whose batches no event source mapping of a stream has.
    Other,
}

/// What a function has not processed of a batch.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Unprocessed {
    All,
    Only(Part),
}

impl<'a> Batch<'a> {
    /// Reads an event that is a batch.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let (mut list, mut lists, mut source) = (None, None, None);
        for_each_member(text, |name, value| match name {
            b"Records" => list = Some(value),
            b"records" => lists = Some(value),
            b"eventSource" => source = json::text(value),
            _ => {}
        })?;
        if let Some(list) = list {
            let mut first = None;
            for_each_element(list.get(), |record| {
                first.get_or_insert(record);
            })?;
            let source = Object::with(first?.get(), &["eventSource"]).and_then(|record| {
                Some(match &*record.text("eventSource")? {
                    "aws:kinesis" => Source::Kinesis,
                    "aws:dynamodb" => Source::DynamoDb,
                    _ => Source::Other,
                })
            });
            return Some(Self {
                text,
                records: list.get(),
                source: source.unwrap_or(Source::Other),
            });
        }
        let is_kafka = source.is_some_and(|it| ["aws:kafka", "SelfManagedKafka"].contains(&&*it));
        let batch = Self { text, records: lists?.get(), source: Source::Kafka };
        let mut count = 0;
        batch.for_each(|_, _, _| count += 1)?;
        (is_kafka && count > 0).then_some(batch)
    }

    /// Whether its source is a stream, so that its function may name the records that it has not processed.
    pub(crate) fn is_of_stream(&self) -> bool {
        self.source != Source::Other
    }

    /// Calls `each` with the place of each record, the text before its list that names it, and the record.
    fn for_each(&self, mut each: impl FnMut(usize, &'a str, &'a RawValue)) -> Option<()> {
        let mut place = 0;
        let mut of_list = |name, list: &'a str| {
            for_each_element(list, |record| {
                each(place, name, record);
                place += 1;
            })
        };
        if self.source != Source::Kafka {
            return of_list("", self.records);
        }
        let (mut end, mut is_read) = (0, true);
        for_each_member(self.records, |_, list| {
            let start = offset(self.records, list.get());
            let name = &self.records[end..start];
            end = start + list.get().len();
            is_read &= of_list(&name[name.find('"').unwrap_or_default()..], list.get()).is_some();
        })?;
        is_read.then_some(())
    }

    /// All records in parts, in order. Each is no larger than this, unless it has one record only.
    pub(crate) fn parts(&self, size_max: usize) -> Vec<Part> {
        let braces = if self.source == Source::Kafka { "{}".len() } else { 0 };
        let around = self.text.len() - self.records.len() + braces;
        let mut parts: Vec<Part> = Vec::new();
        let (mut size, mut before) = (0, ("", 0));
        let read = self.for_each(|place, name, record| {
            let end = offset(self.text, record.get()) + record.get().len();
            let alone = name.len() + "[]".len() + record.get().len();
            let (list, last_end) = before;
            let added = if std::ptr::eq(list, name) { end - last_end } else { alone + ",".len() };
            match parts.last_mut().filter(|_| size + added <= size_max) {
                Some(part) => {
                    part.last = place;
                    size += added;
                }
                None => {
                    parts.push(Part { first: place, last: place });
                    size = around + alone;
                }
            }
            before = (name, end);
        });
        read.map_or_else(Vec::new, |()| parts)
    }

    /// The event with these records only, or `None` if the batch doesn't have them.
    pub(crate) fn cut(&self, part: Part) -> Option<String> {
        // The text before each list, and where its records begin and end.
        let mut lists: Vec<(&str, usize, usize)> = Vec::new();
        let mut count = 0;
        self.for_each(|place, name, record| {
            count = place + 1;
            if part.has(place) {
                let start = offset(self.text, record.get());
                let end = start + record.get().len();
                match lists.last_mut().filter(|(list, ..)| std::ptr::eq(*list, name)) {
                    Some((_, _, last_end)) => *last_end = end,
                    None => lists.push((name, start, end)),
                }
            }
        })?;
        let start = offset(self.text, self.records);
        let (before, after) = (&self.text[..start], &self.text[start + self.records.len()..]);
        let lists =
            lists.iter().map(|&(name, start, end)| format!("{name}[{}]", &self.text[start..end]));
        let records = match self.source {
            Source::Kafka => format!("{{{}}}", lists.collect::<Vec<_>>().join(",")),
            Source::Kinesis | Source::DynamoDb | Source::Other => lists.collect(),
        };
        (part.last < count).then(|| format!("{before}{records}{after}"))
    }

    /// The records that its function has not processed, by what it answered, or `None` if it has processed all. As an
    /// event source mapping does, this takes all records from the first named one on: many functions stop there. The
    /// same holds for a list that names anything else, which means all records.
    pub(crate) fn unprocessed(&self, answer: &str) -> Option<Unprocessed> {
        let mut named = None;
        for_each_member(answer, |name, value| {
            if name == b"batchItemFailures" {
                named = Some(value);
            }
        })?;
        let named = named.filter(|it| it.get() != "null")?;
        let (mut ids, mut count) = (HashSet::new(), 0);
        let list = for_each_element(named.get(), |failure| {
            let id = Object::read(failure.get())
                .and_then(|it| Some(it.text("itemIdentifier")?.into_owned()));
            ids.insert(id.unwrap_or_default());
            count += 1;
        });
        if list.is_some() && count == 0 {
            return None;
        }
        let (mut first, mut count) = (None, 0);
        self.for_each(|place, _, record| {
            count = place + 1;
            if self.id(record).is_some_and(|id| ids.remove(&id)) {
                first.get_or_insert(place);
            }
        })?;
        let first = first.filter(|&first| first > 0 && ids.is_empty() && list.is_some());
        let only = first.map(|first| Unprocessed::Only(Part { first, last: count - 1 }));
        Some(only.unwrap_or(Unprocessed::All))
    }

    /// The name that a function gives to this record in its answer. AWS documents none for Kafka.
    fn id(&self, record: &RawValue) -> Option<String> {
        let (member, name) = match self.source {
            Source::Kinesis => ("kinesis", "sequenceNumber"),
            Source::DynamoDb => ("dynamodb", "SequenceNumber"),
            Source::Kafka | Source::Other => return None,
        };
        Some(Object::read(record.get())?.object(member)?.text(name)?.into_owned())
    }
}

/// Where a part of a text begins in it.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

#[cfg(test)]
mod tests;
