//! A batch of messages: the SQS event that a function receives, and what its response says.
//!
//! Without `ReportBatchItemFailures`, a successful run means that all messages succeeded. With it, the response
//! may list the messages that failed. An invalid response fails the whole batch, so that no message is lost.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use super::{mapping::Mapping, poller::Held};
use crate::model::{
    arn::REGION,
    payload::Payload,
    sqs::{AttributeValue, Received},
};

/// The element of `Records` for one message. SQS has never implemented list values, so both lists are always empty.
pub(crate) fn record(message: &Received, mapping: &Mapping) -> Payload {
    let attributes = message.attributes.iter().map(|(name, attribute)| {
        let mut members = json!({
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": attribute.data_type,
        });
        match &attribute.value {
            AttributeValue::String(text) => members["stringValue"] = json!(text),
            AttributeValue::Binary(bytes) => members["binaryValue"] = BASE64.encode(bytes).into(),
        }
        (name, members)
    });
    let mut record = json!({
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": message.system_attributes().collect::<BTreeMap<_, _>>(),
        "messageAttributes": attributes.collect::<BTreeMap<_, _>>(),
        "md5OfBody": message.md5_of_body(),
        "eventSource": "aws:sqs",
        "eventSourceARN": mapping.event_source_arn,
        "awsRegion": REGION,
    });
    // AWS does the same: for a message without attributes, the member is `null` if the mapping has a batching window,
    // and absent otherwise.
    let md5 = message.md5_of_attributes();
    if md5.is_some() || !mapping.window.is_zero() {
        record["md5OfMessageAttributes"] = json!(md5);
    }
    Payload::of(&record)
}

pub(crate) fn event(batch: &[Held]) -> Payload {
    let records: Vec<&Payload> = batch.iter().map(|held| &held.record).collect();
    Payload::of(&BTreeMap::from([("Records", records)]))
}

/// The ids of the messages that failed, according to the response for a batch. `None` if the response is invalid, so
/// that all messages failed. `has` tells whether a message id belongs to the batch.
pub fn failures(response: &[u8], has: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    // Runtimes encode "no return value" in different ways. An empty body counts as `null`, and on AWS an empty
    // list does too.
    if response.is_empty() {
        return Some(Vec::new());
    }
    let failures = match serde_json::from_slice(response).ok()? {
        Value::Null => return Some(Vec::new()),
        Value::String(text) if text.is_empty() => return Some(Vec::new()),
        Value::Array(items) if items.is_empty() => return Some(Vec::new()),
        Value::Object(mut members) => members.remove("batchItemFailures").unwrap_or_default(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
    };
    if failures.is_null() {
        return Some(Vec::new());
    }
    let ids: Option<Vec<String>> = failures.as_array()?.iter().map(identifier).collect();
    ids.filter(|ids| ids.iter().all(|id| has(id)))
}

/// The message id in an item of the response, or `None` if the item is malformed.
fn identifier(item: &Value) -> Option<String> {
    item.get("itemIdentifier")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(response: &str) -> Option<Vec<String>> {
        failures(response.as_bytes(), |id| ["a", "b"].contains(&id))
    }

    #[test]
    fn an_invalid_response_fails_the_whole_batch() {
        for response in [
            "{",
            "true",
            "7",
            "\"done\"",
            "[1]",
            r#"{"batchItemFailures":"a"}"#,
            r#"{"batchItemFailures":{}}"#,
            r#"{"batchItemFailures":["a"]}"#,
            r#"{"batchItemFailures":[["a"]]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"c"}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"c"}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
            r#"{"batchItemFailures":[{"ItemIdentifier":"a"}]}"#,
            r#"{"batchItemFailures":[{}]}"#,
            r#"{"batchItemFailures":[null]}"#,
        ] {
            assert_eq!(failed(response), None, "{response}");
        }
    }
}
