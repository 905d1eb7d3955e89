//! Tests of each operation's JSON requests and responses. The model's tests cover the behaviour of queues.

use std::time::Duration;

use comeback_core::time;
use serde_json::{Value, json};

use super::*;

const URL: &str = "http://127.0.0.1:4566/000000000000/q";

/// A trace header, and the digest that AWS returned for it.
const TRACE: (&str, &str) = (
    "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
    "5ae4d5d7636402d80f4eb6d213245a88",
);

fn at(second: u64) -> Timestamp {
    time::later(Timestamp::UNIX_EPOCH, Duration::from_secs(second))
}

/// A client of an SQS with one queue, and the time of its calls.
struct Client {
    sqs: Sqs,
    now: Timestamp,
    trace_header: Option<&'static str>,
}

impl Client {
    fn new() -> Self {
        let sqs = Sqs::new(7);
        let mut client = Self { sqs, now: at(0), trace_header: None };
        client.ok("CreateQueue", json!({"QueueName": "q"}));
        client
    }

    fn raw(&mut self, action: &str, body: &[u8]) -> Result<Value, SqsError> {
        let caller = Caller { host: "127.0.0.1:4566", trace_header: self.trace_header };
        answer(action, body, Call { sqs: &mut self.sqs, now: self.now, caller: &caller })
            .map(|body| serde_json::from_slice(&body).unwrap())
    }

    fn ok(&mut self, action: &str, body: Value) -> Value {
        self.raw(action, body.to_string().as_bytes()).unwrap()
    }

    /// The error code and the HTTP status of a refused request.
    fn refused(&mut self, action: &str, body: Value) -> (&'static str, u16) {
        let error = self.raw(action, body.to_string().as_bytes()).unwrap_err();
        let name = fault::name(&error);
        (name.code.leak(), name.status)
    }

    fn send(&mut self, body: &str) -> Value {
        self.ok("SendMessage", json!({"QueueUrl": URL, "MessageBody": body}))
    }

    fn receive(&mut self, more: Value) -> Value {
        let mut request = json!({"QueueUrl": URL});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ok("ReceiveMessage", request).pointer("/Messages/0").cloned().unwrap_or_default()
    }
}

#[test]
fn a_queue_url_has_the_address_of_the_request_and_any_host_is_accepted() {
    let mut client = Client::new();
    assert_eq!(client.ok("GetQueueUrl", json!({"QueueName": "q"})), json!({"QueueUrl": URL}));
    for url in [URL, "q", "https://sqs.us-east-1.amazonaws.com/000000000000/q"] {
        client.ok("SendMessage", json!({"QueueUrl": url, "MessageBody": "x"}));
    }
    for url in [
        "http://127.0.0.1:4566/000000000000/other",
        "http://127.0.0.1:4566/111111111111/q",
        "http://127.0.0.1:4566/000000000000/q/",
        "http://127.0.0.1:4566/q",
        "http://127.0.0.1:4566",
        "other",
    ] {
        let refusal = client.refused("SendMessage", json!({"QueueUrl": url, "MessageBody": "x"}));
        assert_eq!(refusal, ("AWS.SimpleQueueService.NonExistentQueue", 400), "{url}");
    }
    let owner = json!({"QueueName": "q", "QueueOwnerAWSAccountId": "111111111111"});
    assert_eq!(client.refused("GetQueueUrl", owner).0, "AWS.SimpleQueueService.NonExistentQueue");
}

#[test]
fn a_queue_is_created_with_attributes_and_tags() {
    let mut client = Client::new();
    let request = json!({
        "QueueName": "q2", "Attributes": {"VisibilityTimeout": "7"}, "tags": {"team": "a"},
    });
    let answer = client.ok("CreateQueue", request);
    assert_eq!(answer, json!({"QueueUrl": "http://127.0.0.1:4566/000000000000/q2"}));
    let request = json!({"QueueUrl": "q2", "AttributeNames": ["VisibilityTimeout", "QueueArn"]});
    let arn = "arn:aws:sqs:us-east-1:000000000000:q2";
    let told = json!({"Attributes": {"VisibilityTimeout": "7", "QueueArn": arn}});
    assert_eq!(client.ok("GetQueueAttributes", request), told);
    assert_eq!(
        client.ok("ListQueueTags", json!({"QueueUrl": "q2"})),
        json!({"Tags": {"team": "a"}})
    );
}

