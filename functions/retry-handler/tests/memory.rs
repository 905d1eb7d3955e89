//! How much memory a batch takes, whatever its messages hold. The handler has 128 MB by default, and whoever may invoke
//! a function decides what the handler has to read.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{io::sink, sync::Arc, time::Duration};

use allocation_counter::measure;
use aws_config::SdkConfig;
use aws_lambda_events::event::sqs::SqsEvent;
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use comeback_core::{Timestamp, arn::FunctionArn, settings::Settings, time::later};
use comeback_flow::{
    batch::{Context, Handler},
    in_flight::Gauges,
    memory::CircuitMemory,
    metrics,
    outages::Outages,
    ports::{Clock, RECORD_MAX},
};
use retry_handler::{DynamoLedger, LambdaFunctions, S3Records, SqsQueues};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing_subscriber::util::SubscriberInitExt;

const MESSAGES: usize = 10;

/// The largest message that SQS accepts.
const MESSAGE_MAX: usize = 1 << 20;

/// Half of the handler's memory. The program itself, its connections and the allocator's gaps need the other half.
const MEMORY_MAX: u64 = 64 << 20;

const TARGET: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";

/// The settings in all situations.
const VARIABLES: [(&str, &str); 5] = [
    ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/dead"),
    ("RETRY_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/retry"),
    ("LEDGER_TABLE", "claims"),
    ("REGISTER", "true"),
    ("PROBE", "true"),
];

const FAILED_AT: &str = "2026-02-01T12:00:00.000Z";

/// The paused time of the runtime, from two minutes after the failures on.
struct PausedClock(Instant);

impl Clock for PausedClock {
    #[allow(clippy::disallowed_methods, reason = "the time is paused")]
    fn now(&self) -> Timestamp {
        later(FAILED_AT.parse().unwrap(), Duration::from_mins(2) + self.0.elapsed())
    }

    #[allow(clippy::disallowed_methods, reason = "the time is paused")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// AWS, which answers each request after a second and so has all of them at the same time. S3 has this object
/// everywhere.
#[derive(Clone, Debug)]
struct Slow(Arc<SdkBody>);

impl HttpConnector for Slow {
    #[allow(clippy::disallowed_methods, reason = "the time is paused")]
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let object = self.0.try_clone().unwrap();
        HttpConnectorFuture::new(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if request.method() == "GET" {
                let status = 200.try_into().unwrap();
                return Ok(HttpResponse::new(status, object));
            }
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let body = if target.ends_with("GetQueueAttributes") {
                r#"{"Attributes":{"ApproximateNumberOfMessagesNotVisible":"100000"}}"#
            } else if target.ends_with("BatchGetItem") {
                r#"{"Responses":{"claims":[]},"UnprocessedKeys":{}}"#
            } else {
                "{}"
            };
            let status = 200.try_into().unwrap();
            Ok(HttpResponse::new(status, SdkBody::from(body)))
        })
    }
}

fn aws(connector: SharedHttpConnector) -> SdkConfig {
    let client = http_client_fn(move |_, _| connector.clone());
    moto::config("http://127.0.0.1:1").to_builder().http_client(client).build()
}

/// A text of at most `size` bytes, with copies of `part` in place of `FILL`.
fn filled(size: usize, text: &str, part: &str) -> String {
    text.replace("FILL", &part.repeat((size - 100 - text.len()) / part.len()))
}

/// The record of a failure, with what it has in place of `FILL`.
fn record(size: usize, members: &str, part: &str) -> String {
    let record = format!(
        r#"{{"timestamp":"{FAILED_AT}","requestContext":{{"requestId":"ID","functionArn":"{TARGET}","condition":"RetriesExhausted"}},{members}}}"#
    );
    filled(size, &record, part)
}

