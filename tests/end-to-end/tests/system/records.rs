//! Failure records in buckets: those that are too large for a queue, and all that can go wrong with one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    bucket::{Bucket, entry, key, notice},
    cloud::{self, binary, example},
    once_per_failure::{Tables, plan_with_ledger},
    other_languages::{Code, REQUIREMENTS, python},
    retry_loop::{DeadLetter, HANDLER, Plan, RetryLoop, TARGET, failure_record},
    servers::{Fate, Faulty},
};

/// The largest payload of an asynchronous invocation.
const MEBIBYTE: usize = 1_048_576;

/// The largest record that is read.
const RECORD_MAX: usize = 8 * MEBIBYTE;

/// A payload of this size that begins so. A decoder that writes it again changes some of its bytes.
fn sized(bytes: usize, beginning: &str) -> String {
    let start = format!(r#"{{{beginning}, "price":10.10,"n":12345678901234567890123,"filler":"é"#);
    format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2))
}

fn attribute<'a>(letter: &'a DeadLetter, name: &str) -> &'a str {
    letter.attributes.get(name).map_or("", |value| value)
}

/// Fails five times, each time with an error that quotes the payload.
const QUOTES: &str = r#"
import json, os

def handler(event, context):
    with open(os.environ["NOTES"], "a+") as notes:
        notes.write("run\n")
        notes.seek(0)
        if len(notes.readlines()) <= 5:
            raise ConnectionError("no place for " + json.dumps(event))
"#;