#[test]
fn only_requested_queue_attributes_are_returned() {
    let mut client = Client::new();
    let set = json!({"QueueUrl": URL, "Attributes": {"DelaySeconds": "3"}});
    assert_eq!(client.ok("SetQueueAttributes", set), json!({}));
    for (names, count) in [
        (json!(null), 0),
        (json!([]), 0),
        (json!(["RedrivePolicy", "Policy"]), 0),
        (json!(["DelaySeconds"]), 1),
        (json!(["All"]), 12),
    ] {
        let request = json!({"QueueUrl": URL, "AttributeNames": names});
        let told = client.ok("GetQueueAttributes", request);
        let told = told.get("Attributes").and_then(Value::as_object);
        assert_eq!(told.map_or(0, serde_json::Map::len), count, "{names}");
    }
}

#[test]
fn tags_are_added_replaced_and_removed() {
    let mut client = Client::new();
    for tags in [json!({"a": "1", "b": "2"}), json!({"b": "3"})] {
        client.ok("TagQueue", json!({"QueueUrl": URL, "Tags": tags}));
    }
    client.ok("UntagQueue", json!({"QueueUrl": URL, "TagKeys": ["a", "unknown"]}));
    assert_eq!(client.ok("ListQueueTags", json!({"QueueUrl": URL})), json!({"Tags": {"b": "3"}}));
    client.ok("UntagQueue", json!({"QueueUrl": URL, "TagKeys": ["b"]}));
    assert_eq!(client.ok("ListQueueTags", json!({"QueueUrl": URL})), json!({}));
}

#[test]
fn queues_are_listed_page_by_page() {
    let mut client = Client::new();
    for name in ["r1", "r2", "r3"] {
        client.ok("CreateQueue", json!({"QueueName": name}));
    }
    let url = |name: &str| format!("http://127.0.0.1:4566/000000000000/{name}");
    let first = client.ok("ListQueues", json!({"QueueNamePrefix": "r", "MaxResults": 2}));
    assert_eq!(first["QueueUrls"], json!([url("r1"), url("r2")]));
    let token = &first["NextToken"];
    let next = json!({"QueueNamePrefix": "r", "MaxResults": 2, "NextToken": token});
    assert_eq!(client.ok("ListQueues", next), json!({"QueueUrls": [url("r3")]}));
    assert_eq!(client.ok("ListQueues", json!({}))["QueueUrls"].as_array().unwrap().len(), 4);
    assert_eq!(client.ok("ListQueues", json!({"QueueNamePrefix": "x"})), json!({}));
}

#[test]
fn sources_of_a_dead_letter_queue_are_listed() {
    let mut client = Client::new();
    client.ok("CreateQueue", json!({"QueueName": "dead"}));
    let arn = "arn:aws:sqs:us-east-1:000000000000:dead";
    let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 3}).to_string();
    client.ok(
        "SetQueueAttributes",
        json!({"QueueUrl": URL, "Attributes": {"RedrivePolicy": policy}}),
    );
    let list = |client: &mut Client, queue| {
        client.ok("ListDeadLetterSourceQueues", json!({"QueueUrl": queue}))
    };
    assert_eq!(list(&mut client, "dead"), json!({"queueUrls": [URL]}));
    assert_eq!(list(&mut client, "q"), json!({"queueUrls": []}));
}

