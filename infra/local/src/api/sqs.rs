//! SQS's API in the protocol AWS JSON 1.0.
//!
//! A request names its operation in a header and has its parameters as JSON. Each operation is a function of the
//! parameters and the model. The operations are in [`queues`], [`send`], [`receive`] and [`mod@batch`];
//! errors are in [`fault`]. All of this is a function of the request, the model and the time. Only [`http`] handles
//! HTTP and long polls.

mod batch;
mod fault;
mod http;
pub(crate) mod query;
mod queues;
mod receive;
mod send;

use comeback_core::Timestamp;
pub(crate) use http::handle;
use serde::{Serialize, de::DeserializeOwned};

use crate::model::{
    ACCOUNT,
    sqs::{QueueName, Sqs, SqsError},
};

/// The context of a request, apart from its operation and parameters.
struct Caller<'a> {
    /// The host in the request, which queue URLs repeat.
    host: &'a str,
    /// The trace header of the request, which is also that of the messages that it sends.
    trace_header: Option<&'a str>,
}

impl Caller<'_> {
    fn queue_url(&self, name: &QueueName) -> String {
        format!("http://{}/{ACCOUNT}/{name}", self.host)
    }
}

/// The model, the time and the caller of an operation.
struct Call<'a> {
    sqs: &'a mut Sqs,
    now: Timestamp,
    caller: &'a Caller<'a>,
}

fn answer(action: &str, body: &[u8], call: Call<'_>) -> Result<Vec<u8>, SqsError> {
    match action {
        "CancelMessageMoveTask" => perform(body, call, queues::cancel_move_task),
        "ChangeMessageVisibility" => perform(body, call, batch::change_one),
        "ChangeMessageVisibilityBatch" => perform(body, call, batch::change_batch),
        "CreateQueue" => perform(body, call, queues::create),
        "DeleteMessage" => perform(body, call, batch::delete_one),
        "DeleteMessageBatch" => perform(body, call, batch::delete_batch),
        "DeleteQueue" => perform(body, call, queues::delete),
        "GetQueueAttributes" => perform(body, call, queues::get_attributes),
        "GetQueueUrl" => perform(body, call, queues::get_url),
        "ListDeadLetterSourceQueues" => perform(body, call, queues::list_sources),
        "ListMessageMoveTasks" => perform(body, call, queues::list_move_tasks),
        "ListQueueTags" => perform(body, call, queues::list_tags),
        "ListQueues" => perform(body, call, queues::list),
        "PurgeQueue" => perform(body, call, queues::purge),
        "ReceiveMessage" => perform(body, call, receive::receive),
        "SendMessage" => perform(body, call, send::send),
        "SendMessageBatch" => perform(body, call, send::send_batch),
        "SetQueueAttributes" => perform(body, call, queues::set_attributes),
        "StartMessageMoveTask" => perform(body, call, queues::start_move_task),
        "TagQueue" => perform(body, call, queues::tag),
        "UntagQueue" => perform(body, call, queues::untag),
        "AddPermission" | "RemovePermission" => {
            Err(SqsError::UnsupportedOperation(format!("This local cloud does not have {action}.")))
        }
        _ => Err(SqsError::UnknownOperation(action.to_owned())),
    }
}

fn perform<R: DeserializeOwned, A: Serialize>(
    body: &[u8],
    call: Call<'_>,
    operation: impl FnOnce(R, Call<'_>) -> Result<A, SqsError>,
) -> Result<Vec<u8>, SqsError> {
    write(&operation(read(body)?, call)?)
}

fn read<R: DeserializeOwned>(body: &[u8]) -> Result<R, SqsError> {
    serde_json::from_slice(body).map_err(|error| SqsError::Serialization(error.to_string()))
}

fn write(answer: &impl Serialize) -> Result<Vec<u8>, SqsError> {
    serde_json::to_vec(answer).map_err(|error| SqsError::Serialization(error.to_string()))
}

fn up_to(max: usize, name: &'static str, value: i64) -> Result<usize, SqsError> {
    usize::try_from(value).ok().filter(|value| (1..=max).contains(value)).ok_or_else(|| {
        SqsError::invalid(name, value, format!("Must be between 1 and {max}, if provided."))
    })
}

fn required<'a>(name: &'static str, value: &'a Option<String>) -> Result<&'a str, SqsError> {
    let value = value.as_deref().filter(|value| !value.is_empty());
    value.ok_or(SqsError::MissingParameter(name))
}

/// The queue name in a URL. As on AWS, a bare name works as well.
fn queue_name(url: &Option<String>) -> Result<&str, SqsError> {
    let url = required("QueueUrl", url)?;
    let Some((_, address)) = url.split_once("://") else { return Ok(url) };
    let mut parts = address.split('/').skip(1);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(ACCOUNT), Some(name), None) => Ok(name),
        _ => Err(SqsError::QueueDoesNotExist),
    }
}

