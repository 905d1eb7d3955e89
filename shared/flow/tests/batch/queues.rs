//! Messages of queues whose consumers failed go back to them.

use std::collections::BTreeMap;

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use comeback_core::{
    claim::{Claim, Order, State},
    decision::VISIBILITY_MAX,
};
use comeback_flow::metrics;

use super::*;
use crate::world::{TARGET, start};

const IMPORTS: &str = "arn:aws:sqs:us-east-1:123456789012:imports";
const IMPORTS_URL: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/imports";
const BOUND: &str = r#"{"retry":["orders","sqs:imports","sqs:others"]}"#;

fn bound(mut world: World) -> World {
    world.queue_targets = BOUND;
    world
}

fn text(value: &str) -> SqsMessageAttribute {
    let mut attribute = SqsMessageAttribute::default();
    attribute.data_type = Some("String".into());
    attribute.string_value = Some(value.into());
    attribute
}

/// A message of the queue of imports, whose consumer failed this many seconds ago.
fn moved(id: &str, seconds_ago: i64) -> SqsMessage {
    let mut moved = message(id, &format!("payload of {id}, no JSON"));
    let first_received = start().timestamp_millis() - 1000 * seconds_ago;
    for (name, value) in [
        ("DeadLetterQueueSourceArn", IMPORTS.to_owned()),
        ("ApproximateFirstReceiveTimestamp", first_received.to_string()),
        ("AWSTraceHeader", "Root=1".to_owned()),
        ("MessageGroupId", "tenant-7".to_owned()),
    ] {
        moved.attributes.insert(name.to_owned(), value);
    }
    moved.message_attributes.insert("tenant".to_owned(), text("blue"));
    moved
}

fn due_back(id: &str) -> SqsMessage {
    moved(id, 60)
}

fn key_of(id: &str) -> String {
    format!("{IMPORTS}/{id}")
}

