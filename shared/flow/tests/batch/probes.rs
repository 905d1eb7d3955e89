//! Targets that are down, and are probed. What happens to their other events is simulated.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_flow::report::Obstacle;
use serde_json::{Value, json};
use wire::AwsHandler;

use crate::{
    services::{Answer, throttled},
    world::{TARGET, World, due, failed, handle, handle_by, outcomes, start},
};

/// The time this many seconds after the batch arrives, in milliseconds.
fn at(seconds: i64) -> i64 {
    start().timestamp_millis() + seconds * 1000
}

fn open(next_at: i64) -> String {
    let open = json!({ "since": at(-300), "next_at": at(next_at), "interval_seconds": 40 });
    json!({ "by": "another", "patience_seconds": 20, "phase": { "open": open } }).to_string()
}

/// The record of this attempt of this event, which has just failed.
fn returned(id: &str, event: &str, attempt: u32) -> SqsMessage {
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
    let circuits = world.table.circuits.borrow();
    let stored = &circuits[TARGET];
    let circuit: Value = serde_json::from_str(stored.text.as_deref().unwrap()).unwrap();
    (stored.version, circuit["phase"].as_object().unwrap().keys().next().unwrap().clone())
}

#[test]
fn an_event_without_a_usable_request_id_can_be_the_probe_and_its_failure_is_recognised() {
    let nameless = |attempt: u32| returned("a", &"x".repeat(300), attempt);
    let world = World::with_probes(&open(-1), &[]);
    let mut due = nameless(1);
    due.attributes.insert("ApproximateReceiveCount".into(), "2".into());
    assert_eq!(outcomes(&handle(&world, vec![due])), ["invoked"]);
    assert_eq!(stored(&world), (8, "probing".to_owned()));
    handle(&world, vec![nameless(2)]);
    assert_eq!(stored(&world), (9, "open".to_owned()));
}

#[test]
fn a_handler_that_knows_of_a_step_takes_it_with_a_first_failure() {
    let first = |id, failed_at: i64| {
        let mut message = failed(id, 0);
        let body = message.body.unwrap();
        let at = |seconds| (start() + Duration::from_secs(seconds as u64)).to_rfc3339();
        message.body = Some(body.replace(&at(0), &at(failed_at)));
        message.attributes.insert("ApproximateReceiveCount".into(), "1".into());
        message
    };
    let world = World::with_probes(&open(30), &[]);
    let handler = world.handler();
    let report = handle_by(&world, &handler, 30, vec![first("unknown", 0)]);
    assert_eq!((outcomes(&report), world.count("look up")), (vec!["waits"], 0));
    handle_by(&world, &handler, 30, vec![due("one")]);
    assert_eq!(world.count("look up"), 1);
    world.pass_until(start() + Duration::from_secs(29));
    handle_by(&world, &handler, 30, vec![first("too soon", 29)]);
    assert_eq!(world.count("look up"), 1);
    world.pass_until(start() + Duration::from_secs(30));
    let report = handle_by(&world, &handler, 30, vec![first("in time", 30)]);
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(stored(&world).1, "probing");
}

#[test]
fn a_step_is_taken_again_if_another_handler_has_written_and_not_if_its_own_answer_was_lost() {
    let world = World::with_probes(&open(-1), &[("circuit", Answer::Repeated)]);
    let report = handle(&world, vec![due("one"), due("two")]);
    assert_eq!(outcomes(&report), ["invoked", "waits"]);
    assert_eq!(stored(&world), (8, "probing".to_owned()));
}

fn closed() -> String {
    let closed = json!({ "counts": { "since": at(0), "invoked": 0, "failed": 0 } });
    json!({ "by": "another", "patience_seconds": 20, "phase": { "closed": closed } }).to_string()
}

/// The record of this attempt of an event, which has failed a minute ago and is due.
fn due_again(event: &str, attempt: u32) -> SqsMessage {
    let ago = |seconds| (start() - Duration::from_secs(seconds)).to_rfc3339();
    let mut message = returned(event, event, attempt);
    message.body = message.body.map(|body| body.replace(&ago(0), &ago(240)));
    message.attributes.insert("ApproximateReceiveCount".into(), "2".into());
    message
}

type Outcomes = Vec<&'static str>;

/// Lets a handler handle these messages ten at a time, a batch each second.
fn handle_all(world: &World, handler: &AwsHandler, messages: Vec<SqsMessage>) -> Outcomes {
    let mut all = Vec::new();
    for messages in messages.chunks(10) {
        all.extend(outcomes(&handle_by(world, handler, 30, messages.to_vec())));
        world.pass(Duration::from_secs(1));
    }
    all
}

