//! Tests the adapters with raw HTTP: the requests that they send, and how they interpret AWS's answers.
#![allow(clippy::unwrap_used, reason = "tests")]

mod ledger;
mod metrics;

use std::time::Duration;

use comeback_core::{
    dead_letter::DeadLetter,
    fault::{FaultKind, InvokeFault},
    reason::Reason,
    record::{Message, MessageAttributes},
};
use comeback_flow::ports::{
    Attribute, Functions, Invocation, Queues, Resent, Value, VisibilityChange,
};
use moto::config;
use retry_handler::{LambdaFunctions, SqsQueues};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Starts a server that gives this answer to one request. Returns its endpoint, and a task with the request.
async fn answering(answer: String) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_whole(&request) {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (endpoint, asked)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn response(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

async fn invoke(endpoint: &str, trace_header: Option<&str>) -> Result<(), InvokeFault> {
    let functions = LambdaFunctions::new(&config(endpoint), false);
    let function = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
    let payload = r#"{"a":1.0}"#.to_owned();
    let tenant_id = Some("blue @1".into());
    let execution_name = Some("3b72eb0b-1".into());
    let invocation = Invocation { function, payload, tenant_id, execution_name, trace_header };
    functions.invoke(invocation).await
}

fn queues(endpoint: &str) -> SqsQueues {
    let client = aws_sdk_sqs::Client::new(&config(endpoint));
    SqsQueues::new(client, "https://sqs/1/dead".to_owned())
}

#[tokio::test]
async fn an_invocation_is_asynchronous_with_the_tenant_the_execution_and_the_trace_of_its_message()
{
    let (endpoint, asked) = answering(response(202, "", "")).await;
    let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=a87bd80c:3";
    invoke(&endpoint, Some(trace)).await.unwrap();
    let asked = asked.await.unwrap();
    let path = "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aus-east-1%3A123456789012%3Afunction%3Aorders%3A%24LATEST/invocations";
    assert!(asked.starts_with(&format!("POST {path} ")), "{asked}");
    assert!(asked.contains("x-amz-invocation-type: Event\r\n"), "{asked}");
    assert!(asked.contains(&format!("x-amzn-trace-id: {trace}\r\n")), "{asked}");
    assert!(asked.contains("x-amz-tenant-id: blue @1\r\n"), "{asked}");
    assert!(asked.contains("x-amz-durable-execution-name: 3b72eb0b-1\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\n{\"a\":1.0}"), "{asked}");
}

#[tokio::test]
async fn a_trace_that_is_no_header_value_is_dropped() {
    let (endpoint, asked) = answering(response(202, "", "")).await;
    invoke(&endpoint, Some("Root=1\r\nX-Evil: yes")).await.unwrap();
    assert!(!asked.await.unwrap().contains("x-amzn-trace-id"));
}

#[tokio::test]
async fn every_answer_of_lambda_is_taken_for_what_it_is() {
    let transient = |seconds: Option<u64>| FaultKind::Transient {
        retry_after: seconds.map(Duration::from_secs),
    };
    let table = [
        (429, "TooManyRequestsException", "", transient(None)),
        (429, "TooManyRequestsException", "retry-after: 7\r\n", transient(Some(7))),
        (500, "ServiceException", "", transient(None)),
        (503, "", "", transient(None)),
        (502, "ResourceNotReadyException", "", transient(None)),
        (502, "KMSDisabledException", "", FaultKind::Configuration),
        (403, "AccessDeniedException", "", FaultKind::Configuration),
        (404, "ResourceNotFoundException", "", FaultKind::Configuration),
        (413, "RequestTooLargeException", "", FaultKind::Refused(Reason::PayloadTooLarge)),
        (400, "InvalidRequestContentException", "", FaultKind::Refused(Reason::InvokeRejected)),
        (400, "RecursiveInvocationException", "", FaultKind::Refused(Reason::RecursionStopped)),
    ];
    for (status, code, headers, kind) in table {
        let headers = format!("x-amzn-errortype: {code}\r\n{headers}");
        let (endpoint, _asked) = answering(response(status, &headers, r#"{"message":"no"}"#)).await;
        assert_eq!(invoke(&endpoint, None).await.unwrap_err().kind, kind, "{status} {code}");
    }
}

#[tokio::test]
async fn an_endpoint_that_nobody_listens_at_is_a_transient_fault() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let fault = invoke(&endpoint, None).await.unwrap_err();
    assert_eq!((fault.kind, fault.code), (FaultKind::Transient { retry_after: None }, None));
}

#[tokio::test]
async fn each_visibility_change_has_its_own_answer() {
    let body = r#"{"Successful":[{"Id":"0"}],"Failed":[{"Id":"1","Code":"ReceiptHandleIsInvalid","SenderFault":true,"Message":"stale"}]}"#;
    let (endpoint, asked) =
        answering(response(200, "content-type: application/x-amz-json-1.0\r\n", body)).await;
    let change = |receipt_handle, timeout| VisibilityChange { receipt_handle, timeout };
    let changes = [change("a", 7), change("b", 43_140)];
    let answers = queues(&endpoint).change_visibility("https://sqs/1/retry", &changes).await;
    assert!(answers[0].is_ok());
    assert_eq!(answers[1].clone().unwrap_err().0, "ReceiptHandleIsInvalid: stale");
    let asked = asked.await.unwrap();
    assert!(asked.contains("AmazonSQS.ChangeMessageVisibilityBatch"), "{asked}");
    assert!(asked.contains(r#""ReceiptHandle":"b","VisibilityTimeout":43140"#), "{asked}");
}

#[tokio::test]
async fn a_message_that_is_sent_again_keeps_its_trace() {
    let body = r#"{"Successful":[{"Id":"0","MessageId":"m","MD5OfMessageBody":"x"}],"Failed":[]}"#;
    let (endpoint, asked) =
        answering(response(200, "content-type: application/x-amz-json-1.0\r\n", body)).await;
    let trace_header = Some("Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=a87bd80c:3");
    let delayed =
        Resent { body: "{}", attributes: Vec::new(), trace_header, group_id: None, delay: 900 };
    let answers = queues(&endpoint).send_again("https://sqs/1/retry", &[&delayed]).await;
    assert_eq!(answers, [Ok(())]);
    let asked: String = asked.await.unwrap();
    let (_, request) = asked.split_once("\r\n\r\n").unwrap();
    let request: serde_json::Value = serde_json::from_str(request).unwrap();
    let expected = serde_json::json!({
        "QueueUrl": "https://sqs/1/retry",
        "Entries": [{
            "Id": "0",
            "MessageBody": "{}",
            "DelaySeconds": 900,
            "MessageSystemAttributes": {
                "AWSTraceHeader": { "DataType": "String", "StringValue": trace_header },
            },
        }],
    });
    assert_eq!(request, expected);
}

/// The request body of a send of this message, and the answers.
async fn send(
    message: &Resent<'_>,
    answer: String,
) -> (serde_json::Value, Vec<Result<(), InvokeFault>>) {
    let (endpoint, asked) = answering(answer).await;
    let answers = queues(&endpoint).send_again("https://sqs/1/imports", &[message, message]).await;
    let asked: String = asked.await.unwrap();
    let (_, request) = asked.split_once("\r\n\r\n").unwrap();
    (serde_json::from_str(request).unwrap(), answers)
}

const JSON: &str = "content-type: application/x-amz-json-1.0\r\n";

#[tokio::test]
async fn a_message_that_is_sent_back_keeps_its_attributes_byte_for_byte_and_is_not_delayed() {
    let attribute = |name: &'static str, data_type: &'static str, value| Attribute {
        name: name.into(),
        data_type: data_type.into(),
        value,
    };
    let attributes = vec![
        attribute("tenant", "String.x", Value::Text("bl\u{e9}\t\"".into())),
        attribute("size", "Number", Value::Text("007.10".into())),
        attribute("key", "Binary.png", Value::Binary([0, 255][..].into())),
    ];
    let trace_header = Some("Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=a87bd80c:3");
    let group_id = Some("tenant-7");
    let message =
        Resent { body: "no JSON \u{1f600}", attributes, trace_header, group_id, delay: 0 };
    let body = r#"{"Successful":[{"Id":"0","MessageId":"m","MD5OfMessageBody":"x"}],"Failed":[{"Id":"1","Code":"InternalError","SenderFault":false,"Message":"no"}]}"#;
    let (request, answers) = send(&message, response(200, JSON, body)).await;
    let transient = FaultKind::Transient { retry_after: None };
    assert_eq!(answers[0], Ok(()));
    assert_eq!(answers[1].as_ref().unwrap_err().kind, transient);
    let entry = serde_json::json!({
        "Id": "0",
        "MessageBody": "no JSON \u{1f600}",
        "MessageGroupId": "tenant-7",
        "DelaySeconds": 0,
        "MessageAttributes": {
            "tenant": { "DataType": "String.x", "StringValue": "bl\u{e9}\t\"" },
            "size": { "DataType": "Number", "StringValue": "007.10" },
            "key": { "DataType": "Binary.png", "BinaryValue": "AP8=" },
        },
        "MessageSystemAttributes": {
            "AWSTraceHeader": { "DataType": "String", "StringValue": trace_header },
        },
    });
    assert_eq!(
        (&request["QueueUrl"], &request["Entries"][0]),
        (&"https://sqs/1/imports".into(), &entry)
    );
}

#[tokio::test]
async fn every_answer_of_sqs_for_a_send_is_taken_for_what_it_is() {
    let transient = FaultKind::Transient { retry_after: None };
    let message =
        Resent { body: "x", attributes: Vec::new(), trace_header: None, group_id: None, delay: 0 };
    for (status, code, query_code, kind) in [
        (
            400,
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
            FaultKind::Configuration,
        ),
        (403, "AccessDeniedException", "AccessDenied", FaultKind::Configuration),
        (400, "KmsDisabled", "KMS.DisabledException", FaultKind::Configuration),
        (400, "KmsThrottled", "KMS.ThrottlingException", transient),
        (400, "RequestThrottled", "RequestThrottled", transient),
        (503, "ServiceUnavailable", "ServiceUnavailable", transient),
    ] {
        let headers = format!("{JSON}x-amzn-query-error: {query_code};Sender\r\n");
        let body = format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"no"}}"#);
        let (_, answers) = send(&message, response(status, &headers, &body)).await;
        assert_eq!(answers.len(), 2);
        for answer in answers {
            assert_eq!(answer.unwrap_err().kind, kind, "{code}");
        }
    }
    let long =
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.";
    let body = format!(
        r#"{{"Successful":[],"Failed":[{{"Id":"0","Code":"InvalidParameterValue","SenderFault":true,"Message":"{long}"}}]}}"#
    );
    let (_, answers) = send(&message, response(200, JSON, &body)).await;
    let kinds: Vec<_> = answers.into_iter().map(|answer| answer.unwrap_err().kind).collect();
    assert_eq!(kinds, [FaultKind::Refused(Reason::PayloadTooLarge), transient], "silence passes");
}

#[tokio::test]
async fn a_call_that_fails_fails_for_every_entry() {
    let refusal = response(
        400,
        "x-amzn-query-error: AWS.SimpleQueueService.NonExistentQueue;Sender\r\n",
        r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"gone"}"#,
    );
    let (endpoint, asked) = answering(refusal).await;
    let attributes = MessageAttributes::default();
    let message = Message {
        id: "m",
        queue: None,
        body: "no JSON",
        receive_count: 1,
        sent_at: None,
        first_received_at: None,
        moved_from: None,
        attributes,
    };
    let letter = DeadLetter::unreadable(&message, "expected a record");
    let answers = queues(&endpoint).send_dead_letters(&[&letter, &letter]).await;
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert!(answer.unwrap_err().0.contains("gone"));
    }
    let asked = asked.await.unwrap();
    assert!(
        asked.contains(r#""Reason":{"StringValue":"unreadable","DataType":"String"}"#)
            || asked.contains(r#""Reason":{"DataType":"String","StringValue":"unreadable"}"#),
        "{asked}"
    );
}
