//! Reads a record of a Lambda event as an SQS message.

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Timestamp,
    arn::queue_url,
    record::{Message, MessageAttributes},
};

/// The parts of a record that `comeback-core` needs. SQS always tells the receive count; without one, as from some
/// emulators, it counts as the first receive.
pub(crate) fn view(record: &SqsMessage) -> Message<'_> {
    let number = |name: &str| record.attributes.get(name)?.parse::<i64>().ok();
    let attribute = |name: &str| record.message_attributes.get(name)?.string_value.as_deref();
    Message {
        id: record.message_id.as_deref().unwrap_or_default(),
        body: record.body.as_deref().unwrap_or_default(),
        receive_count: number("ApproximateReceiveCount")
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
        sent_at: number("SentTimestamp").and_then(Timestamp::from_timestamp_millis),
        attributes: MessageAttributes {
            lambda_request_id: attribute("RequestID"),
            error_message: attribute("ErrorMessage"),
            reason: attribute("Reason"),
            function_arn: attribute("FunctionArn"),
            request_id: attribute("RequestId"),
            error_type: attribute("ErrorType"),
        },
    }
}

/// The trace of the failed invocation.
pub(crate) fn trace_header(record: &SqsMessage) -> Option<&str> {
    record.attributes.get("AWSTraceHeader").map(String::as_str)
}

/// The URL of the queue that the record came from.
pub(crate) fn source_url(record: &SqsMessage) -> Option<String> {
    queue_url(record.event_source_arn.as_deref()?)
}