/// The format of requests and responses. The conformance tests check each operation and error against AWS.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use comeback_core::time;
    use serde_json::{Value, json};

    use super::*;

    const URL: &str = "http://127.0.0.1:4566/000000000000/q";

    /// Performs an operation at this second on a client's behalf whose requests have a trace header.
    fn perform(sqs: &mut Sqs, second: u64, action: &str, body: &[u8]) -> Result<Value, SqsError> {
        let caller = Caller { host: "127.0.0.1:4566", trace_header: Some("Root=1-request") };
        let now = time::later(Timestamp::UNIX_EPOCH, Duration::from_secs(second));
        let body = answer(action, body, Call { sqs, now, caller: &caller })?;
        Ok(serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn a_message_is_returned_with_its_digests_and_attributes() {
        let mut sqs = Sqs::new(7);
        let mut ok = |second, action: &str, body: Value| {
            perform(&mut sqs, second, action, body.to_string().as_bytes()).unwrap()
        };
        assert_eq!(ok(0, "CreateQueue", json!({"QueueName": "q"})), json!({"QueueUrl": URL}));
        let attributes = json!({
            "Hello": {"DataType": "String", "StringValue": "There"},
            "General": {"DataType": "String", "StringValue": "Kenobi"},
            "bytes": {"DataType": "Binary", "BinaryValue": "AP8="},
        });
        let own = json!({"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-own"}});
        let entries = json!([
            {"Id": "1", "MessageBody": "other"},
            {"Id": "2", "MessageBody": "msg", "DelaySeconds": 5, "MessageGroupId": "tenant",
                "MessageAttributes": attributes, "MessageSystemAttributes": own},
            {"Id": "3", "MessageBody": "\u{1}"},
        ]);
        let sent = ok(1, "SendMessageBatch", json!({"QueueUrl": URL, "Entries": entries}));
        assert_eq!(sent["Failed"][0]["Code"], "InvalidMessageContents");
        let sent = &sent["Successful"][1];
        let receive = json!({
            "QueueUrl": "q", "VisibilityTimeout": 30,
            "AttributeNames": ["All"], "MessageAttributeNames": ["All"],
        });
        let other = &ok(2, "ReceiveMessage", receive.clone())["Messages"][0];
        assert_eq!(other["Attributes"]["AWSTraceHeader"], "Root=1-request");
        let first = &ok(7, "ReceiveMessage", receive.clone())["Messages"][0];
        let change = json!({
            "QueueUrl": URL, "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0,
        });
        assert_eq!(ok(8, "ChangeMessageVisibility", change), json!({}));
        let second = &ok(9, "ReceiveMessage", receive)["Messages"][0];
        assert_ne!(second["ReceiptHandle"], first["ReceiptHandle"]);
        let expected = json!({
            "MessageId": sent["MessageId"],
            "ReceiptHandle": second["ReceiptHandle"],
            "MD5OfBody": "6e2baaf3b97dbeef01c0043275f9a0e7",
            "Body": "msg",
            "Attributes": {
                "AWSTraceHeader": "Root=1-own",
                "ApproximateFirstReceiveTimestamp": "7000",
                "ApproximateReceiveCount": "2",
                "MessageGroupId": "tenant",
                "SenderId": "000000000000",
                "SentTimestamp": "1000",
            },
            "MD5OfMessageAttributes": sent["MD5OfMessageAttributes"],
            "MessageAttributes": attributes,
        });
        assert_eq!(*second, expected);
    }

    #[test]
    fn malformed_json_is_a_serialization_exception() {
        for body in [
            &b"[]"[..],
            b"\xff",
            br#"{"QueueUrl": 7}"#,
            br#"{"QueueUrl": "q", "MessageBody": "x", "DelaySeconds": "1"}"#,
            br#"{"QueueUrl": "q", "MessageBody": "\ud800"}"#,
            br#"{"QueueUrl": "q", "MessageAttributes": {"a": {"BinaryValue": "?"}}}"#,
        ] {
            let error = perform(&mut Sqs::new(7), 0, "SendMessage", body).unwrap_err();
            let expected = "com.amazon.coral.service#SerializationException";
            assert_eq!(fault::name(&error).shape, expected, "{}", String::from_utf8_lossy(body));
        }
    }
}
