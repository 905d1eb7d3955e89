//! Waits that are kept as delays, because too many messages are in flight.

use std::collections::BTreeMap;

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use comeback_core::in_flight::IN_FLIGHT_MAX;

use crate::{
    THROTTLED,
    world::{
        Answer, QUEUE_URL, World, due, failed, handle, kept, message, outcomes, poison, waiting,
    },
};

/// A world in which as many messages are in flight as may be.
fn crowded(answers: &[(&'static str, Answer)]) -> World {
    let world = World::new(answers);
    world.in_flight.set(Some(IN_FLIGHT_MAX.get().into()));
    world
}

fn twelve_waiting() -> Vec<SqsMessage> {
    (0..12).map(|n| waiting(&format!("w{n}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lone_failure_asks_for_no_count() {
    let world = crowded(&[]);
    let report = handle(&world, vec![waiting("a"), due("b"), poison("c")]).await;
    assert_eq!(outcomes(&report), ["waits", "invoked", "unreadable"]);
    assert_eq!(*world.counted.borrow(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_asks_once_and_waits_as_before_while_there_are_places() {
    let world = World::new(&[]);
    let report = handle(&world, twelve_waiting()).await;
    assert_eq!(kept(&report).len(), 12);
    assert_eq!(*world.counted.borrow(), [QUEUE_URL]);
    assert!(world.sends.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crowded_queue_is_sent_its_waits_again_and_the_received_messages_are_done() {
    let world = crowded(&[]);
    let mut records = twelve_waiting();
    records.push(due("d"));
    records[3].attributes.insert("AWSTraceHeader".into(), "Root=1".into());
    let report = handle(&world, records.clone()).await;
    assert_eq!(kept(&report), Vec::<String>::new());
    assert!(world.visibility_calls.borrow().is_empty());
    let sends = world.sends.borrow();
    assert_eq!(sends.iter().map(|(_, sent)| sent.len()).collect::<Vec<_>>(), [10, 2]);
    for ((queue_url, sent), received) in sends.iter().zip(records.chunks(10)) {
        assert_eq!(queue_url, QUEUE_URL);
        for (sent, received) in sent.iter().zip(received) {
            assert_eq!(Some(&sent.body), received.body.as_ref());
            assert_eq!(sent.trace_header.as_ref(), received.attributes.get("AWSTraceHeader"));
            assert_eq!(sent.delay, 60);
        }
    }
    let text = |value: &str| ("String".to_owned(), value.as_bytes().to_vec());
    let carried = [
        ("FailedAt".to_owned(), text("2026-02-01T12:00:00Z")),
        ("MessageId".to_owned(), text("w0")),
    ];
    assert_eq!(sends[0].1[0].attributes, BTreeMap::from(carried));
}

#[tokio::test(start_paused = true)]
async fn a_slow_count_makes_no_wait_longer() {
    let world = crowded(&[("the count", Answer::Slow(7))]);
    handle(&world, twelve_waiting()).await;
    assert_eq!(world.sends.borrow()[0].1[0].delay, 53);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_alone_makes_delays_of_short_waits() {
    let world = World::new(&[]);
    let mut late = failed("late", 10);
    for (name, value) in [("ApproximateReceiveCount", "1"), ("SentTimestamp", "1769947190000")] {
        late.attributes.insert(name.into(), value.into());
    }
    let report = handle(&world, vec![late.clone()]).await;
    assert_eq!(outcomes(&report), ["delayed"]);
    // It was delayed, so its age shows no backlog.
    let attributes = world.sends.borrow()[0].1[0].attributes.clone();
    for (name, (data_type, value)) in attributes {
        let mut attribute = SqsMessageAttribute::default();
        attribute.data_type = Some(data_type);
        attribute.string_value = String::from_utf8(value).ok();
        late.message_attributes.insert(name, attribute);
    }
    assert_eq!(outcomes(&handle(&world, vec![late]).await), ["waits"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cant_be_sent_again_waits_in_flight_alone() {
    let world = crowded(&[("w7", Answer::Refused)]);
    let report = handle(&world, twelve_waiting()).await;
    assert_eq!(kept(&report), ["w7"]);
    let changes = vec![("handle of w7".to_owned(), 60)];
    assert_eq!(*world.visibility_calls.borrow(), [(QUEUE_URL.to_owned(), changes)]);
}

#[tokio::test(start_paused = true)]
async fn a_count_that_is_refused_holds_nothing_up() {
    let world = World::new(&[]);
    world.in_flight.set(None);
    let report = handle(&world, twelve_waiting()).await;
    assert_eq!(kept(&report).len(), 12);
}

#[tokio::test(start_paused = true)]
async fn attributes_of_every_type_stay_as_they_are() {
    let world = crowded(&[]);
    let mut records = twelve_waiting();
    let mut number = SqsMessageAttribute::default();
    number.data_type = Some("Number.int".into());
    number.string_value = Some("200".into());
    let mut binary = SqsMessageAttribute::default();
    binary.data_type = Some("Binary".into());
    binary.binary_value = serde_json::from_str(r#""AP8=""#).ok();
    let mut forged = SqsMessageAttribute::default();
    forged.data_type = Some("String".into());
    forged.string_value = Some("tomorrow".into());
    records[0].message_attributes = [
        ("ErrorCode".to_owned(), number),
        ("Raw".to_owned(), binary),
        ("FailedAt".to_owned(), forged),
    ]
    .into();
    handle(&world, records).await;
    let sent = &world.sends.borrow()[0].1[0].attributes;
    assert_eq!(sent["ErrorCode"], ("Number.int".to_owned(), b"200".to_vec()));
    assert_eq!(sent["Raw"], ("Binary".to_owned(), vec![0, 255]));
    assert_eq!(sent["FailedAt"], ("String".to_owned(), b"2026-02-01T12:00:00Z".to_vec()));
    assert_eq!(sent.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_waits_as_a_delay_gives_its_claim_back() {
    let world = World::with_ledger(&[("payload of", Answer::Fault(THROTTLED))]);
    world.in_flight.set(Some(IN_FLIGHT_MAX.get().into()));
    let records: Vec<_> = (0..10).map(|n| due(&format!("d{n}"))).collect();
    let report = handle(&world, records).await;
    assert!(outcomes(&report).iter().all(|outcome| *outcome == "delayed"), "throttled");
    assert!(world.claims().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_does_not_answer_keeps_no_sent_message_in_the_queue() {
    let answers = [("release", Answer::Never), ("payload of", Answer::Fault(THROTTLED))];
    let world = World::with_ledger(&answers);
    world.in_flight.set(Some(IN_FLIGHT_MAX.get().into()));
    let report = handle(&world, (0..10).map(|n| due(&format!("d{n}"))).collect()).await;
    assert_eq!(outcomes(&report), ["delayed"; 10]);
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_sent_again_share_a_call_only_up_to_its_size() {
    let world = crowded(&[]);
    let large = |n: usize| {
        let body = waiting(&format!("w{n}")).body.unwrap();
        message(&format!("w{n}"), &body.replace("payload of", &"x".repeat(400_000)))
    };
    let report = handle(&world, (0..10).map(large).collect()).await;
    assert_eq!(kept(&report), Vec::<String>::new());
    let sends = world.sends.borrow();
    assert_eq!(sends.iter().map(|(_, sent)| sent.len()).collect::<Vec<_>>(), [2; 5]);
}