#[test]
fn a_message_is_returned_with_its_digests_and_attributes() {
    let mut client = Client::new();
    let attributes = json!({
        "Hello": {"DataType": "String", "StringValue": "There"},
        "General": {"DataType": "String", "StringValue": "Kenobi"},
    });
    let sent = client.ok(
        "SendMessage",
        json!({
            "QueueUrl": URL, "MessageBody": "msg", "MessageAttributes": attributes,
            "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE.0}},
        }),
    );
    assert_eq!(sent["MD5OfMessageBody"], "6e2baaf3b97dbeef01c0043275f9a0e7");
    assert_eq!(sent["MD5OfMessageAttributes"], "fca026605781cb4126a1e9044df24232");
    assert_eq!(sent["MD5OfMessageSystemAttributes"], TRACE.1);
    client.now = at(2);
    let received =
        client.receive(json!({"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}));
    let expected = json!({
        "MessageId": sent["MessageId"],
        "ReceiptHandle": received["ReceiptHandle"],
        "MD5OfBody": "6e2baaf3b97dbeef01c0043275f9a0e7",
        "Body": "msg",
        "Attributes": {
            "AWSTraceHeader": TRACE.0,
            "ApproximateFirstReceiveTimestamp": "2000",
            "ApproximateReceiveCount": "1",
            "SenderId": "000000000000",
            "SentTimestamp": "0",
        },
        "MD5OfMessageAttributes": "fca026605781cb4126a1e9044df24232",
        "MessageAttributes": attributes,
    });
    assert_eq!(received, expected);
}

#[test]
fn binary_attributes_are_base64_on_the_wire() {
    let mut client = Client::new();
    let attributes = json!({"b": {"DataType": "Binary", "BinaryValue": "AP8="}});
    let message = json!({"QueueUrl": URL, "MessageBody": "x", "MessageAttributes": attributes});
    client.ok("SendMessage", message);
    let received = client.receive(json!({"MessageAttributeNames": ["b"]}));
    assert_eq!(received["MessageAttributes"], attributes);
}

#[test]
fn attributes_that_were_not_requested_are_not_returned() {
    let mut client = Client::new();
    let sent = client.send("x");
    assert_eq!(sent.as_object().unwrap().len(), 2);
    assert_eq!(client.receive(json!({})).as_object().unwrap().len(), 4);
    assert_eq!(client.ok("ReceiveMessage", json!({"QueueUrl": URL})), json!({}));
}

#[test]
fn message_attributes_are_selected_by_name_or_prefix_and_the_digest_covers_the_selected() {
    let attributes = json!({
        "Help.Me": {"DataType": "String", "StringValue": "Me"},
        "Hello": {"DataType": "String", "StringValue": "There"},
        "General": {"DataType": "String", "StringValue": "Kenobi"},
    });
    // AWS returned these digests.
    for (wanted, told, digest) in [
        (
            json!(["All"]),
            vec!["General", "Hello", "Help.Me"],
            json!("4c360f3fdafd970e05fae2f149d997f5"),
        ),
        (
            json!([".*"]),
            vec!["General", "Hello", "Help.Me"],
            json!("4c360f3fdafd970e05fae2f149d997f5"),
        ),
        (json!(["Hel.*"]), vec!["Hello", "Help.Me"], json!("83fee93c1bcd8b9a5a923ffacdc636c7")),
        (json!(["Foo", "Hello"]), vec!["Hello"], json!("a311262e065454b75da111d535b8dacd")),
        (json!(["Foo", "Help", "AWS.", "..x"]), vec![], json!(null)),
        (json!([]), vec![], json!(null)),
    ] {
        let mut client = Client::new();
        let message = json!({"QueueUrl": URL, "MessageBody": "x", "MessageAttributes": attributes});
        client.ok("SendMessage", message);
        let received = client.receive(json!({"MessageAttributeNames": wanted}));
        let names = received["MessageAttributes"].as_object();
        let names: Vec<_> = names.into_iter().flat_map(|them| them.keys()).collect();
        assert_eq!(names, told, "{wanted}");
        assert_eq!(received["MD5OfMessageAttributes"], digest, "{wanted}");
    }
}

#[test]
fn system_attributes_can_be_requested_with_either_parameter() {
    for names in ["AttributeNames", "MessageSystemAttributeNames"] {
        let mut client = Client::new();
        client.send("x");
        let received = client.receive(json!({names: ["SenderId", "SequenceNumber"]}));
        assert_eq!(received["Attributes"], json!({"SenderId": ACCOUNT}), "{names}");
    }
}

#[test]
fn messages_get_the_requests_trace_header_unless_they_have_their_own() {
    let mut client = Client::new();
    client.trace_header = Some("Root=1-request");
    let own = json!({"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-own"}});
    let entries = json!([
        {"Id": "a", "MessageBody": "a"},
        {"Id": "b", "MessageBody": "b", "MessageSystemAttributes": own},
    ]);
    let sent = client.ok("SendMessageBatch", json!({"QueueUrl": URL, "Entries": entries}));
    assert_eq!(sent["Successful"][0]["MD5OfMessageSystemAttributes"], json!(null));
    client.send("c");
    for trace in ["Root=1-request", "Root=1-own", "Root=1-request"] {
        let received = client.receive(json!({"AttributeNames": ["AWSTraceHeader"]}));
        assert_eq!(received["Attributes"]["AWSTraceHeader"], trace);
    }
}

#[test]
fn a_received_messages_visibility_can_be_changed_and_it_can_be_deleted() {
    let mut client = Client::new();
    client.send("x");
    let handle = client.receive(json!({}))["ReceiptHandle"].take();
    let change = json!({"QueueUrl": URL, "ReceiptHandle": handle, "VisibilityTimeout": 0});
    assert_eq!(client.ok("ChangeMessageVisibility", change), json!({}));
    let handle = client.receive(json!({"VisibilityTimeout": 0}))["ReceiptHandle"].take();
    let delete = json!({"QueueUrl": URL, "ReceiptHandle": handle});
    assert_eq!(client.ok("DeleteMessage", delete), json!({}));
    assert_eq!(client.receive(json!({})), json!(null));
}

#[test]
fn each_entry_of_a_batch_succeeds_or_fails_alone() {
    let mut client = Client::new();
    let entries = json!([
        {"Id": "good", "MessageBody": "x"},
        {"Id": "control", "MessageBody": "\u{1}"},
        {"Id": "empty"},
        {"Id": "late", "MessageBody": "x", "DelaySeconds": 901},
        {"Id": "fifo", "MessageBody": "x", "MessageDeduplicationId": "1"},
    ]);
    let sent = client.ok("SendMessageBatch", json!({"QueueUrl": URL, "Entries": entries}));
    assert_eq!(sent["Successful"][0]["Id"], "good");
    let failed: Vec<_> = sent["Failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            assert_eq!(entry["SenderFault"], true);
            (entry["Id"].as_str().unwrap(), entry["Code"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        failed,
        [
            ("control", "InvalidMessageContents"),
            ("empty", "MissingParameter"),
            ("late", "InvalidParameterValue"),
            ("fifo", "InvalidParameterValue"),
        ]
    );
    let handle = client.receive(json!({}))["ReceiptHandle"].take();
    for (action, failed) in [("ChangeMessageVisibilityBatch", 2), ("DeleteMessageBatch", 1)] {
        let entries = json!([
            {"Id": "good", "ReceiptHandle": handle, "VisibilityTimeout": 60},
            {"Id": "garbage", "ReceiptHandle": "garbage", "VisibilityTimeout": 60},
            {"Id": "long", "ReceiptHandle": handle, "VisibilityTimeout": 43_201},
        ]);
        let done = client.ok(action, json!({"QueueUrl": URL, "Entries": entries}));
        assert_eq!(done["Successful"][0], json!({"Id": "good"}), "{action}");
        assert_eq!(done["Failed"][0]["Code"], "ReceiptHandleIsInvalid", "{action}");
        assert_eq!(done["Failed"].as_array().unwrap().len(), failed, "{action}");
    }
}

#[test]
fn an_invalid_batch_is_refused_as_a_whole() {
    let many: Vec<_> =
        (0..11).map(|id| json!({"Id": id.to_string(), "MessageBody": "x"})).collect();
    let half = "x".repeat(524_288);
    for (entries, code) in [
        (json!(null), "EmptyBatchRequest"),
        (json!([]), "EmptyBatchRequest"),
        (json!(many), "TooManyEntriesInBatchRequest"),
        (
            json!([{"Id": "a", "MessageBody": "x"}, {"Id": "a", "MessageBody": "x"}]),
            "BatchEntryIdsNotDistinct",
        ),
        (json!([{"MessageBody": "x"}]), "InvalidBatchEntryId"),
        (json!([{"Id": "", "MessageBody": "x"}]), "InvalidBatchEntryId"),
        (json!([{"Id": "a b", "MessageBody": "x"}]), "InvalidBatchEntryId"),
        (json!([{"Id": "i".repeat(81), "MessageBody": "x"}]), "InvalidBatchEntryId"),
        (
            json!([{"Id": "a", "MessageBody": half}, {"Id": "b", "MessageBody": half}, {"Id": "c", "MessageBody": "x"}]),
            "BatchRequestTooLong",
        ),
    ] {
        let mut client = Client::new();
        let refusal =
            client.refused("SendMessageBatch", json!({"QueueUrl": URL, "Entries": entries}));
        assert_eq!(refusal, (format!("AWS.SimpleQueueService.{code}").as_str(), 400));
        assert_eq!(client.receive(json!({})), json!(null), "{code}");
    }
}

#[test]
fn a_batch_of_exactly_one_mebibyte_is_accepted_and_has_no_member_failed() {
    let mut client = Client::new();
    let half = "x".repeat(524_288);
    let entries = json!([{"Id": "a", "MessageBody": half}, {"Id": "b", "MessageBody": half}]);
    let sent = client.ok("SendMessageBatch", json!({"QueueUrl": URL, "Entries": entries}));
    assert_eq!(sent["Successful"].as_array().unwrap().len(), 2);
    assert_eq!(sent.as_object().unwrap().keys().collect::<Vec<_>>(), ["Successful"]);
}

#[test]
fn a_batch_for_a_queue_that_does_not_exist_is_refused_as_a_whole() {
    let mut client = Client::new();
    for action in ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"] {
        let request = json!({"QueueUrl": "none", "Entries": [{"Id": "a"}]});
        assert_eq!(client.refused(action, request).0, "AWS.SimpleQueueService.NonExistentQueue");
    }
}

/// Checks that each request is refused with this error code and status 400.
fn assert_refused<const N: usize>(requests: [(&str, Value, &str); N]) {
    for (action, request, code) in requests {
        let refusal = Client::new().refused(action, request.clone());
        assert_eq!(refusal, (code, 400), "{action} {request}");
    }
}

#[test]
fn invalid_queue_parameters_are_refused_with_awss_codes() {
    let create = |attributes| json!({"QueueName": "q2", "Attributes": attributes});
    let set = |attributes| json!({"QueueUrl": URL, "Attributes": attributes});
    let differs = json!({"QueueName": "q", "Attributes": {"DelaySeconds": "1"}});
    let unknown = json!({"QueueUrl": URL, "AttributeNames": ["X"]});
    assert_refused([
        ("CreateQueue", json!({}), "MissingParameter"),
        ("CreateQueue", json!({"QueueName": "a b"}), "InvalidParameterValue"),
        (
            "CreateQueue",
            json!({"QueueName": "q.fifo"}),
            "AWS.SimpleQueueService.UnsupportedOperation",
        ),
        ("CreateQueue", differs, "QueueAlreadyExists"),
        ("CreateQueue", create(json!({"X": "1"})), "InvalidAttributeName"),
        ("CreateQueue", create(json!({"DelaySeconds": "901"})), "InvalidAttributeValue"),
        ("GetQueueAttributes", unknown, "InvalidAttributeName"),
        ("SetQueueAttributes", json!({"QueueUrl": URL}), "MissingParameter"),
        ("SetQueueAttributes", set(json!({"RedrivePolicy": "x"})), "InvalidParameterValue"),
        ("ListQueues", json!({"MaxResults": 0}), "InvalidParameterValue"),
        ("ListQueues", json!({"MaxResults": 1001}), "InvalidParameterValue"),
        ("ListQueues", json!({"NextToken": "?"}), "InvalidParameterValue"),
        ("TagQueue", json!({"QueueUrl": URL}), "MissingParameter"),
        ("UntagQueue", json!({"QueueUrl": URL}), "MissingParameter"),
        ("AddPermission", json!({"QueueUrl": URL}), "AWS.SimpleQueueService.UnsupportedOperation"),
        ("Dance", json!({}), "InvalidAction"),
    ]);
}

#[test]
fn invalid_message_parameters_are_refused_with_awss_codes() {
    let with = |name: &str, value: Value| json!({"QueueUrl": URL, "MessageBody": "x", name: value});
    let of = |name: &str, value: Value| json!({"QueueUrl": URL, name: value});
    let held = |seconds: Value| json!({"QueueUrl": URL, "ReceiptHandle": "x", "VisibilityTimeout": seconds});
    let both = json!({"a": {"DataType": "String", "StringValue": "x", "BinaryValue": "AA=="}});
    let foreign = json!({"Other": {"DataType": "String", "StringValue": "x"}});
    let empty = json!({"AWSTraceHeader": {"DataType": "String", "StringValue": ""}});
    assert_refused([
        ("SendMessage", json!({"MessageBody": "x"}), "MissingParameter"),
        ("SendMessage", json!({"QueueUrl": URL}), "MissingParameter"),
        ("SendMessage", of("MessageBody", json!("\u{ffff}")), "InvalidMessageContents"),
        ("SendMessage", with("DelaySeconds", json!(-1)), "InvalidParameterValue"),
        ("SendMessage", with("MessageAttributes", both), "InvalidParameterValue"),
        ("SendMessage", with("MessageSystemAttributes", foreign), "InvalidParameterValue"),
        ("SendMessage", with("MessageSystemAttributes", empty), "InvalidParameterValue"),
        ("ReceiveMessage", of("MaxNumberOfMessages", json!(0)), "InvalidParameterValue"),
        ("ReceiveMessage", of("MaxNumberOfMessages", json!(11)), "InvalidParameterValue"),
        ("ReceiveMessage", of("MaxNumberOfMessages", json!(-1)), "InvalidParameterValue"),
        ("ReceiveMessage", of("VisibilityTimeout", json!(43_201)), "InvalidParameterValue"),
        ("ReceiveMessage", of("VisibilityTimeout", json!(-1)), "InvalidParameterValue"),
        ("ReceiveMessage", of("WaitTimeSeconds", json!(21)), "InvalidParameterValue"),
        ("ReceiveMessage", of("WaitTimeSeconds", json!(-1)), "InvalidParameterValue"),
        ("ReceiveMessage", of("AttributeNames", json!(["X"])), "InvalidAttributeName"),
        ("DeleteMessage", json!({"QueueUrl": URL}), "MissingParameter"),
        ("DeleteMessage", of("ReceiptHandle", json!("x")), "ReceiptHandleIsInvalid"),
        ("ChangeMessageVisibility", held(json!(null)), "MissingParameter"),
        ("ChangeMessageVisibility", held(json!(-1)), "InvalidParameterValue"),
        ("ChangeMessageVisibility", held(json!(1)), "ReceiptHandleIsInvalid"),
    ]);
}

#[test]
fn an_error_names_its_shape_and_says_why() {
    let mut client = Client::new();
    for (action, request, shape, message) in [
        (
            "DeleteQueue",
            json!({"QueueUrl": "none"}),
            "com.amazonaws.sqs#QueueDoesNotExist",
            "The specified queue does not exist.",
        ),
        (
            "PurgeQueue",
            json!({"QueueUrl": ""}),
            "com.amazon.coral.service#MissingRequiredParameterException",
            "The request must contain the parameter QueueUrl.",
        ),
        (
            "Dance",
            json!({}),
            "com.amazon.coral.service#UnknownOperationException",
            "The operation Dance is not known.",
        ),
    ] {
        let error = client.raw(action, request.to_string().as_bytes()).unwrap_err();
        let told = (fault::name(&error).shape, error.to_string());
        assert_eq!(told, (shape.to_owned(), message.to_owned()));
    }
    client.ok("PurgeQueue", json!({"QueueUrl": URL}));
    let again = client.refused("PurgeQueue", json!({"QueueUrl": URL}));
    assert_eq!(again, ("AWS.SimpleQueueService.PurgeQueueInProgress", 403));
    client.ok("DeleteQueue", json!({"QueueUrl": URL}));
    let again = client.refused("CreateQueue", json!({"QueueName": "q"}));
    assert_eq!(again, ("AWS.SimpleQueueService.QueueDeletedRecently", 400));
}

#[test]
fn malformed_json_is_a_serialization_exception() {
    let mut client = Client::new();
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"\"x\"",
        b"\xff",
        br#"{"QueueUrl": 7}"#,
        br#"{"QueueUrl": "q", "MessageBody": {}}"#,
        br#"{"QueueUrl": "q", "MessageBody": "x", "DelaySeconds": "1"}"#,
        br#"{"QueueUrl": "q", "MessageBody": "\ud800"}"#,
        br#"{"QueueUrl": "q", "MessageBody": "x", "MessageAttributes": {"a": {"BinaryValue": "?"}}}"#,
    ] {
        let name = fault::name(&client.raw("SendMessage", body).unwrap_err());
        let expected = ("com.amazon.coral.service#SerializationException", 400);
        assert_eq!((name.shape.as_str(), name.status), expected, "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn unknown_members_are_ignored_and_null_counts_as_absent() {
    let mut client = Client::new();
    let request = json!({
        "QueueUrl": URL, "MessageBody": "x", "DelaySeconds": null, "MessageAttributes": null,
        "Unknown": [1],
    });
    client.ok("SendMessage", request);
}

#[test]
fn move_tasks_are_listed_with_their_progress() {
    let mut client = Client::new();
    let arn = crate::model::queue_arn;
    let policy = json!({"deadLetterTargetArn": arn("q"), "maxReceiveCount": 1}).to_string();
    let source = json!({"QueueName": "source", "Attributes": {"RedrivePolicy": policy}});
    client.ok("CreateQueue", source);
    (0..2).for_each(|_| drop(client.send("given up")));
    client.now = at(5);
    let start = json!({
        "SourceArn": arn("q"), "DestinationArn": arn("source"), "MaxNumberOfMessagesPerSecond": 1
    });
    let started = client.ok("StartMessageMoveTask", start);
    let handle = started["TaskHandle"].as_str().unwrap().to_owned();
    let mut task = json!({
        "SourceArn": arn("q"), "DestinationArn": arn("source"), "MaxNumberOfMessagesPerSecond": 1,
        "ApproximateNumberOfMessagesMoved": 1, "ApproximateNumberOfMessagesToMove": 2,
        "StartedTimestamp": 5000, "Status": "RUNNING", "TaskHandle": handle
    });
    let list = json!({"SourceArn": arn("q")});
    assert_eq!(client.ok("ListMessageMoveTasks", list.clone()), json!({"Results": [task]}));

    let cancelled = client.ok("CancelMessageMoveTask", json!({"TaskHandle": handle}));
    assert_eq!(cancelled, json!({"ApproximateNumberOfMessagesMoved": 1}));
    task.as_object_mut().unwrap().remove("TaskHandle");
    task["Status"] = "CANCELLED".into();
    assert_eq!(client.ok("ListMessageMoveTasks", list), json!({"Results": [task]}));

    // A message that was sent directly to the dead-letter queue has no source queue.
    client.ok("StartMessageMoveTask", json!({"SourceArn": arn("q")}));
    let told = client.ok("ListMessageMoveTasks", json!({"SourceArn": arn("q"), "MaxResults": 10}));
    let failed = json!({
        "SourceArn": arn("q"), "ApproximateNumberOfMessagesMoved": 0,
        "ApproximateNumberOfMessagesToMove": 1, "StartedTimestamp": 5000, "Status": "FAILED",
        "FailureReason": "CouldNotDetermineMessageSource"
    });
    assert_eq!(told, json!({"Results": [failed, task]}));
}

#[test]
fn invalid_move_tasks_are_refused_with_awss_codes() {
    let arn = "arn:aws:sqs:us-east-1:000000000000:q";
    let list = |arn: &str, max: u32| json!({"SourceArn": arn, "MaxResults": max});
    assert_refused([
        ("StartMessageMoveTask", json!({}), "MissingParameter"),
        ("StartMessageMoveTask", json!({"SourceArn": "q"}), "InvalidParameterValue"),
        ("StartMessageMoveTask", json!({"SourceArn": arn}), "InvalidParameterValue"),
        ("ListMessageMoveTasks", list(arn, 0), "InvalidParameterValue"),
        ("ListMessageMoveTasks", list(arn, 11), "InvalidParameterValue"),
        ("CancelMessageMoveTask", json!({"TaskHandle": "foobared"}), "InvalidParameterValue"),
    ]);
    let missing = Client::new().refused("ListMessageMoveTasks", list(&format!("{arn}x"), 1));
    assert_eq!(missing, ("ResourceNotFoundException", 404));
}
