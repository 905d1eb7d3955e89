//! Batches of functions that are retried without an envelope. Which handler dies when is searched and simulated; here
//! is what is written when, and what happens if the ledger can't be read or written.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Attempt, Timestamp,
    claim::{Claim, State, Token},
    envelope::RetryMetadata,
    lineage::{Call, Key, Known, Note, Parent},
    time::later,
};
use comeback_flow::report::Obstacle;

use crate::{
    services::{Answer, denied, unanswered},
    world::{
        TARGET, World, due, failed, handle, handle_within, key_of, outcomes, poison, start, waiting,
    },
};

const TRACE: &str = "Root=1-aaaa;Parent=2;Sampled=1;Lineage=1:x:0";

pub fn transparent(answers: &[(&'static str, Answer)]) -> World {
    let policies = r#"{"enveloped":{"TRANSPARENT":"false"}}"#;
    World::with_ledger(answers).with("TRANSPARENT", "true").with("POLICIES", policies)
}

fn traced(mut record: SqsMessage, trace: &str) -> SqsMessage {
    record.attributes.insert("AWSTraceHeader".to_owned(), trace.to_owned());
    record
}

/// The failure record of an event's run with this request id.
pub fn of_run(mut record: SqsMessage, id: &str, request_id: &str) -> SqsMessage {
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

fn known(note: Option<Note>, calls: Vec<Call>) -> Known {
    let token = Token { generation: 1, owner: "dead/0".to_owned() };
    let expires_at = later(start(), Duration::from_hours(24));
    let claim = Claim { token, state: State::Noted, order: None, expires_at };
    Known { claim, note, calls }
}

pub fn call(since: Timestamp, until: Timestamp, root: Option<&str>) -> Call {
    Call {
        name: "dead/0".to_owned(),
        metadata: retried(),
        since,
        until,
        root: root.map(str::to_owned),
        is_repeated: false,
        taken_by: None,
    }
}

/// A handler was making this call, with the payload of this event, for the failure of another run.
pub fn begin(world: &World, id: &str, call: Call) {
    world.know(key_of(id).sibling("the first"), known(None, vec![call]));
}

/// A call that was made ten minutes ago, by a handler that has died.
fn dead() -> Call {
    call(start() - Duration::from_secs(610), start() - Duration::from_secs(570), None)
}

fn note(world: &World, key: &Key, metadata: RetryMetadata) {
    let note = Note { metadata, parent: None };
    world.know(key.clone(), known(Some(note), vec![]));
}

/// The names of the calls that the item of this event's run has.
fn calls(world: &World, id: &str) -> Vec<String> {
    let calls = world.runs().get(&key_of(id)).map_or_else(Vec::new, |known| known.calls.clone());
    calls.into_iter().map(|call| call.name).collect()
}

fn noted(world: &World, id: &str, run: &str) -> Option<Note> {
    world.runs().get(&key_of(id).sibling(run))?.note.clone()
}

#[test]
fn a_function_gets_its_own_bytes_and_the_ledger_notes_the_attempt_under_the_retrys_id() {
    let world = transparent(&[]);
    let report = handle(&world, vec![failed("a", 600), waiting("b"), poison("c")]);
    assert_eq!(outcomes(&report), ["invoked", "waits", "unreadable"]);
    assert_eq!(world.payloads()[0], payload("a"));
    assert_eq!(world.look_ups(), [(2, 0)], "one read for the batch");
    assert_eq!(world.count("recall"), 2, "and one for each of which nothing is known");
    assert_eq!(world.count("claim"), 1, "the note of the new run marks the old one");
    let first = noted(&world, "a", "retry-1").unwrap();
    let id = first.metadata.request_id.as_deref();
    assert_eq!((first.metadata.attempt, id), (Attempt::FIRST, Some("request of a")));
    let parent = Parent { run: "request of a".to_owned(), call: "the handler's/0".to_owned() };
    assert_eq!(first.parent, Some(parent));

    // The retry fails.
    let report = handle(&world, vec![of_run(failed("a", 120), "a", "retry-1")]);
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(world.count("recall"), 2, "its note was found");
    assert_eq!(world.count("claim"), 2);
    let second = noted(&world, "a", "retry-2").unwrap().metadata;
    assert_eq!(second.attempt, Attempt::FIRST.next());
    assert_eq!(second.request_id, first.metadata.request_id);
    assert_eq!(second.initial_timestamp, first.metadata.initial_timestamp);
}

#[test]
fn a_payload_that_looks_like_an_envelope_is_one_unless_there_is_a_note() {
    let metadata = RetryMetadata::first(start(), "of a stranger").to_json();
    let looks = format!(r#"{{"_retry_metadata":{metadata},"_original_payload":1.0}}"#);
    let world = transparent(&[]);
    let mut record = due("a");
    record.body = record.body.map(|body| body.replace(&payload("a"), &looks));
    let report = handle(&world, vec![record.clone()]);
    assert_eq!(outcomes(&report), ["waits"], "the second attempt, two minutes after the failure");
    let target = comeback_core::target::Target::parse(TARGET).unwrap();
    note(&world, &Key::of(&target, &looks, "request of a"), retried());
    record.body = record.body.map(|body| body.replace("2026-02-01T11:59", "2026-02-01T11:49"));
    let report = handle(&world, vec![record]);
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(world.payloads()[0], looks);
}

#[test]
fn what_is_sent_of_an_event_that_had_an_envelope_is_noted_under_the_payload_in_it() {
    let world = transparent(&[]);
    let (payload, metadata) = (payload("a"), retried().to_json());
    let envelope = format!(r#"{{"_retry_metadata":{metadata},"_original_payload":{payload}}}"#);
    let mut record = failed("a", 600);
    record.body = record.body.map(|body| body.replace(&payload, &envelope));
    assert_eq!(outcomes(&handle(&world, vec![record])), ["invoked"]);
    assert_eq!(world.payloads()[0], payload);
    assert_eq!(noted(&world, "a", "retry-1").unwrap().metadata.attempt.get(), 2);
}

#[test]
fn a_call_stays_open_if_lambda_may_have_accepted_it_and_goes_if_lambda_refused_it() {
    for registers in [false, true] {
        for (answer, is_open) in [(unanswered(), true), (denied(), false)] {
            let register = if registers { "true" } else { "false" };
            let world = transparent(&[("payload of", answer)]).with("REGISTER", register);
            let report = handle(&world, vec![due("a")]);
            assert_eq!(outcomes(&report), ["waits"]);
            assert_eq!(calls(&world, "a").len(), usize::from(is_open), "{registers}");
            let there = world.runs().get(&key_of("a")).map(|known| known.claim.state);
            let noted = is_open.then_some(State::Noted);
            assert_eq!(there, if registers { Some(State::Waiting) } else { noted });
        }
    }
}

#[test]
fn what_the_sdk_has_repeated_before_an_answer_is_open_for_records_of_the_same_trace_alone() {
    for (answer, expected) in [
        (Answer::Accepted, &["the handler's/0#1", "the handler's/0#2"][..]),
        (unanswered(), &["the handler's/0", "the handler's/0#1", "the handler's/0#2"]),
    ] {
        let is_accepted = matches!(answer, Answer::Accepted);
        let mut world = transparent(&[("payload of", answer)]);
        world.repeats = 2;
        handle(&world, vec![traced(failed("a", 600), TRACE)]);
        let run = if is_accepted { "retry-1" } else { "request of a" };
        let mut calls = world.runs()[&key_of("a").sibling(run)].calls.clone();
        calls.sort_by_key(|call| call.name.clone());
        let names: Vec<_> = calls.iter().map(|call| &*call.name).collect();
        assert_eq!(names, expected);
        assert!(calls.iter().all(|it| it.is_repeated == it.name.contains('#')));
        // The run of such a call fails.
        world.answers.clear();
        let run = traced(of_run(waiting("a"), "a", "unseen"), TRACE);
        let other = traced(of_run(waiting("a"), "a", "other"), "Root=1-bbbb");
        assert_eq!(outcomes(&handle(&world, vec![run, other])), ["waits", "waits"]);
        let runs = world.runs();
        let taken =
            runs.values().flat_map(|known| &known.calls).filter_map(|it| it.taken_by.as_deref());
        assert_eq!(taken.collect::<Vec<_>>(), ["unseen"]);
    }
}

#[test]
fn a_read_that_hangs_holds_up_no_message_of_another_function_for_long() {
    let world = transparent(&[("look up", Answer::Never)]);
    let other = || {
        let mut other = due("b");
        other.body = other.body.map(|body| body.replace("function:orders", "function:enveloped"));
        other
    };
    let report = handle_within(10, &world, vec![due("a"), other()]);
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    assert_eq!(report.entries[0].obstacle, Some(Obstacle::Ledger));
    assert_eq!(world.invocations().len(), 1);
}

#[test]
fn a_call_whose_taking_hangs_holds_up_no_message_whose_note_was_read() {
    let world = transparent(&[("take", Answer::Never)]);
    begin(&world, "a", dead());
    note(&world, &key_of("b"), retried());
    let report = handle_within(10, &world, vec![failed("a", 600), failed("b", 600)]);
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    assert_eq!(report.entries[0].obstacle, Some(Obstacle::Ledger));
}

#[test]
fn an_event_that_waits_keeps_its_note_beside_what_the_register_lists() {
    let world = transparent(&[]).with("REGISTER", "true");
    note(&world, &key_of("a"), retried());
    assert_eq!(outcomes(&handle(&world, vec![waiting("a")])), ["waits"]);
    let Known { claim, note, .. } = world.run_of("a");
    assert_eq!((claim.state, note.is_some()), (State::Waiting, true));
    assert!(claim.expires_at > later(start(), Duration::from_hours(14 * 24)), "{claim:?}");
}

#[test]
fn functions_with_an_envelope_cost_no_read() {
    let world = World::with_ledger(&[]);
    assert_eq!(outcomes(&handle(&world, vec![due("a")])), ["invoked"]);
    assert!(world.count("look up") == 0 && world.count("recall") == 0);
    assert_eq!(world.count("claim"), 2);
    assert_eq!(world.run_of("a").claim.state, State::Done);
    assert!(world.invocations()[0].target == TARGET);
}
