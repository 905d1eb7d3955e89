//! The SQS event that a function receives for a batch of messages, in Lambda's format.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::Serialize;

use super::{mapping::Mapping, poller::Held};
use crate::model::{
    arn::REGION,
    payload::Payload,
    sqs::{AttributeValue, Received},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    message_id: &'a str,
    receipt_handle: &'a str,
    body: &'a str,
    attributes: SystemAttributes<'a>,
    message_attributes: BTreeMap<&'a str, MessageAttribute<'a>>,
    /// `None` omits the member, `Some(None)` writes `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    md5_of_message_attributes: Option<Option<String>>,
    md5_of_body: String,
    event_source: &'static str,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: &'a str,
    aws_region: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SystemAttributes<'a> {
    approximate_receive_count: String,
    #[serde(rename = "AWSTraceHeader", skip_serializing_if = "Option::is_none")]
    trace_header: Option<&'a str>,
    sent_timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_group_id: Option<&'a str>,
    sender_id: &'a str,
    approximate_first_receive_timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter_queue_source_arn: Option<&'a str>,
}

/// A message attribute set by the sender. SQS has never implemented list values, so both lists are always empty.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageAttribute<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
    string_list_values: [&'static str; 0],
    binary_list_values: [&'static str; 0],
    data_type: &'a str,
}

/// The element of `Records` for one message.
pub(crate) fn record(message: &Received, mapping: &Mapping) -> Payload {
    let attributes = message.attributes.iter().map(|(name, attribute)| {
        let (string_value, binary_value) = match &attribute.value {
            AttributeValue::String(text) => (Some(text.as_str()), None),
            AttributeValue::Binary(bytes) => (None, Some(BASE64.encode(bytes))),
        };
        let attribute = MessageAttribute {
            string_value,
            binary_value,
            string_list_values: [],
            binary_list_values: [],
            data_type: &attribute.data_type,
        };
        (name.as_str(), attribute)
    });
    let md5 = message.md5_of_attributes().map(|md5| md5.to_string());
    let record = Record {
        message_id: &message.message_id,
        receipt_handle: &message.receipt_handle,
        body: &message.body,
        attributes: SystemAttributes {
            approximate_receive_count: message.receive_count.to_string(),
            trace_header: message.trace_header.as_deref(),
            sent_timestamp: message.sent_at.timestamp_millis().to_string(),
            message_group_id: message.group_id.as_deref(),
            sender_id: &message.sender_id,
            approximate_first_receive_timestamp: message
                .first_received_at
                .timestamp_millis()
                .to_string(),
            dead_letter_queue_source_arn: message.dead_letter_source.as_deref(),
        },
        message_attributes: attributes.collect(),
        // AWS does the same: for a message without attributes, the member is `null` if the mapping has a batching
        // window, and absent otherwise.
        md5_of_message_attributes: (md5.is_some() || !mapping.window.is_zero()).then_some(md5),
        md5_of_body: message.md5_of_body().to_string(),
        event_source: "aws:sqs",
        event_source_arn: &mapping.event_source_arn,
        aws_region: REGION,
    };
    Payload::of(&record)
}

pub(crate) fn event(batch: &[Held]) -> Payload {
    let records: Vec<&Payload> = batch.iter().map(|held| &held.record).collect();
    Payload::of(&BTreeMap::from([("Records", records)]))
}
