//! A record of a Lambda event, as the message that it is.

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Timestamp,
    arn::queue_url,
    record::{Message, MessageAttributes},
};

/// What `comeback-core` needs of a record. SQS always says how often a message was received and when
/// it was sent; where an emulator doesn't, it is taken for the first receive.
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

/// The trace that the failed invocation belonged to.
pub(crate) fn trace_header(record: &SqsMessage) -> Option<&str> {
    record.attributes.get("AWSTraceHeader").map(String::as_str)
}

/// The URL of the queue that the record came from.
pub(crate) fn source_url(record: &SqsMessage) -> Option<String> {
    queue_url(record.event_source_arn.as_deref()?)
}