#[tokio::test(start_paused = true)]
async fn what_is_due_goes_back_to_its_queue_with_its_attributes_and_the_attempt() {
    let world = bound(World::new(&[]));
    let mut binary = due_back("b");
    let mut key = SqsMessageAttribute::default();
    key.data_type = Some("Binary.x".into());
    key.binary_value = Some(serde_json::from_str(r#""AP8=""#).unwrap());
    binary.message_attributes.insert("key".to_owned(), key);
    let retried = r#"{"attempt":1,"initial_timestamp":1769947000,"request_id":"first"}"#;
    let mut again = moved("c", 130);
    again.message_attributes.insert("_retry_metadata".to_owned(), text(retried));
    let report = handle(&world, vec![moved("a", 0), binary, again, due("d")]).await;
    assert_eq!(outcomes(&report), ["waits", "invoked", "invoked", "invoked"]);
    assert_eq!(kept(&report), ["a"]);
    assert_eq!(world.invocations.borrow().len(), 1, "the function's");
    let sends = world.sends.borrow();
    let [(url, sent)] = &sends[..] else { panic!("expected one call, got {sends:?}") };
    assert_eq!(url, IMPORTS_URL);
    let bodies: Vec<_> = sent.iter().map(|sent| &*sent.body).collect();
    assert_eq!(bodies, ["payload of b, no JSON", "payload of c, no JSON"]);
    for sent in sent {
        let (trace_header, group_id) = (sent.trace_header.as_deref(), sent.group_id.as_deref());
        assert_eq!((trace_header, group_id, sent.delay), (Some("Root=1"), Some("tenant-7"), 0));
    }
    let string = |value: &str| ("String".to_owned(), value.as_bytes().to_owned());
    let metadata = |sent: &world::Sent| sent.attributes["_retry_metadata"].clone();
    let first = r#"{"attempt":1,"initial_timestamp":1769947140,"request_id":"b"}"#;
    let second = r#"{"attempt":2,"initial_timestamp":1769947000,"request_id":"first"}"#;
    assert_eq!((metadata(&sent[0]), metadata(&sent[1])), (string(first), string(second)));
    assert_eq!(sent[0].attributes["key"], ("Binary.x".to_owned(), vec![0, 255]));
    assert_eq!(sent[0].attributes["tenant"], string("blue"));
    assert_eq!((sent[0].attributes.len(), sent[1].attributes.len()), (3, 2));
    let targets: Vec<_> = report.entries.iter().map(|entry| entry.target.as_deref()).collect();
    let queue = Some("sqs:imports");
    assert_eq!(targets, [queue, queue, queue, Some("orders")]);
    let lines = metrics::lines(&report, start()).join("\n");
    assert!(lines.contains(r#""Target":"sqs:imports""#), "{lines}");
}

#[tokio::test(start_paused = true)]
async fn sends_go_out_in_batches_of_ten_by_size_and_by_queue() {
    let world = bound(World::new(&[]));
    let mut records: Vec<_> = (0..10).map(|n| due_back(&format!("m{n}"))).collect();
    handle(&world, records.clone()).await;
    for record in records.iter_mut().take(4) {
        record.body = Some("x".repeat(500_000));
    }
    for record in records.iter_mut().skip(4).step_by(2) {
        let others = IMPORTS.replace("imports", "others");
        record.attributes.insert("DeadLetterQueueSourceArn".to_owned(), others);
    }
    handle(&world, records).await;
    let sends = world.sends.borrow();
    let mut sizes: Vec<_> =
        sends.iter().map(|(url, sent)| (url.rsplit_once('/').unwrap().1, sent.len())).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [("imports", 2), ("imports", 5), ("imports", 10), ("others", 3)]);
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_a_send_ends_in_its_outcome_and_touches_none_of_its_neighbours() {
    let world = bound(World::new(&[
        ("payload of throttled", Answer::Fault(THROTTLED)),
        ("payload of lost", Answer::Lost),
        ("payload of gone", Answer::Fault(FaultKind::Configuration)),
        ("payload of large", Answer::Fault(FaultKind::Refused(Reason::PayloadTooLarge))),
    ]));
    let records = ["throttled", "lost", "gone", "large", "good"].map(due_back).to_vec();
    let report = handle(&world, records).await;
    assert_eq!(outcomes(&report), ["waits", "waits", "waits", "payload_too_large", "invoked"]);
    let obstacles: Vec<_> = report.entries.iter().map(|entry| entry.obstacle).collect();
    let (throttled, mended) = (Some(Obstacle::Throttled), Some(Obstacle::Configuration));
    assert_eq!(obstacles, [throttled, throttled, mended, None, None]);
    let calls = world.visibility_calls.borrow();
    let [(url, changes)] = &calls[..] else { panic!("expected one call, got {calls:?}") };
    assert_eq!(url, QUEUE_URL, "they wait in the retry queue");
    assert!(changes[0].1 <= 4 && changes[2].1 >= 60, "{changes:?}");
    let letters = world.letter_calls.borrow();
    let letter: BTreeMap<_, _> = letters[0][0].attributes.iter().cloned().collect();
    assert_eq!(letter["SourceQueueArn"], IMPORTS);
    assert_eq!(letter["OriginalAttributes"], r#"{"tenant":{"type":"String","value":"blue"}}"#);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_hangs_holds_up_nothing_else() {
    let world = bound(World::new(&[("payload of hung", Answer::Never)]));
    let records = vec![due_back("hung"), due("good"), poison("p"), waiting("w"), moved("m", 0)];
    let report = handle(&world, records).await;
    assert_eq!(outcomes(&report), ["not reached", "invoked", "unreadable", "waits", "waits"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_claimed_by_its_id_and_marked_once_its_queue_has_accepted_it() {
    let world = bound(World::with_ledger(&[("payload of throttled", Answer::Fault(THROTTLED))]));
    let done = Claim {
        state: State::Done,
        ..Claim::waiting("other".to_owned(), None, start() + VISIBILITY_MAX)
    };
    world.claims().insert(key_of("done"), done);
    let report = handle(&world, ["a", "done", "throttled"].map(due_back).to_vec()).await;
    assert_eq!(outcomes(&report), ["invoked", "duplicate", "waits"]);
    let claims = world.claims();
    assert_eq!(claims[&key_of("a")].state, State::Done);
    assert!(!claims.contains_key(&key_of("throttled")), "released");
    assert_eq!(world.sends.borrow().iter().map(|(_, sent)| sent.len()).sum::<usize>(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_message_is_listed_under_its_queue_and_an_operator_can_steer_it() {
    let world = bound(World::with_register(&[]));
    handle(&world, vec![moved("a", 0)]).await;
    assert_eq!(world.waits.borrow().keys().collect::<Vec<_>>(), [&key_of("a")]);
    world.claims().get_mut(&key_of("a")).unwrap().order = Some(Order::Retry);
    let report = handle(&world, vec![moved("a", 0)]).await;
    assert_eq!(outcomes(&report), ["invoked"], "retried now");
    let world = bound(World::with_register(&[]));
    handle(&world, vec![moved("a", 0)]).await;
    world.claims().get_mut(&key_of("a")).unwrap().order = Some(Order::Cancel);
    assert_eq!(outcomes(&handle(&world, vec![moved("a", 0)]).await), ["cancelled"]);
    world.paused.borrow_mut().push(IMPORTS.to_owned());
    let report = handle(&world, vec![due_back("b"), due("c")]).await;
    assert_eq!(outcomes(&report), ["waits", "invoked"], "its queue is paused");
}

#[tokio::test(start_paused = true)]
async fn no_circuit_is_kept_for_a_queue() {
    let world = bound(World::with_probes("", &[]));
    let retried = r#"{"attempt":1,"initial_timestamp":1769947000,"request_id":"first"}"#;
    let records = (0..20).map(|n| {
        let mut record = due_back(&format!("m{n}"));
        record.message_attributes.insert("_retry_metadata".to_owned(), text(retried));
        record
    });
    let report = handle(&world, records.map(|it| moved_by(it, 130)).collect()).await;
    assert!(report.targets.is_empty(), "{:?}", report.targets);
    assert!(world.turns.borrow().is_empty() && world.asked.borrow().is_empty());
    assert_eq!(outcomes(&report), ["invoked"; 20]);
    assert!(world.circuits.borrow().keys().all(|target| target == TARGET));
}

fn moved_by(mut record: SqsMessage, seconds_ago: i64) -> SqsMessage {
    let first = (start().timestamp_millis() - 1000 * seconds_ago).to_string();
    record.attributes.insert("ApproximateFirstReceiveTimestamp".to_owned(), first);
    record
}

#[tokio::test(start_paused = true)]
async fn a_delay_carries_the_queue_and_a_full_message_stays_in_flight() {
    let world = bound(World::new(&[]));
    world.in_flight.set(Some(200_000));
    let mut full = moved("full", 0);
    for nth in 0..7 {
        full.message_attributes.insert(format!("a{nth}"), text("x"));
    }
    let mut records: Vec<_> = (0..9).map(|n| moved(&format!("m{n}"), 0)).collect();
    records.push(full);
    let report = handle(&world, records).await;
    assert_eq!(outcomes(&report)[9], "waits");
    assert_eq!(outcomes(&report)[..9], ["delayed"; 9]);
    assert_eq!(kept(&report), ["full"]);
    let (url, sent) = world.sends.borrow()[0].clone();
    assert_eq!(url, QUEUE_URL);
    let string = |value: &str| ("String".to_owned(), value.as_bytes().to_owned());
    assert_eq!(sent[0].attributes["SourceQueueArn"], string(IMPORTS));
    assert_eq!(sent[0].attributes["MessageId"], string("m0"));
    assert_eq!(sent[0].attributes["tenant"], string("blue"));
    assert!(sent[0].attributes.contains_key("FailedAt") && sent[0].attributes.len() == 4);
    // As SQS delivers it after the delay.
    let mut hop = message("hop", &sent[0].body);
    for (name, (_, value)) in &sent[0].attributes {
        hop.message_attributes.insert(name.clone(), text(str::from_utf8(value).unwrap()));
    }
    let mut late = moved_by(hop, -60);
    let sent_at = (start().timestamp_millis() + 60_000).to_string();
    late.attributes.insert("SentTimestamp".to_owned(), sent_at);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let report = handle_within(120, &world, vec![late]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    let sends = world.sends.borrow();
    let (url, sent) = sends.last().unwrap();
    assert_eq!(url, IMPORTS_URL);
    let names: Vec<_> = sent[0].attributes.keys().collect();
    assert_eq!(names, ["_retry_metadata", "tenant"]);
}