#[test]
fn a_fault_of_the_ledger_makes_no_target_suspected() {
    let mut world = World::with_probes(&closed(), &[("look up", throttled())]);
    let handler = world.handler();
    let events = |count| (0..count).map(|nth| format!("event {nth}"));
    // 20 of 120 retries fail.
    let made = handle_all(&world, &handler, events(120).map(|it| due(&it)).collect());
    assert_eq!(made, ["invoked"; 120]);
    let failed = events(20).map(|it| returned(&it, &format!("request of {it}"), 1));
    handle_all(&world, &handler, failed.collect());
    world.answers.clear();
    let made =
        handle_all(&world, &handler, events(40).map(|it| due(&format!("new {it}"))).collect());
    assert_eq!(made, ["invoked"; 40]);
    let circuits = world.table.circuits.borrow();
    let circuit: Value = serde_json::from_str(circuits[TARGET].text.as_deref().unwrap()).unwrap();
    let counts = &circuit["phase"]["closed"]["counts"];
    assert_eq!((&counts["invoked"], &counts["failed"]), (&json!(160), &json!(20)), "{circuit}");
}

/// A caller sends the function envelopes, as if handlers had sent them, and lets them fail.
#[test]
fn forged_failures_limit_nothing_and_true_ones_hide_in_them_in_vain() {
    for (failing, is_suspected) in [(0, false), (18, false), (60, true)] {
        let world = World::with_probes(&closed(), &[]);
        let handlers = [world.handler(), world.handler()];
        let (mut made, mut forgeries) = (Vec::new(), 0..);
        for round in 0..6 {
            let handler = &handlers[round % 2];
            let events: Vec<_> = (0..10).map(|nth| format!("event {}", 10 * round + nth)).collect();
            let due = events.iter().map(|event| due_again(event, 1)).collect();
            made.extend(handle_all(&world, handler, due));
            let failed = events.iter().enumerate().filter(|(nth, _)| 10 * round + nth < failing);
            let mut failed: Vec<_> = failed.map(|(_, event)| returned(event, event, 2)).collect();
            let forged = forgeries.by_ref().take(30).map(|nth| format!("forged {nth}"));
            failed.extend(forged.map(|event| returned(&event, &event, 1)));
            // They come to another handler than the one that has sent them, or that has not.
            handle_all(&world, &handlers[1 - round % 2], failed);
        }
        assert_eq!(
            stored(&world).1,
            if is_suspected { "suspected" } else { "closed" },
            "{failing}"
        );
        assert_eq!(made.contains(&"waits"), is_suspected, "{failing}: {made:?}");
    }
}

#[test]
fn a_circuit_of_another_program_counts_as_closed_and_is_replaced() {
    let world = World::with_probes("melted", &[]);
    let records = ["a", "b", "c", "d"].map(due).to_vec();
    assert_eq!(outcomes(&handle(&world, records)), ["invoked"; 4]);
    assert_eq!(stored(&world), (8, "closed".to_owned()));
}

#[test]
fn of_a_circuit_that_cannot_be_written_due_events_wait_unless_it_is_closed() {
    for (circuit, expected) in [(open(-1), "waits"), (closed(), "invoked")] {
        let world = World::with_probes(&circuit, &[("circuit", throttled())]);
        let report = handle(&world, ["a", "b", "c", "d"].map(due).to_vec());
        assert_eq!(outcomes(&report), [expected; 4]);
        assert!(report.entries.iter().all(|it| it.obstacle == Some(Obstacle::Ledger)));
        assert_eq!(stored(&world).0, 7, "the circuit that was there");
    }
}

/// A circuit breaker in the function refuses calls to something else. The function itself has run.
#[test]
fn an_open_circuit_breaker_in_a_function_is_no_evidence_that_the_function_is_down() {
    for (error_type, is_suspected) in [("app.Down", true), ("CircuitBreakerOpenError", false)] {
        let world = World::with_probes(&closed(), &[]);
        let handlers = [world.handler(), world.handler()];
        for round in 0..6 {
            let events: Vec<_> = (0..10).map(|nth| format!("event {}", 10 * round + nth)).collect();
            let due = events.iter().map(|event| due_again(event, 1)).collect();
            handle_all(&world, &handlers[round % 2], due);
            // Events of which no handler knows fail, too, so that there is enough to judge by.
            let others = (0..30).map(|nth| format!("other {}", 30 * round + nth));
            let failed = events.iter().cloned().chain(others).map(|event| {
                let mut message = returned(&event, &event, 2);
                let error =
                    format!(r#""responsePayload":{{"errorType":"{error_type}"}},"requestPayload""#);
                message.body = message.body.map(|body| body.replace("\"requestPayload\"", &error));
                message
            });
            handle_all(&world, &handlers[1 - round % 2], failed.collect());
        }
        let expected = if is_suspected { "suspected" } else { "closed" };
        assert_eq!(stored(&world).1, expected, "{error_type}");
    }
}