/// Messages of the largest size, each as its body and the value of an attribute. Their parts are what takes the most
/// memory in Rust or in JSON for its size: members without a name, and quotes and control characters.
fn messages() -> [(&'static str, String, Option<String>); 10] {
    const MEMBER: &str = r#""":1,"#;
    const QUOTE: &str = r#"\""#;
    let full = |members, part| record(MESSAGE_MAX, members, part);
    let metadata = full(
        r#""requestPayload":{"_retry_metadata":{FILL"attempt":1,"initial_timestamp":1769947000},"_original_payload":1}"#,
        MEMBER,
    );
    let retried = full(
        r#""requestPayload":{"_retry_metadata":{"attempt":1,"initial_timestamp":1769947000},"_original_payload":"FILL"}"#,
        QUOTE,
    );
    let error = full(
        r#""requestPayload":1,"responsePayload":{"errorType":"Error","errorMessage":"FILL"}"#,
        "\\u0001",
    );
    // In the text of a topic's message, quotes and backslashes are escaped once more.
    let topics = record(MESSAGE_MAX / 2 - 1_000, r#""requestPayload":"FILL""#, QUOTE);
    let topics = json!({ "Type": "Notification", "Message": topics }).to_string();
    let notice = r#"{"Records":[FILL{"eventSource":"aws:s3"}]}"#;
    [
        ("metadata with many members", metadata, None),
        ("an event with many members", full(r#""requestPayload":{FILL"a":1}"#, MEMBER), None),
        ("an event of quotes", full(r#""requestPayload":"FILL""#, QUOTE), None),
        ("a large event that was retried", retried, None),
        ("a long error text", error, None),
        ("a record with many members", full(r#"FILL"requestPayload":1"#, MEMBER), None),
        ("a topic's message", topics, None),
        ("no JSON", filled(MESSAGE_MAX, "FILL", "\""), None),
        ("a notice of S3 of many objects", filled(MESSAGE_MAX, notice, "1,"), None),
        (
            "a long attribute",
            record(1_000, r#""requestPayload":1"#, "x"),
            Some(filled(MESSAGE_MAX - 1_000, "FILL", "\"\\")),
        ),
    ]
}

fn event(body: &str, attribute: Option<&str>) -> Vec<u8> {
    let record = |nth: usize| {
        let attributes = attribute.map_or(
            json!({}),
            |value| json!({ "Other": { "dataType": "String", "stringValue": value } }),
        );
        json!({
            "messageId": format!("message-{nth}"),
            "receiptHandle": "handle",
            "body": body.replacen("ID", &format!("request-{nth}"), 1),
            "attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": "1769947200000" },
            "messageAttributes": attributes,
            "md5OfBody": "",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:retry",
            "awsRegion": "us-east-1",
        })
    };
    let records: Vec<Value> = (0..MESSAGES).map(record).collect();
    json!({ "Records": records }).to_string().into_bytes()
}

/// The most memory that the handler has at one time for this batch, with the batch as Lambda sends it, and with this
/// object wherever a record may lie.
#[allow(clippy::disallowed_methods, reason = "the time is paused")]
fn memory(raw: &[u8], object: &Arc<SdkBody>, variables: &[(&str, &str)]) -> u64 {
    let variables = variables.iter().chain(&VARIABLES);
    let lookup = |name: &str| {
        let found = variables.clone().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let settings = Settings::from_lookup(lookup).unwrap();
    let connector = SharedHttpConnector::new(Slow(Arc::clone(object)));
    let aws = aws(connector.clone());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let handle = async {
        let handler = Handler {
            queues: SqsQueues::new(
                aws_sdk_sqs::Client::new(&aws),
                settings.dead_letter_queue_url.clone(),
            ),
            functions: LambdaFunctions::new(&aws, settings.probe),
            ledger: Some(DynamoLedger::new(&aws, "claims".to_owned())),
            records: Some(S3Records::over(connector, &aws)),
            settings,
            clock: PausedClock(Instant::now()),
            gauges: Gauges::default(),
            memory: CircuitMemory::default(),
            outages: Outages::default(),
        };
        let received = raw.to_vec();
        let event: SqsEvent = serde_json::from_slice(&received).unwrap();
        let home = FunctionArn::parse("arn:aws:lambda:us-east-1:123456789012:function:handler");
        let context = Context {
            request_id: "invocation",
            home: &home.unwrap().home(),
            deadline: later(handler.clock.now(), Duration::from_mins(1)),
        };
        let report = handler.handle(&event, &context).await.unwrap();
        assert_eq!(report.entries.len(), MESSAGES);
        drop(metrics::lines(&report, handler.clock.now()));
        drop(serde_json::to_vec(&report.response()).unwrap());
    };
    measure(|| runtime.block_on(handle)).bytes_max
}

#[test]
fn ten_messages_of_a_mebibyte_of_anything_take_less_than_half_of_the_handlers_memory() {
    let log = tracing_subscriber::fmt().json().with_writer(sink).finish();
    let _log = log.set_default();
    // They are invoked, given up, and sent again as delays.
    let situations: [&[(&str, &str)]; 3] = [
        &[],
        &[("MAX_AGE", "1m")],
        &[("BASE_BACKOFF", "12h"), ("MAX_BACKOFF", "12h"), ("IN_FLIGHT_MAX", "1")],
    ];
    let mut over = Vec::new();
    for (name, body, attribute) in messages() {
        let size = body.len() + attribute.as_ref().map_or(0, String::len);
        assert!((MESSAGE_MAX - 5_000..=MESSAGE_MAX).contains(&size), "{name}: {size} bytes");
        let raw = event(&body, attribute.as_deref());
        for variables in situations {
            let memory = memory(&raw, &Arc::new(SdkBody::empty()), variables);
            println!("{name}, {variables:?}: {} KiB", memory >> 10);
            if memory > MEMORY_MAX {
                over.push(format!("{name}, {variables:?}: {} KiB", memory >> 10));
            }
        }
    }
    assert_eq!(over, [""; 0]);
}

/// What is forged of a record in a bucket, with copies of a part in place of `FILL`. The batches are read in parts.
fn batches() -> [(&'static str, String); 6] {
    const MEMBER: &str = r#"\"\":1,"#;
    let of = |payload: &str, part| {
        let members = format!(r#""KinesisBatchInfo":{{}},"payload":"{payload}""#);
        record(RECORD_MAX, &members, part)
    };
    let records = |size| format!(r#"{{\"data\":\"{}\"}},"#, "x".repeat(size));
    let answer = r#""requestPayload":1,"responsePayload":{FILL"errorType":"Error"}"#;
    [
        ("a batch of records of a megabyte", of(r#"{\"Records\":[FILL1]}"#, &records(1 << 20))),
        ("a batch of small records", of(r#"{\"Records\":[FILL1]}"#, &records(100))),
        ("a batch of numbers", of(r#"{\"Records\":[FILL1]}"#, "1,")),
        ("a record with many members", of(r#"{\"Records\":[{FILL\"a\":1}]}"#, MEMBER)),
        ("an event with many members", of(r#"{FILL\"Records\":[1,2]}"#, MEMBER)),
        ("an answer with many members", record(RECORD_MAX, answer, r#""":1,"#)),
    ]
}

#[test]
fn ten_records_of_eight_mebibytes_of_anything_take_less_than_half_of_the_handlers_memory() {
    let log = tracing_subscriber::fmt().json().with_writer(sink).finish();
    let _log = log.set_default();
    let mut over = Vec::new();
    for (name, object) in batches() {
        assert!(
            (RECORD_MAX * 7 / 8..=RECORD_MAX).contains(&object.len()),
            "{name}: {}",
            object.len()
        );
        let key = match object.contains("BatchInfo") {
            true => "aws/lambda/4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e/shard/2026/02/01/x",
            false => "aws/lambda/async/orders/2026/02/01/x",
        };
        let notice = format!(
            r#"{{"Records":[{{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"records"}},"object":{{"key":"{key}"}}}}}}]}}"#
        );
        let object = Arc::new(SdkBody::from(object));
        let memory = memory(&event(&notice, None), &object, &[("RECORD_BUCKETS", "records")]);
        println!("{name}: {} KiB", memory >> 10);
        if memory > MEMORY_MAX {
            over.push(format!("{name}: {} KiB", memory >> 10));
        }
    }
    assert_eq!(over, [""; 0]);
}
