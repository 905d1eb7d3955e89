//! Visibility changes, messages that are sent again, and dead letters.

use aws_sdk_sqs::{Client, types::Message};
use comeback_core::{
    dead_letter::DeadLetter,
    fault::{FaultKind, InvokeFault},
    reason::Reason,
};
use comeback_flow::ports::{Attribute, CallFault, Queues, Resent, Value, VisibilityChange};
use retry_handler::SqsQueues;

use super::{JSON, answering, of_moto, response};

/// A queue that is used as the retry queue and as the dead-letter queue, and the adapter on it.
struct Queue {
    client: Client,
    url: String,
    adapter: SqsQueues,
}

impl Queue {
    async fn new(name: &str) -> Self {
        let client = Client::new(&of_moto());
        let created = client.create_queue().queue_name(name).send().await.unwrap();
        let url = created.queue_url().unwrap().to_owned();
        Self { adapter: SqsQueues::new(client.clone(), url.clone()), client, url }
    }

    async fn send(&self, bodies: &[&str]) {
        for body in bodies {
            let call = self.client.send_message().queue_url(&self.url);
            call.message_body(*body).send().await.unwrap();
        }
    }

    /// Receives the visible messages, sorted by body.
    async fn receive(&self) -> Vec<Message> {
        let call = self.client.receive_message().queue_url(&self.url).max_number_of_messages(10);
        let received = call.message_attribute_names("All").send().await.unwrap();
        let mut messages = received.messages.unwrap_or_default();
        messages.sort_by(|one, other| one.body.cmp(&other.body));
        messages
    }

    async fn change(&self, changes: &[(&str, u32)]) -> Vec<Result<(), CallFault>> {
        let changes: Vec<_> = changes
            .iter()
            .map(|&(receipt_handle, timeout)| VisibilityChange { receipt_handle, timeout })
            .collect();
        self.adapter.change_visibility(&self.url, &changes).await
    }
}

fn handle(message: &Message) -> &str {
    message.receipt_handle().unwrap()
}

#[tokio::test]
async fn one_change_that_is_refused_leaves_its_neighbours_alone() {
    let queue = Queue::new("one-refused-change").await;
    queue.send(&["first", "last", "long", "waits"]).await;
    let received = queue.receive().await;
    let [first, last, long, waits] = &received[..] else { unreachable!("four were sent") };
    let (long, waits) = ((handle(long), 43_201), (handle(waits), 43_140));
    let changes = [(handle(first), 0), ("no handle", 0), long, waits, (handle(last), 0)];
    let answers = queue.change(&changes).await;
    let codes: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().map_err(|fault| fault.0.split(':').next().unwrap()))
        .collect();
    assert_eq!(
        codes,
        [Ok(&()), Err("ReceiptHandleIsInvalid"), Err("InvalidParameterValue"), Ok(&()), Ok(&())]
    );
    let visible = queue.receive().await;
    assert_eq!(
        visible.iter().map(|it| it.body()).collect::<Vec<_>>(),
        [Some("first"), Some("last")]
    );
}

fn attribute(
    name: &'static str,
    data_type: &'static str,
    value: Value<'static>,
) -> Attribute<'static> {
    Attribute { name: name.into(), data_type: data_type.into(), value }
}

fn delayed(body: &str, delay: u32) -> Resent<'_> {
    let attributes = vec![
        attribute("FailedAt", "String", Value::Text("2026-02-01T12:00:00Z".into())),
        attribute("ErrorCode", "Number", Value::Text("200".into())),
        attribute("Raw", "Binary", Value::Binary([0, 255][..].into())),
    ];
    Resent { body, attributes, trace_header: None, group_id: None, delay }
}