#[tokio::test]
async fn a_payload_of_a_mebibyte_comes_back_whole_without_an_envelope_however_often_it_fails() {
    let tables = Tables::with_ledger().await;
    let settings = [("TRANSPARENT", "true"), ("RECORD_BUCKETS", "records")];
    let retry_loop = plan_with_ledger(&tables.endpoint, &settings).deploy().await;
    let bucket = Bucket::create(&retry_loop, "records").await;
    bucket.notifies(&retry_loop).await;
    let (quotes, unaware) = (Code::new("quotes.py", QUOTES), Code::new("unaware", ""));
    let interpreter = python(REQUIREMENTS).display().to_string();
    let in_python = [interpreter.as_str(), "-m", "awslambdaric", "quotes.handler"];
    let in_rust = [example("unaware").display().to_string()];
    let functions = [
        ("in-python", cloud::command(in_python), &quotes),
        ("in-rust", cloud::command(in_rust), &unaware),
    ];
    let mut sent = BTreeMap::new();
    for (name, command, code) in functions {
        let function = code.function(name, command, 5);
        retry_loop.cloud.create(&function).await.unwrap();
        bucket.receives_failures_of(&retry_loop, name).await;
        let payload = sized(MEBIBYTE, &format!(r#""name":"{name}""#));
        retry_loop.cloud.invoke(name, &payload).await.unwrap();
        sent.insert(name, payload);
    }
    for (name, payload) in &sent {
        let mut journal = retry_loop.cloud.journal();
        let runs: [_; 6] = journal.runs(name).await;
        assert!(runs.iter().all(|run| run.payload == *payload), "{name} is given other bytes");
        let [failed @ .., last] = runs.map(|run| run.ending);
        assert_eq!((failed, &*last), ([(); 5].map(|()| "Failed".to_owned()), "Succeeded"));
    }
    let noted = std::fs::read_to_string(unaware.notes()).unwrap();
    assert!(noted.lines().all(|line| line == format!("[{},null]", sent["in-rust"])));
    a_letter_of_it_is_moved_back(&retry_loop, &bucket).await;
}

/// SQS's own redrive of a dead letter that leaves its payload in the bucket.
async fn a_letter_of_it_is_moved_back(retry_loop: &RetryLoop, bucket: &Bucket) {
    bucket.receives_failures_of(retry_loop, TARGET).await;
    let payload = sized(MEBIBYTE, r#""fail":{"error":"PermanentFailure"}"#);
    let id = retry_loop.invoke(&payload).await;
    let mut journal = retry_loop.cloud.journal();
    let given_up = |line: &Value| line["reason"] == "not_retryable";
    journal.log(HANDLER, "the first dead letter", given_up).await;
    let (from, to) = (&retry_loop.dead_letter_queue, &retry_loop.retry_queue);
    let from = retry_loop.cloud.queue_arn(from).await.unwrap();
    let to = retry_loop.cloud.queue_arn(to).await.unwrap();
    let moved = retry_loop.cloud.sqs.start_message_move_task().source_arn(from);
    moved.destination_arn(to).send().await.unwrap();
    journal.log(HANDLER, "the second dead letter", given_up).await;
    let runs: [_; 2] = retry_loop.cloud.journal().runs(TARGET).await;
    assert!(runs.iter().all(|run| run.payload == payload));
    let letter = retry_loop.dead_letter().await;
    assert_eq!((attribute(&letter, "RequestId"), attribute(&letter, "Attempts")), (&*id, "1"));
    let place = attribute(&letter, "PayloadLocation");
    assert!(place.starts_with("s3://records/aws/lambda/async/orders/"), "{place}");
    assert!(letter.body.starts_with(r#"{"Records":[{"#), "{}", letter.body);
    assert_eq!(retry_loop.settled(&mut retry_loop.cloud.journal()).await, (0, 0));
}

/// What the program prints about the dead letters of this loop.
async fn dead(retry_loop: &RetryLoop, arguments: &[&str]) -> String {
    let ran = Command::new(binary("comeback"))
        .arg("dead")
        .args(arguments)
        .arg(format!("--local={}", retry_loop.cloud.endpoint))
        .env_clear()
        .env("HOME", std::env::temp_dir())
        .env("PATH", "/usr/bin:/bin")
        .env("VISUAL", "sed -i s/fail/okay/")
        .output();
    let ran = ran.await.unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {said}");
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test]
async fn a_payload_that_only_its_envelope_makes_too_large_is_shown_exported_edited_and_redriven() {
    let retry_loop = Plan::quick(&[("RECORD_BUCKETS", "records")]).deploy().await;
    let bucket = Bucket::create(&retry_loop, "records").await;
    bucket.notifies(&retry_loop).await;
    bucket.receives_failures_of(&retry_loop, TARGET).await;
    let payload = sized(MEBIBYTE, r#""fail":{}"#);
    let mut journal = retry_loop.cloud.journal();
    let mut letter = async || {
        let given_up = |line: &Value| line["decision"] == "dead_letter";
        let line = journal.log(HANDLER, "a dead letter", given_up).await;
        line["request_id"].as_str().unwrap().to_owned()
    };
    let id = retry_loop.invoke(&payload).await;
    assert_eq!(letter().await, id);
    let shown = dead(&retry_loop, &["show", &id, "--payload", "--json"]).await;
    let shown: [Value; 1] = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown[0]["payload"], payload);
    assert_eq!(shown[0]["reason"], "payload_too_large");
    let advice = shown[0]["advice"].as_str().unwrap();
    assert!(advice.starts_with("set TRANSPARENT=true for this function"), "{advice}");
    let exported = dead(&retry_loop, &["export", "-", "--payload"]).await;
    let exported: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(exported["payload"], payload);
    assert!(exported["body"].as_str().unwrap().starts_with(r#"{"Records":["#));
    dead(&retry_loop, &["redrive", "--yes"]).await;
    letter().await;
    dead(&retry_loop, &["redrive", "--edit", "--yes"]).await;
    let runs: [_; 3] = retry_loop.cloud.journal().runs(TARGET).await;
    let edited = payload.replace("fail", "okay");
    assert_eq!(runs.clone().map(|run| run.ending), ["Failed", "Failed", "Succeeded"]);
    assert!(runs.map(|run| run.payload) == [payload.clone(), payload, edited]);
    assert_eq!(retry_loop.left().await, (0, 0));
}

/// An answer of S3 that is an error.
fn error(status: &str, code: &str) -> Fate {
    let xml = format!("<Error><Code>{code}</Code><Message>why</Message></Error>");
    answer(status, xml.len(), &xml)
}

fn answer(status: &str, length: usize, body: &str) -> Fate {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
    Fate::Answered([head.as_bytes(), body.as_bytes()].concat())
}

/// The failure record of the event with this name, whose retry succeeds.
fn record(name: &str) -> String {
    failure_record(&format!("request-{name}"), &format!(r#"{{"id":"{name}"}}"#))
}

/// A faulty S3: the first read of some objects goes wrong. It alone has an object with versions.
async fn faulty_s3() -> Faulty {
    let seen = Mutex::new(BTreeSet::new());
    Faulty::start(move |request| {
        let is_first = |name: &'static str| {
            request.contains(&format!("-{name} HTTP")) && seen.lock().unwrap().insert(name)
        };
        if request.contains("-version?versionId=v%2F1%20%2B HTTP") {
            let record = record("version");
            answer("200 OK", record.len(), &record)
        } else if is_first("throttled") {
            error("503 Slow Down", "SlowDown")
        } else if is_first("denied") {
            error("403 Forbidden", "AccessDenied")
        } else if is_first("truncated") {
            let record = record("truncated");
            answer("200 OK", record.len() + 1, &record)
        } else {
            Fate::FORWARDED
        }
    })
    .await
}

/// The record of an event, which fills this many bytes.
fn filled(name: &str, bytes: usize) -> String {
    let record = record(name);
    let (start, end) = (record.strip_suffix('}').unwrap(), r#""}"#);
    let start = format!(r#"{start},"filler":""#);
    format!("{start}{}{end}", "x".repeat(bytes - start.len() - end.len()))
}

/// The record of an event that failed long ago.
fn late(name: &str) -> String {
    let record = record(name);
    let (_, after) = record.split_once(r#"","requestContext""#).unwrap();
    format!(r#"{{"timestamp":"2019-11-14T18:16:05.568Z","requestContext"{after}"#)
}

/// Puts records that come back into a bucket that announces them itself. Returns the names of their events.
async fn put_good(bucket: &Bucket) -> BTreeSet<&'static str> {
    let encoded = ["plain", "a%20b", "a%2Bb", "%C3%A9", "throttled", "denied", "truncated"];
    for name in encoded {
        bucket.put(&key(TARGET, name), record(name).as_bytes()).await;
    }
    bucket.put(&key(TARGET, "largest"), filled("largest", RECORD_MAX).as_bytes()).await;
    encoded.into_iter().chain(["largest"]).collect()
}

/// Puts records into a bucket that announces nothing, and announces them and others in messages. Returns the names of
/// the events that come back.
async fn announce(retry_loop: &RetryLoop, quiet: &Bucket) -> [&'static str; 5] {
    let back = ["sns", "eventbridge", "first", "second", "version"];
    for name in &back[..4] {
        quiet.put(&key(TARGET, name), record(name).as_bytes()).await;
    }
    let in_sns = json!({ "Type": "Notification", "Message": notice("quiet", &key(TARGET, "sns")) });
    let object = json!({ "key": key(TARGET, "eventbridge") });
    let detail = json!({ "bucket": { "name": "quiet" }, "object": object });
    let event = json!({ "source": "aws.s3", "detail-type": "Object Created", "detail": detail });
    let versioned = entry("quiet", &key(TARGET, "version"), r#""versionId":"v/1 +","#);
    let [first, second, gone] =
        ["first", "second", "gone"].map(|name| entry("quiet", &key(TARGET, name), ""));
    let twice = notice("records", &key(TARGET, "plain"));
    let other_event = twice.replace("ObjectCreated:Put", "ObjectRemoved:Delete");
    let unlisted = notice("others", &key(TARGET, "plain"));
    let several = format!(r#"{{"Records":[{first},{gone},7,{second},{versioned}]}}"#);
    for body in [in_sns.to_string(), event.to_string(), twice, several, other_event, unlisted] {
        retry_loop.send(&body, &[]).await;
    }
    back
}

/// Puts records that are given up, and waits for their dead letters and for those of bad announcements.
async fn bad_ones_end(retry_loop: &RetryLoop, bucket: &Bucket) {
    bucket.put(&key(TARGET, "larger"), filled("larger", RECORD_MAX + 1).as_bytes()).await;
    bucket.put(&key(TARGET, "bare"), b"no JSON").await;
    bucket.put(&key("payments", "other"), record("other").as_bytes()).await;
    bucket.put(&key(TARGET, "late"), late("late").as_bytes()).await;
    // Its age is counted from its record.
    let mut ends = BTreeMap::from([
        ("no route to host", "max_age_exceeded"),
        ("at most 8 MiB", "unreadable"),
        ("not a JSON object", "unreadable"),
        ("function that its key names", "unreadable"),
        ("got another notice", "unreadable"),
        ("without a function ARN", "unreadable"),
        ("no such object", "record_gone"),
    ]);
    while !ends.is_empty() {
        let letter = retry_loop.dead_letter().await;
        let said = attribute(&letter, "ErrorMessage");
        let is_it =
            |(why, reason): &(&&str, &&str)| said.contains(**why) && letter.reason() == **reason;
        let end = ends.iter().find(is_it).map(|(why, _)| *why);
        ends.remove(end.unwrap_or_else(|| panic!("{letter:?} is none of {ends:?}")));
    }
}

/// Lines that the handler must log: the decision, and a part of the message.
const SAID: [(&str, &str); 7] = [
    ("read", "SlowDown: why"),
    ("read", "AccessDenied: why"),
    ("read", "was cut off"),
    ("read", "RECORD_BUCKETS does not name others"),
    ("split", "split: S3 has announced several objects"),
    ("drop", "dropped: its failure was already acted on"),
    ("drop", "dropped: S3 has tested"),
];

#[tokio::test]
async fn every_fault_of_a_record_has_its_end_and_touches_no_other_event() {
    let tables = Tables::with_ledger().await;
    let s3 = faulty_s3().await;
    let settings =
        [("RECORD_BUCKETS", "records,quiet"), ("AWS_ENDPOINT_URL_S3", s3.endpoint.as_str())];
    let retry_loop = plan_with_ledger(&tables.endpoint, &settings).deploy().await;
    s3.forward_to(&retry_loop.cloud.endpoint);
    let bucket = Bucket::create(&retry_loop, "records").await;
    bucket.notifies(&retry_loop).await;
    let quiet = Bucket::create(&retry_loop, "quiet").await;
    let mut expected = put_good(&bucket).await;
    expected.extend(announce(&retry_loop, &quiet).await);
    bad_ones_end(&retry_loop, &bucket).await;
    let mut journal = retry_loop.cloud.journal();
    let mut back = Vec::new();
    while back.len() < expected.len() {
        let run = journal.run(TARGET).await;
        assert_eq!(run.ending, "Succeeded", "{}", run.payload);
        let payload: Value = serde_json::from_str(&run.payload).unwrap();
        assert_eq!(payload["_retry_metadata"]["attempt"], 1);
        back.push(payload["_original_payload"]["id"].as_str().unwrap().to_owned());
    }
    let each_once: BTreeSet<_> = back.iter().map(String::as_str).collect();
    assert_eq!(each_once, expected);
    for (decision, part) in SAID {
        let is_it = |line: &Value| {
            let texts = [&line["error"], &line["message"]].map(|text| text.as_str().unwrap_or(""));
            line["decision"] == decision && texts.iter().any(|text| text.contains(part))
        };
        retry_loop.cloud.journal().log(HANDLER, part, is_it).await;
    }
    let mut handled = retry_loop.cloud.journal();
    loop {
        match retry_loop.left().await {
            // The notice of an object in a bucket that is not listed.
            (1, letters) => break assert_eq!(letters, 0),
            (waiting, _) => assert!(waiting > 1),
        }
        handled.run(HANDLER).await;
    }
}

/// The handler is deployed with 128 MB, of which the machine and the program's own code take a part.
const DATA_MAX: u32 = 96 * 1024;

/// A forged record of the size of the largest that is read, whose payload, or whose error, takes all of it.
fn forged(id: &str, is_error: bool) -> Vec<u8> {
    let record = failure_record(id, "\"FILL\"").replace("no route to host", "WHY");
    let (fill, why) = if is_error { ("", "WHY") } else { ("FILL", "") };
    let record = record.replacen("FILL", fill, 1).replacen("WHY", why, 1);
    let size = RECORD_MAX - record.len();
    let filler = if is_error { "\\u0007".repeat(size / 6) } else { "x".repeat(size) };
    record.replacen(if is_error { "WHY" } else { "FILL" }, &filler, 1).into_bytes()
}

/// With and without envelopes: only those without look for runs of the same payload.
#[tokio::test]
async fn ten_forged_records_of_eight_mebibytes_leave_the_handler_alive_and_their_neighbours_invoked()
 {
    for transparent in ["true", "false"] {
        let tables = Tables::with_ledger().await;
        let settings = [("TRANSPARENT", transparent), ("RECORD_BUCKETS", "records")];
        let plan = plan_with_ledger(&tables.endpoint, &settings);
        let plan =
            Plan { data_max: Some(DATA_MAX), handler_timeout: Duration::from_secs(20), ..plan };
        let retry_loop = plan.deploy().await;
        let bucket = Bucket::create(&retry_loop, "records").await;
        // The first batch starts the handler.
        retry_loop.enqueue(&[failure_record("first", "\"first\"")]).await;
        let mut journal = retry_loop.cloud.journal();
        journal.run(TARGET).await;
        let before = retry_loop.handlers();
        let mut bodies = Vec::new();
        for nth in 0..18 {
            let key = key(TARGET, &format!("forged-{nth}"));
            bucket.put(&key, &forged(&format!("forged-{nth}"), nth % 6 == 5)).await;
            bodies.push(notice("records", &key));
        }
        for nth in [4, 14] {
            let id = format!("neighbour-{nth}");
            bodies.insert(nth, failure_record(&id, &format!("\"{id}\"")));
        }
        retry_loop.enqueue(&bodies).await;
        let mut letters = BTreeSet::new();
        while letters.len() < 15 {
            let letter = retry_loop.dead_letter().await;
            assert_eq!(attribute(&letter, "Reason"), "payload_too_large");
            letters.insert(attribute(&letter, "PayloadLocation").to_owned());
        }
        let mut neighbours = BTreeSet::from(["neighbour-4\"", "neighbour-14\""]);
        while !neighbours.is_empty() {
            let run = journal.run(TARGET).await;
            neighbours.retain(|it| !run.payload.contains(it));
        }
        assert!(before.iter().all(|it| retry_loop.handlers().contains(it)), "a handler has died");
    }
}
