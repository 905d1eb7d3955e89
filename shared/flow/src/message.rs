//! Converts a record of a Lambda event to the message that the core reads, and to those that are sent again.

use std::borrow::Cow;

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use comeback_core::{
    Timestamp,
    arn::{queue_name, queue_url},
    attribute::{ATTRIBUTES_MAX, DATA_TYPE},
    batch::Part,
    dead_letter::HISTORY,
    record::{BATCH_PART, DELIVERY_HISTORY, Failure, MESSAGE_ID, Message, MessageAttributes},
};

use crate::ports::{Attribute, Resent, Value};

/// The parts of a record that `comeback-core` needs. SQS always sends the receive count. Some emulators don't; that
/// counts as the first receive.
pub(crate) fn view(record: &SqsMessage) -> Message<'_> {
    let number = |name: &str| record.attributes.get(name)?.parse::<i64>().ok();
    let time = |name: &str| number(name).and_then(Timestamp::from_timestamp_millis);
    let moved_from = record.attributes.get("DeadLetterQueueSourceArn").map(String::as_str);
    let named = record.message_attributes.iter();
    let mut attributes =
        MessageAttributes::named(named.map(|(name, it)| (&**name, it.string_value.as_deref())));
    if moved_from.or(attributes.source_queue_arn).or(attributes.delivery.target_arn).is_some() {
        attributes.all = received(record).collect();
    }
    Message {
        id: record.message_id.as_deref().unwrap_or_default(),
        queue: record.event_source_arn.as_deref().and_then(queue_name),
        body: record.body.as_deref().unwrap_or_default(),
        receive_count: number("ApproximateReceiveCount")
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
        sent_at: time("SentTimestamp"),
        first_received_at: time("ApproximateFirstReceiveTimestamp"),
        moved_from,
        attributes,
    }
}

pub(crate) fn trace_header(record: &SqsMessage) -> Option<&str> {
    record.attributes.get("AWSTraceHeader").map(String::as_str)
}

pub(crate) fn group_id(record: &SqsMessage) -> Option<&str> {
    record.attributes.get("MessageGroupId").map(String::as_str)
}

/// The queue that a record came from: its URL in the settings, or its ARN in the record.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Source<'e> {
    Url(&'e str),
    Arn(&'e str),
}

impl<'e> Source<'e> {
    /// The source of a record, or `None` if neither names it.
    pub(crate) fn of(record: &'e SqsMessage, set: Option<&'e str>) -> Option<Self> {
        set.map(Self::Url).or_else(|| record.event_source_arn.as_deref().map(Self::Arn))
    }

    /// The queue's URL, or `None` if the ARN is not that of a queue.
    pub(crate) fn url(self) -> Option<Cow<'e, str>> {
        match self {
            Self::Url(url) => Some(url.into()),
            Self::Arn(arn) => queue_url(arn).map(Cow::Owned),
        }
    }
}

/// The record as a message to send to its own queue again. Everything about its failure stays the same.
pub(crate) fn resent<'a>(
    record: &'a SqsMessage,
    message: &Message<'_>,
    failure: &Failure<'_>,
    delay: u32,
) -> Resent<'a> {
    let carried = failure.carried(message);
    let is_carried = |name: &str| carried.iter().any(|(other, _)| *other == name);
    let mut resent = replacing(record, record.body.as_deref().unwrap_or_default());
    resent.attributes.retain(|it| !is_carried(&it.name));
    make_room(&mut resent.attributes, carried.len());
    resent.attributes.extend(carried.into_iter().map(|(name, value)| Attribute::text(name, value)));
    Resent { delay, ..resent }
}

/// A message to send to the record's own queue instead of it, with the same attributes.
pub(crate) fn replacing<'a>(record: &'a SqsMessage, body: &'a str) -> Resent<'a> {
    let (attributes, trace_header) = (received(record).collect(), trace_header(record));
    Resent { body, attributes, trace_header, group_id: group_id(record), delay: 0 }
}

/// A message about this part of a batch, to send to the record's own queue instead of it. Each part has a life of its
/// own, so none has the first message's id.
pub(crate) fn about_part<'a>(record: &'a SqsMessage, body: &'a str, part: Part) -> Resent<'a> {
    let mut message = replacing(record, body);
    message.attributes.retain(|it| ![BATCH_PART, MESSAGE_ID].contains(&&*it.name));
    make_room(&mut message.attributes, 1);
    message.attributes.push(Attribute::text(BATCH_PART, part.to_string()));
    message
}

/// Drops attributes that nothing reads, if there would be too many with so many more. A dead letter that was moved back
/// may have too many, and so may an event of a schedule.
fn make_room(attributes: &mut Vec<Attribute<'_>>, added: usize) {
    if attributes.len() + added > ATTRIBUTES_MAX {
        let names = [&HISTORY[..], &DELIVERY_HISTORY].concat();
        attributes.retain(|it| !names.contains(&&*it.name));
    }
}

fn received(record: &SqsMessage) -> impl Iterator<Item = Attribute<'_>> {
    record.message_attributes.iter().map(|(name, attribute)| attribute_of(name, attribute))
}

fn attribute_of<'a>(name: &'a str, attribute: &'a SqsMessageAttribute) -> Attribute<'a> {
    let value = match &attribute.binary_value {
        Some(bytes) => Value::Binary((&*bytes.0).into()),
        None => Value::Text(attribute.string_value.as_deref().unwrap_or_default().into()),
    };
    let data_type = attribute.data_type.as_deref().unwrap_or(DATA_TYPE);
    Attribute { name: name.into(), data_type: data_type.into(), value }
}
