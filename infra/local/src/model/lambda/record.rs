//! The messages that Lambda sends at the end of an asynchronous invocation: a record to a destination, and a dead
//! letter to the function's own dead-letter queue.
//!
//! The record's members are in AWS's order, and its payloads keep their bytes.

use chrono::SecondsFormat;
use comeback_core::Timestamp;
use serde::Serialize;

use super::{asynchronous::QueuedEvent, name, run::Response};
use crate::model::{
    payload::Payload,
    sqs::{MessageAttribute, MessageAttributes, is_valid_char},
};

/// The longest error message in a dead letter's attribute. The rest is cut off.
const ERROR_MESSAGE_BYTES_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Success,
    RetriesExhausted,
    /// The event is too old, or would be too old at its next run.
    EventAgeExceeded,
    ZeroReservedConcurrency,
    /// It is in a recursive loop. AWS doesn't document this value; it is the name of the error of a synchronous
    /// invocation.
    RecursiveInvocation,
}

impl Condition {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::RetriesExhausted => "RetriesExhausted",
            Self::EventAgeExceeded => "EventAgeExceeded",
            Self::ZeroReservedConcurrency => "ZeroReservedConcurrency",
            Self::RecursiveInvocation => "RecursiveInvocation",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    version: &'static str,
    timestamp: String,
    request_context: RequestContext<'a>,
    request_payload: &'a Payload,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_context: Option<ResponseContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_payload: Option<Payload>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext<'a> {
    request_id: &'a str,
    function_arn: String,
    condition: &'static str,
    approximate_invoke_count: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseContext {
    status_code: u16,
    executed_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_error: Option<&'static str>,
}

/// The record of an event that has ended. Without a response, it has no response members.
pub(crate) fn record(
    now: Timestamp,
    event: &QueuedEvent,
    condition: Condition,
    response: Option<&Response>,
) -> Payload {
    Payload::of(&Record {
        version: "1.0",
        timestamp: now.to_rfc3339_opts(SecondsFormat::Millis, true),
        request_context: RequestContext {
            request_id: &event.request_id,
            function_arn: name::qualified_arn(&event.function),
            condition: condition.name(),
            approximate_invoke_count: event.runs,
        },
        request_payload: &event.payload,
        response_context: response.map(|response| ResponseContext {
            status_code: 200,
            executed_version: name::LATEST,
            function_error: response.is_error().then_some("Unhandled"),
        }),
        response_payload: response.map(|response| Payload::of_response(&response.payload)),
    })
}

/// The attributes of a dead letter: the request id, an HTTP status and the error's message. AWS doesn't document the
/// last two for an event that never ran. Here they are the status of a synchronous invocation, and the condition's
/// name.
pub(crate) fn dead_letter_attributes(
    event: &QueuedEvent,
    condition: Condition,
    response: Option<&Response>,
) -> MessageAttributes {
    let (code, message) = match response {
        Some(response) => (200, response.error_message()),
        None if condition == Condition::RecursiveInvocation => (400, condition.name().to_owned()),
        None => (429, condition.name().to_owned()),
    };
    let mut attributes = MessageAttributes::from([
        ("RequestID".to_owned(), MessageAttribute::string(event.request_id.as_ref())),
        ("ErrorCode".to_owned(), MessageAttribute::number(code)),
    ]);
    let message = attribute_text(&message);
    if !message.is_empty() {
        // SQS refuses attributes with an empty value.
        attributes.insert("ErrorMessage".to_owned(), MessageAttribute::string(message));
    }
    attributes
}

/// `message` without the characters that SQS refuses, and truncated.
fn attribute_text(message: &str) -> String {
    let mut text: String = message.chars().filter(|character| is_valid_char(*character)).collect();
    text.truncate(text.floor_char_boundary(ERROR_MESSAGE_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{journal::Ending, model::lambda::asynchronous::tests};

    fn event(runs: u32) -> QueuedEvent {
        tests::event(br#"{"z":1.0,"big":12345678901234567890123}"#, runs, 0)
    }

    fn failed(payload: &str) -> Response {
        Response { payload: payload.into(), ending: Ending::Failed }
    }

    #[test]
    fn a_record_has_awss_members_in_awss_order_and_the_payloads_bytes() {
        let now = Timestamp::from_timestamp_millis(1_573_755_365_568).unwrap();
        let response = failed(r#"{"errorMessage":"no","n":1.50}"#);
        let record = record(now, &event(3), Condition::RetriesExhausted, Some(&response));
        assert_eq!(
            record.get(),
            concat!(
                r#"{"version":"1.0","timestamp":"2019-11-14T18:16:05.568Z","requestContext":{"#,
                r#""requestId":"e4b46cbf","functionArn":"#,
                r#""arn:aws:lambda:us-east-1:000000000000:function:my-function:$LATEST","#,
                r#""condition":"RetriesExhausted","approximateInvokeCount":3},"#,
                r#""requestPayload":{"z":1.0,"big":12345678901234567890123},"#,
                r#""responseContext":{"statusCode":200,"executedVersion":"$LATEST","#,
                r#""functionError":"Unhandled"},"responsePayload":{"errorMessage":"no","n":1.50}}"#,
            )
        );
    }

    #[test]
    fn a_dead_letter_has_the_first_kilobyte_that_an_attribute_can_hold() {
        let long = format!("\u{1}{}é", "x".repeat(ERROR_MESSAGE_BYTES_MAX - 1));
        for (message, expected) in [
            ("plain", "plain"),
            ("a\u{0}b\u{fffe}c\u{ffff}d\u{1f}e\tf", "abcde\tf"),
            (long.as_str(), &"x".repeat(ERROR_MESSAGE_BYTES_MAX - 1)),
        ] {
            let response = failed(&serde_json::json!({ "errorMessage": message }).to_string());
            let attributes =
                dead_letter_attributes(&event(1), Condition::RetriesExhausted, Some(&response));
            assert_eq!(attributes["ErrorCode"], MessageAttribute::number(200));
            assert_eq!(attributes["ErrorMessage"], MessageAttribute::string(expected));
        }
        let throttled = dead_letter_attributes(&event(0), Condition::EventAgeExceeded, None);
        assert_eq!(throttled["ErrorCode"], MessageAttribute::number(429));
        assert_eq!(throttled["ErrorMessage"], MessageAttribute::string("EventAgeExceeded"));
    }
}
