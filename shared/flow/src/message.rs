//! Converts a record of a Lambda event to the message that the core reads, and to those that are sent again.

use std::borrow::Cow;

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use comeback_core::{
    Timestamp,
    arn::{queue_name, queue_url},
    attribute::DATA_TYPE,
    record::{FAILED_AT, Failure, MESSAGE_ID, Message, MessageAttributes, SOURCE_QUEUE_ARN},
};

use crate::ports::{Attribute, Resent, Value};

/// The parts of a record that `comeback-core` needs. SQS always sends the receive count. Some emulators don't; that
/// counts as the first receive.
pub(crate) fn view(record: &SqsMessage) -> Message<'_> {
    let number = |name: &str| record.attributes.get(name)?.parse::<i64>().ok();
    let time = |name: &str| number(name).and_then(Timestamp::from_timestamp_millis);
    let moved_from = record.attributes.get("DeadLetterQueueSourceArn").map(String::as_str);
    let mut attributes = MessageAttributes::default();
    for (name, attribute) in &record.message_attributes {
        let value = match name.as_str() {
            "RequestID" => &mut attributes.lambda_request_id,
            "ErrorMessage" => &mut attributes.error_message,
            "Reason" => &mut attributes.reason,
            "FunctionArn" => &mut attributes.function_arn,
            "RequestId" => &mut attributes.request_id,
            "ErrorType" => &mut attributes.error_type,
            FAILED_AT => &mut attributes.failed_at,
            MESSAGE_ID => &mut attributes.message_id,
            SOURCE_QUEUE_ARN => &mut attributes.source_queue_arn,
            _ => continue,
        };
        *value = attribute.string_value.as_deref();
    }
    if moved_from.or(attributes.source_queue_arn).is_some() {
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
    let mut attributes: Vec<_> = received(record).filter(|it| !is_carried(&it.name)).collect();
    attributes.extend(carried.into_iter().map(|(name, value)| Attribute::text(name, value)));
    let body = record.body.as_deref().unwrap_or_default();
    let trace_header = trace_header(record);
    Resent { body, attributes, trace_header, group_id: group_id(record), delay }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use comeback_core::{
        arn::{FunctionArn, Home},
        decision::{Decision, Judgement, decide},
        settings::{Rules, Settings},
        time::later,
    };
    use proptest::prelude::*;

    use super::*;

    const ORDERS: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders";
    const SENT_AT: i64 = 1_769_947_200_000;

    fn home() -> Home {
        FunctionArn::parse(ORDERS).unwrap().home()
    }

    fn rules() -> Rules {
        let settings = Settings::from_lookup(|name| {
            let value = match name {
                "DEAD_LETTER_QUEUE_URL" => "https://sqs.us-east-1.amazonaws.com/1/dead",
                "DLQ_TARGET" => "orders",
                "BASE_BACKOFF" => "1h",
                _ => return None,
            };
            Some(value.to_owned())
        });
        settings.unwrap().rules
    }

    fn attribute(value: &str) -> SqsMessageAttribute {
        let mut attribute = SqsMessageAttribute::default();
        attribute.data_type = Some("String".into());
        attribute.string_value = Some(value.into());
        attribute
    }

    fn received(id: &str, sent_at: i64, body: &str) -> SqsMessage {
        let mut record = SqsMessage::default();
        record.message_id = Some(id.into());
        record.body = Some(body.into());
        record.attributes.insert("SentTimestamp".into(), sent_at.to_string());
        record.attributes.insert("AWSTraceHeader".into(), "Root=1".into());
        record
    }

    /// A message of each form of a function's failure, and one whose record has neither request id nor time.
    fn forms() -> Vec<SqsMessage> {
        let record = |rest: &str| {
            format!(
                r#"{{"requestContext":{{"functionArn":"{ORDERS}"{rest}}},"requestPayload":[1.0]}}"#
            )
        };
        let whole = record(r#","requestId":"r-1""#).replacen(
            '{',
            r#"{"timestamp":"2026-02-01T11:59:59.123456Z","#,
            1,
        );
        let future = whole.replace("2026-02-01T11", "2036-02-01T11");
        let notification =
            serde_json::json!({ "Type": "Notification", "Message": whole }).to_string();
        let event = format!(
            r#"{{"detail-type":"Lambda Function Invocation Result - Failure","detail":{whole}}}"#
        );
        let bodies = [whole, future, notification, event, record("")];
        let mut forms: Vec<_> =
            bodies.iter().map(|body| received("first", SENT_AT, body)).collect();
        let mut bare = received("first", SENT_AT, "[1.0]");
        for (name, value) in [("RequestID", "r-2"), ("ErrorMessage", "boom")] {
            bare.message_attributes.insert(name.into(), attribute(value));
        }
        let mut redriven = received("first", SENT_AT, "[1.0]");
        for (name, value) in [
            ("Reason", "max_age_exceeded"),
            ("FunctionArn", ORDERS),
            ("RequestId", "r-3"),
            ("Attempts", "7"),
            ("FirstFailureAt", "2026-01-01T00:00:00.000Z"),
            ("LastFailureAt", "2026-01-02T00:00:00.000Z"),
            ("ErrorType", "Down"),
            ("ErrorMessage", "boom"),
        ] {
            redriven.message_attributes.insert(name.into(), attribute(value));
        }
        forms.extend([bare, redriven]);
        forms
    }

    /// The message as SQS delivers it after it was sent again.
    fn hop(record: &SqsMessage, nth: i64, sent_at: i64) -> SqsMessage {
        let message = view(record);
        let failure =
            comeback_core::record::read(&message, rules().dlq_target.unwrap().at(&home()).as_ref());
        let delayed = resent(record, &message, failure.as_ref().unwrap(), 900);
        let mut next = received(&format!("hop {nth}"), sent_at, delayed.body);
        for Attribute { name, value, .. } in &delayed.attributes {
            let Value::Text(text) = value else { panic!("{name} is no text") };
            next.message_attributes.insert(name.to_string(), attribute(text));
        }
        assert!(next.message_attributes.len() <= 10, "SQS accepts no more");
        assert_eq!(delayed.trace_header, Some("Root=1"));
        next
    }

    fn judged<'a>(record: &'a SqsMessage, now: i64) -> Judgement<'a> {
        let now = Timestamp::from_timestamp_millis(now).unwrap();
        decide(view(record), &home(), &rules(), now)
    }

    proptest! {
        #[test]
        fn an_event_stays_the_same_however_often_its_message_is_sent_again(
            hops in prop::collection::vec(0_i64..1_000_000, 1..6)
        ) {
            for first in forms() {
                let expected = judged(&first, SENT_AT);
                prop_assert!(matches!(expected.decision, Decision::Settle(_)), "it waits: {expected:?}");
                let (failure, schedule) = (expected.failure.clone().unwrap(), expected.schedule);
                let (mut record, mut now) = (first.clone(), SENT_AT);
                for (nth, passed) in (1..).zip(&hops) {
                    now += passed;
                    record = hop(&record, nth, now);
                    let again = judged(&record, now);
                    prop_assert_eq!(again.schedule, schedule);
                    let other = again.failure.clone().unwrap();
                    prop_assert_eq!(other.failed_at, failure.failed_at);
                    prop_assert_eq!(other.claim_key(), failure.claim_key());
                    prop_assert_eq!(&other.request_id, &failure.request_id);
                    let due = later(schedule.unwrap().due, Duration::ZERO).timestamp_millis() + 1;
                    let envelope = judged(&record, due).envelope().unwrap().to_json();
                    prop_assert_eq!(envelope, judged(&first, due).envelope().unwrap().to_json());
                }
            }
        }

        #[test]
        fn a_forged_failed_at_never_makes_an_event_younger(
            carried in "[0-9TZ:.-]{0,24}|20[0-9]{2}-0[1-9]-1[0-9]T00:00:00Z"
        ) {
            for mut record in forms() {
                let true_time = judged(&record, SENT_AT).failure.unwrap().failed_at;
                record.message_attributes.insert(FAILED_AT.into(), attribute(&carried));
                let failed_at = judged(&record, SENT_AT).failure.unwrap().failed_at;
                prop_assert!(failed_at <= true_time);
            }
        }
    }
}