#[tokio::test]
async fn a_message_that_is_sent_again_arrives_as_it_was_and_a_delayed_one_not_yet() {
    let queue = Queue::new("delays").await;
    let body = "{\"big\": 12345678901234567890.10,\t\"é\":\"\\u00e9\"}";
    let (now, long, later) = (delayed(body, 0), delayed("long", 901), delayed("later", 900));
    let answers = queue.adapter.send_again(&queue.url, &[&now, &long, &later]).await;
    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    let code = answers[1].as_ref().unwrap_err().code.as_deref();
    assert_eq!(code, Some("InvalidParameterValue"), "it leaves its neighbours alone");
    let [message] = &queue.receive().await[..] else { unreachable!("one is not delayed") };
    assert_eq!(message.body(), Some(body));
    let attributes = message.message_attributes().unwrap();
    assert_eq!(attributes.len(), 3);
    assert_eq!(attributes["FailedAt"].string_value(), Some("2026-02-01T12:00:00Z"));
    assert_eq!(attributes["ErrorCode"].data_type(), "Number");
    assert_eq!(attributes["Raw"].binary_value().unwrap().as_ref(), [0, 255]);
}

#[tokio::test]
async fn messages_in_flight_are_counted_and_delayed_ones_are_not() {
    let queue = Queue::new("counted").await;
    queue.send(&["a", "b"]).await;
    assert_eq!(queue.adapter.send_again(&queue.url, &[&delayed("c", 900)]).await, [Ok(())]);
    assert_eq!(queue.adapter.in_flight(&queue.url).await, Ok(0));
    assert_eq!(queue.receive().await.len(), 2);
    assert_eq!(queue.adapter.in_flight(&queue.url).await, Ok(2));
    let gone = queue.adapter.in_flight(&format!("{}-gone", queue.url)).await.unwrap_err();
    assert!(gone.0.contains("does not exist"), "{gone}");
}

#[tokio::test]
async fn a_queue_that_does_not_exist_fails_for_every_entry() {
    let queue = Queue::new("to-be-deleted").await;
    queue.send(&["a"]).await;
    let received = queue.receive().await;
    queue.client.delete_queue().queue_url(&queue.url).send().await.unwrap();
    let letter = DeadLetter { body: "x".into(), attributes: vec![] };
    let changed = queue.change(&[(handle(&received[0]), 1), ("other", 1)]).await;
    let changed: Vec<_> = changed.into_iter().map(|answer| answer.unwrap_err().0).collect();
    let sent = queue.adapter.send_dead_letters(&[&letter, &letter]).await;
    let sent: Vec<_> = sent.into_iter().map(|answer| answer.unwrap_err().message).collect();
    for said in [changed, sent] {
        assert_eq!(said.len(), 2);
        let is_said = |said: &String| said.contains("The specified queue does not exist");
        assert!(said.iter().all(is_said), "{said:?}");
    }
}

/// The request body of a send of this message, and the answers.
async fn send(
    message: &Resent<'_>,
    answer: String,
) -> (serde_json::Value, Vec<Result<(), InvokeFault>>) {
    let (endpoint, asked) = answering(answer).await;
    let client = Client::new(&moto::config(&endpoint));
    let queues = SqsQueues::new(client, "https://sqs/1/dead".to_owned());
    let answers = queues.send_again("https://sqs/1/imports", &[message, message]).await;
    let asked: String = asked.await.unwrap();
    let (_, request) = asked.split_once("\r\n\r\n").unwrap();
    (serde_json::from_str(request).unwrap(), answers)
}

#[tokio::test]
async fn a_message_that_is_sent_back_keeps_its_attributes_byte_for_byte_and_is_not_delayed() {
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
        (400, "KmsThrottled", "KMS.ThrottlingException", transient),
        (400, "AccessDenied", "AccessDenied", FaultKind::Configuration),
    ] {
        let headers = format!("{JSON}x-amzn-query-error: {query_code};Sender\r\n");
        let body = format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"no"}}"#);
        let (_, answers) = send(&message, response(status, &headers, &body)).await;
        let kinds: Vec<_> = answers.into_iter().map(|answer| answer.unwrap_err().kind).collect();
        assert_eq!(kinds, [kind; 2], "{code}");
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
