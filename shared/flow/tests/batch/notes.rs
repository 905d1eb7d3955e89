//! Batches of functions that are retried without an envelope. Which handler dies when is searched and simulated; here
//! is what is written when, and what happens if the notes can't be read or written.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Attempt, Timestamp,
    claim::State,
    envelope::RetryMetadata,
    fault::FaultKind,
    note::{Sending, note_key, sendings_key},
    time::later,
};
use comeback_flow::report::Obstacle;

use crate::{
    THROTTLED,
    world::{
        Answer, Meddling, TARGET, World, due, failed, handle, key_of, outcomes, poison, start,
        waiting,
    },
};

const FUNCTION: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders";

fn transparent(answers: &[(&'static str, Answer)]) -> World {
    let mut world = World::with_ledger(answers);
    world.transparent = true;
    world
}

/// The failure record of an event's run with this request id.
fn of_run(mut record: SqsMessage, id: &str, request_id: &str) -> SqsMessage {
    let own = format!("request of {id}");
    record.body = record.body.map(|body| body.replace(&own, request_id));
    record
}

fn payload(id: &str) -> String {
    format!("\"payload of {id}\"")
}

/// What an envelope of the first retry would say.
fn retried() -> RetryMetadata {
    RetryMetadata::first(start() - Duration::from_secs(700), "the first")
}

/// Notes that a handler was sending this event's payload since then, and until when it holds its claim.
fn begin(world: &World, id: &str, since: Timestamp, until: Timestamp) {
    let sending =
        Sending { sender: "dead/0".to_owned(), metadata: retried(), since, until }.to_json();
    let mut sendings = world.sendings.borrow_mut();
    let of_payload = sendings.entry(sendings_key(FUNCTION, &payload(id))).or_default();
    of_payload.insert("dead/0".to_owned(), sending);
}

/// How many sendings of this payload there are.
fn sendings(world: &World, id: &str) -> usize {
    world.sendings.borrow().get(&sendings_key(FUNCTION, &payload(id))).map_or(0, |all| all.len())
}

fn note(world: &World, request_id: &str) -> Option<RetryMetadata> {
    RetryMetadata::read(world.notes.borrow().get(&note_key(FUNCTION, request_id))?)
}

#[tokio::test(start_paused = true)]
async fn a_function_gets_its_own_bytes_and_the_ledger_notes_the_attempt_under_the_retrys_id() {
    let world = transparent(&[]);
    let report = handle(&world, vec![failed("a", 600), waiting("b"), poison("c")]).await;
    assert_eq!(outcomes(&report), ["invoked", "waits", "unreadable"]);
    assert_eq!(world.invocations.borrow()[0].1, payload("a"));
    assert_eq!(*world.recalls.borrow(), [2], "one read for the batch");
    assert_eq!(world.ledger_calls.borrow().len(), 2, "the notes are written with the claim");
    assert_eq!(sendings(&world, "a"), 0);
    let first = note(&world, "retry-1").unwrap();
    assert_eq!(
        (first.attempt, first.request_id.as_deref()),
        (Attempt::FIRST, Some("request of a"))
    );
    assert_eq!(world.claims()[&key_of("a")].state, State::Done);

    // The retry fails.
    let report = handle(&world, vec![of_run(failed("a", 120), "a", "retry-1")]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    let second = note(&world, "retry-2").unwrap();
    assert_eq!(second.attempt, Attempt::FIRST.next());
    assert_eq!(second.request_id, first.request_id);
    assert_eq!(second.initial_timestamp, first.initial_timestamp);
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_looks_like_an_envelope_is_one_unless_there_is_a_note() {
    let metadata = RetryMetadata::first(start(), "of a stranger").to_json();
    let looks = format!(r#"{{"_retry_metadata":{metadata},"_original_payload":1.0}}"#);
    let world = transparent(&[]);
    let mut record = due("a");
    record.body = record.body.map(|body| body.replace(&payload("a"), &looks));
    let report = handle(&world, vec![record.clone()]).await;
    assert_eq!(outcomes(&report), ["waits"], "the second attempt, two minutes after the failure");
    world.notes.borrow_mut().insert(note_key(FUNCTION, "request of a"), retried().to_json());
    record.body = record.body.map(|body| body.replace("2026-02-01T11:59", "2026-02-01T11:49"));
    let report = handle(&world, vec![record]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(world.invocations.borrow()[0].1, looks);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_of_an_event_that_had_an_envelope_is_noted_under_the_payload_in_it() {
    let world = transparent(&[("payload of", Answer::Fault(THROTTLED))]);
    let (payload, metadata) = (payload("a"), retried().to_json());
    let envelope = format!(r#"{{"_retry_metadata":{metadata},"_original_payload":{payload}}}"#);
    let mut record = failed("a", 600);
    record.body = record.body.map(|body| body.replace(&payload, &envelope));
    assert_eq!(outcomes(&handle(&world, vec![record]).await), ["waits"]);
    assert_eq!(world.invocations.borrow()[0].1, payload);
    assert_eq!(sendings(&world, "a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_fails_before_the_note_is_written_is_waited_for_and_nothing_is_counted() {
    let mut world = transparent(&[]);
    world.registers = true;
    begin(&world, "a", start() - Duration::from_secs(61), later(start(), Duration::from_secs(20)));
    let report = handle(&world, vec![due("a"), due("b")]).await;
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    assert_eq!(world.visibility_calls.borrow()[0].1, [("handle of a".to_owned(), 20)]);
    assert!(!world.claims().contains_key(&key_of("a")), "neither claimed nor listed");
    assert_eq!(sendings(&world, "a"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_sending_of_a_handler_that_died_is_taken_for_the_records_own() {
    let world = transparent(&[]);
    begin(&world, "a", start() - Duration::from_secs(610), start() - Duration::from_secs(570));
    let report = handle(&world, vec![failed("a", 600)]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(note(&world, "request of a").unwrap().attempt.get(), 1);
    assert_eq!(note(&world, "retry-1").unwrap().attempt.get(), 2);
    assert_eq!(sendings(&world, "a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sending_stays_if_lambda_may_have_accepted_it_and_goes_if_lambda_refused_it() {
    let configuration = Answer::Fault(FaultKind::Configuration);
    for registers in [false, true] {
        for (answer, expected) in [(Answer::Fault(THROTTLED), 1), (configuration, 0)] {
            let answers = [("payload of", answer)];
            let mut world = transparent(&answers);
            world.registers = registers;
            let report = handle(&world, vec![due("a")]).await;
            assert_eq!(outcomes(&report), ["waits"]);
            assert_eq!(sendings(&world, "a"), expected, "{registers}");
            assert!(world.notes.borrow().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_wait_if_their_notes_cannot_be_read_or_taken_and_no_attempt_is_lost() {
    for (part, is_fault) in [("recall", true), ("adopt", true), ("nothing", false)] {
        let world = transparent(&[(part, Answer::Fault(THROTTLED))]);
        begin(&world, "a", start() - Duration::from_secs(610), start() - Duration::from_secs(570));
        let report = handle(&world, vec![failed("a", 600), poison("b")]).await;
        let expected = if is_fault { "waits" } else { "invoked" };
        assert_eq!(outcomes(&report), [expected, "unreadable"]);
        assert_eq!(report.entries[0].obstacle, is_fault.then_some(Obstacle::Ledger));
        assert_eq!(sendings(&world, "a"), usize::from(is_fault));
    }
    // SQS deletes the message soon, so it is given up.
    let world = transparent(&[("recall", Answer::Fault(THROTTLED))]);
    let report = handle(&world, vec![failed("a", 14 * 86_400)]).await;
    assert_eq!(outcomes(&report), ["max_age_exceeded"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_holds_up_no_message_of_another_function_for_long() {
    let world = transparent(&[("recall", Answer::Never)]);
    let other = || {
        let mut other = due("b");
        other.body = other.body.map(|body| body.replace("function:orders", "function:enveloped"));
        other
    };
    let report = crate::handle_within(10, &world, vec![due("a"), other()]).await;
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    assert_eq!(report.entries[0].obstacle, Some(Obstacle::Ledger));
    assert_eq!(world.invocations.borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sending_whose_taking_hangs_holds_up_no_message_whose_note_was_read() {
    let world = transparent(&[("adopt", Answer::Never)]);
    begin(&world, "a", start() - Duration::from_secs(610), start() - Duration::from_secs(570));
    world.notes.borrow_mut().insert(note_key(FUNCTION, "request of b"), retried().to_json());
    let report = crate::handle_within(10, &world, vec![failed("a", 600), failed("b", 600)]).await;
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    assert_eq!(report.entries[0].obstacle, Some(Obstacle::Ledger));
    assert_eq!(sendings(&world, "a"), 1);
}

/// Otherwise the next failure with the same payload would wait for this handler, and then be taken for its retry.
#[tokio::test(start_paused = true)]
async fn a_handler_that_loses_its_claim_takes_back_what_it_has_announced_and_not_sent() {
    for meddling in [&[Meddling::Removed][..], &[Meddling::Removed, Meddling::Late]] {
        let configuration = Answer::Fault(FaultKind::Configuration);
        let mut world = transparent(&[("payload of a", configuration)]);
        world.registers = true;
        world.meddling.borrow_mut().extend(meddling);
        assert_eq!(outcomes(&handle(&world, vec![due("a")]).await), ["waits"]);
        assert_eq!(sendings(&world, "a"), 0, "{meddling:?}");
        assert_eq!(world.claims()[&key_of("a")].state, State::Waiting, "{meddling:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn functions_with_an_envelope_read_no_notes() {
    let world = World::with_ledger(&[]);
    assert_eq!(outcomes(&handle(&world, vec![due("a")]).await), ["invoked"]);
    assert!(world.recalls.borrow().is_empty());
    assert!(world.sendings.borrow().is_empty() && world.notes.borrow().is_empty());
    assert!(world.invocations.borrow()[0].0 == TARGET);
}
