//! Messages of queues whose consumers failed go back to them.

use std::collections::BTreeMap;

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use comeback_flow::{metrics, report::Obstacle};
use wire::Refusal;

use crate::{
    services::{Answer, denied, throttled},
    world::{
        QUEUE_URL, TARGET, World, due, handle, kept, message, outcomes, poison, start, waiting,
    },
};

const IMPORTS: &str = "arn:aws:sqs:us-east-1:123456789012:imports";
const BOUND: &str = r#"{"retry":["orders","sqs:imports","sqs:others"]}"#;

pub fn bound(world: World) -> World {
    world.with("QUEUE_TARGETS", BOUND)
}

pub fn text(value: &str) -> SqsMessageAttribute {
    let mut attribute = SqsMessageAttribute::default();
    attribute.data_type = Some("String".into());
    attribute.string_value = Some(value.into());
    attribute
}

/// A message of the queue of imports, whose consumer failed this many seconds ago.
pub fn moved(id: &str, seconds_ago: i64) -> SqsMessage {
    let mut moved = message(id, &format!("payload of {id}, no JSON"));
    let first_received = start().timestamp_millis() - 1000 * seconds_ago;
    for (name, value) in [
        ("DeadLetterQueueSourceArn", IMPORTS.to_owned()),
        ("ApproximateFirstReceiveTimestamp", first_received.to_string()),
    ] {
        moved.attributes.insert(name.to_owned(), value);
    }
    moved.message_attributes.insert("tenant".to_owned(), text("blue"));
    moved
}

#[test]
fn what_goes_back_counts_for_its_queue() {
    let world = bound(World::new(&[]));
    let report = handle(&world, vec![moved("a", 0), moved("b", 60), due("d")]);
    assert_eq!(outcomes(&report), ["waits", "invoked", "invoked"]);
    let targets: Vec<_> = report.entries.iter().map(|entry| entry.target.as_deref()).collect();
    assert_eq!(targets, [Some("sqs:imports"), Some("sqs:imports"), Some("orders")]);
    let lines = metrics::lines(&report, start()).join("\n");
    assert!(lines.contains(r#""Target":"sqs:imports""#), "{lines}");
}

#[test]
fn every_fault_of_a_send_ends_in_its_outcome_and_touches_none_of_its_neighbours() {
    let large = Refusal {
        code: Some("InvalidParameterValue"),
        status: Some(400),
        message: Some("Message must be shorter than 1024 bytes.".to_owned()),
        ..Refusal::default()
    };
    let world = bound(World::new(&[
        ("letter of", Answer::Accepted),
        ("payload of throttled", throttled()),
        ("payload of lost", Answer::Lost),
        ("payload of gone", denied()),
        ("payload of large", Answer::Refused(large)),
    ]));
    let records = ["throttled", "lost", "gone", "large", "good"].map(|id| moved(id, 60)).to_vec();
    let report = handle(&world, records);
    assert_eq!(outcomes(&report), ["waits", "waits", "waits", "payload_too_large", "invoked"]);
    let obstacles: Vec<_> = report.entries.iter().map(|entry| entry.obstacle).collect();
    let (throttled, mended) = (Some(Obstacle::Throttled), Some(Obstacle::Configuration));
    assert_eq!(obstacles, [throttled, throttled, mended, None, None]);
    let calls = world.visibility_calls();
    let [(url, changes)] = &calls[..] else { panic!("expected one call, got {calls:?}") };
    assert_eq!(url, QUEUE_URL, "they wait in the retry queue");
    assert!(changes[0].1 == 1 && (5..=10).contains(&changes[2].1), "{changes:?}");
    let letters = world.letter_calls();
    let letter: BTreeMap<_, _> = letters[0][0].attributes.iter().cloned().collect();
    assert_eq!(letter["SourceQueueArn"], IMPORTS);
    assert_eq!(letter["OriginalAttributes"], r#"{"tenant":{"type":"String","value":"blue"}}"#);
}

#[test]
fn a_letter_with_which_sqs_refuses_all_of_a_call_keeps_no_other_from_being_sent() {
    let world = World::new(&[("bad", Answer::Spoils)]);
    let records = ["a", "bad", "c"].map(poison).to_vec();
    let report = handle(&world, records);
    assert_eq!(outcomes(&report), ["unreadable", "dead letter not sent", "unreadable"]);
    assert_eq!(kept(&report), ["bad"]);
}

#[test]
fn a_send_that_hangs_holds_up_nothing_else() {
    let world = bound(World::new(&[("payload of hung", Answer::Never)]));
    let records = vec![moved("hung", 60), due("good"), poison("p"), waiting("w"), moved("m", 0)];
    let report = handle(&world, records);
    assert_eq!(outcomes(&report), ["not reached", "invoked", "unreadable", "waits", "waits"]);
}

#[test]
fn no_circuit_is_kept_for_a_queue() {
    let world = bound(World::with_probes("", &[]));
    let retried = r#"{"attempt":1,"initial_timestamp":1769947000,"request_id":"first"}"#;
    let records = (0..20).map(|n| {
        let mut record = moved(&format!("m{n}"), 130);
        record.message_attributes.insert("_retry_metadata".to_owned(), text(retried));
        record
    });
    let report = handle(&world, records.collect());
    assert!(report.targets.is_empty(), "{:?}", report.targets);
    assert_eq!(outcomes(&report), ["invoked"; 20]);
    assert!(world.table.circuits.borrow().keys().all(|target| target == TARGET));
}
