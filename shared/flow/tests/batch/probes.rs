//! Targets that are down, and are probed. What happens to their other events is simulated.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use serde_json::{Value, json};

use crate::world::{Answer, TARGET, World, due, failed, handle, handle_by, outcomes, start};

/// The time this many seconds after the batch arrives, in milliseconds.
fn at(seconds: i64) -> i64 {
    start().timestamp_millis() + seconds * 1000
}

fn open(next_at: i64) -> String {
    let open = json!({ "since": at(-300), "next_at": at(next_at), "interval_seconds": 40 });
    json!({ "by": "another", "patience_seconds": 20, "phase": { "open": open } }).to_string()
}

/// The record of this attempt of this event, which has just failed.
fn returned(id: &str, event: &str, attempt: u32) -> aws_lambda_events::event::sqs::SqsMessage {
    let mut message = failed(id, 0);
    let envelope = format!(
        r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":1769947000,"request_id":"{event}"}},"_original_payload":1}}"#
    );
    let body = message.body.unwrap().replace(&format!("\"payload of {id}\""), &envelope);
    message.body = Some(body);
    message.attributes.insert("ApproximateReceiveCount".into(), "1".into());
    message
}

fn stored(world: &World) -> (u64, String) {
    let circuits = world.circuits.borrow();
    let stored = &circuits[TARGET];
    let circuit: Value = serde_json::from_str(stored.text.as_deref().unwrap()).unwrap();
    (stored.version, circuit["phase"].as_object().unwrap().keys().next().unwrap().clone())
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_usable_request_id_can_be_the_probe_and_its_failure_is_recognised() {
    let nameless = |attempt: u32| returned("a", &"x".repeat(300), attempt);
    let world = World::with_probes(&open(-1), &[]);
    let mut due = nameless(1);
    due.attributes.insert("ApproximateReceiveCount".into(), "2".into());
    assert_eq!(outcomes(&handle(&world, vec![due]).await), ["invoked"]);
    assert_eq!(stored(&world), (8, "probing".to_owned()));
    handle(&world, vec![nameless(2)]).await;
    assert_eq!(stored(&world), (9, "open".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_knows_of_a_step_takes_it_with_a_first_failure() {
    let first = |id, failed_at: i64| {
        let mut message = failed(id, 0);
        let body = message.body.unwrap();
        let at = |seconds| (start() + Duration::from_secs(seconds as u64)).to_rfc3339();
        message.body = Some(body.replace(&at(0), &at(failed_at)));
        message.attributes.insert("ApproximateReceiveCount".into(), "1".into());
        message
    };
    let batch = |records| {
        let mut event = SqsEvent::default();
        event.records = records;
        event
    };
    let world = World::with_probes(&open(30), &[]);
    let handler = world.handler();
    let by = |seconds| start() + Duration::from_secs(seconds);
    let report = handle_by(&handler, by(30), &batch(vec![first("unknown", 0)])).await;
    assert_eq!((outcomes(&report), world.look_ups.borrow().len()), (vec!["waits"], 0));
    handle_by(&handler, by(30), &batch(vec![due("one")])).await;
    assert_eq!(world.look_ups.borrow().len(), 1);
    tokio::time::advance(Duration::from_secs(29)).await;
    handle_by(&handler, by(60), &batch(vec![first("too soon", 29)])).await;
    assert_eq!(world.look_ups.borrow().len(), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    let report = handle_by(&handler, by(60), &batch(vec![first("in time", 30)])).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(stored(&world).1, "probing");
}

#[tokio::test(start_paused = true)]
async fn a_step_is_taken_again_if_another_handler_has_written_and_not_if_its_own_answer_was_lost() {
    let world = World::with_probes(&open(-1), &[("exchange", Answer::Repeated)]);
    let report = handle(&world, vec![due("one"), due("two")]).await;
    assert_eq!(outcomes(&report), ["invoked", "waits"]);
    assert_eq!(stored(&world), (8, "probing".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_circuit_of_another_program_counts_as_closed_and_is_replaced() {
    let world = World::with_probes("melted", &[]);
    let records = ["a", "b", "c", "d"].map(due).to_vec();
    assert_eq!(outcomes(&handle(&world, records).await), ["invoked"; 4]);
    assert_eq!(stored(&world), (8, "closed".to_owned()));
}
