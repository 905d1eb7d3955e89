//! Events that EventBridge could not deliver go to the one target that has missed them.

use std::collections::BTreeMap;

use aws_lambda_events::event::sqs::SqsMessage;

use crate::{
    queues::{bound, text},
    services::{Answer, throttled},
    world::{TARGET, World, handle, key_of, message, outcomes, start, waiting},
};

pub const RULE: &str = "arn:aws:events:us-east-1:123456789012:rule/links";
pub const IMPORTS: &str = "arn:aws:sqs:us-east-1:123456789012:imports";

/// A rule's event that could not be delivered to this target, sent this many seconds ago.
pub fn undelivered(id: &str, target: &str, seconds_ago: i64) -> SqsMessage {
    let mut message = message(id, &format!(r#""payload of {id}""#));
    let sent_at = start().timestamp_millis() - 1000 * seconds_ago;
    message.attributes.insert("SentTimestamp".to_owned(), sent_at.to_string());
    let attributes = [
        ("RULE_ARN", RULE),
        ("TARGET_ARN", target),
        ("ERROR_CODE", "THROTTLING"),
        ("RETRY_ATTEMPTS", "185"),
    ];
    for (name, value) in attributes {
        message.message_attributes.insert(name.to_owned(), text(value));
    }
    message
}

#[test]
fn an_event_waits_and_is_then_delivered_to_its_target_as_it_is() {
    let world = bound(World::new(&[]));
    let abroad = TARGET.replace("us-east-1", "eu-west-1");
    let records = vec![
        undelivered("new", TARGET, 0),
        undelivered("function", TARGET, 60),
        undelivered("queue", IMPORTS, 60),
        undelivered("forged", &abroad, 60),
    ];
    let report = handle(&world, records);
    assert_eq!(outcomes(&report), ["waits", "invoked", "invoked", "target_not_allowed"]);
    let targets: Vec<_> = report.entries.iter().map(|entry| entry.target.as_deref()).collect();
    assert_eq!(targets, [Some("orders"), Some("orders"), Some("sqs:imports"), None]);
    let invocations = world.invocations();
    let [invoke] = &invocations[..] else { panic!("{invocations:?}") };
    assert_eq!((&*invoke.target, &*invoke.message.body), (TARGET, r#""payload of function""#));
    let sent = (r#""payload of queue""#.to_owned(), vec![]);
    assert_eq!(world.sent_again(), [sent], "without attributes, as EventBridge sends it");
}

#[test]
fn an_event_that_its_function_does_not_accept_waits_until_it_is_too_old() {
    let answers = [("letter of", Answer::Accepted), ("payload of", throttled())];
    let world = bound(World::new(&answers));
    let hour = 3600;
    let records = vec![
        undelivered("throttled", TARGET, hour),
        undelivered("refused", IMPORTS, hour),
        undelivered("old", TARGET, 25 * hour),
    ];
    let report = handle(&world, records);
    assert_eq!(outcomes(&report), ["waits", "waits", "max_age_exceeded"]);
    let letters = world.letter_calls();
    let letter: BTreeMap<_, _> = letters[0][0].attributes.iter().cloned().collect();
    assert_eq!((&*letter["SourceArn"], &*letter["FunctionArn"]), (RULE, TARGET));
    assert_eq!((&*letter["Attempts"], &*letter["ErrorType"]), ("0", "THROTTLING"));
    assert_eq!(letters[0][0].body, r#""payload of old""#);
}

#[test]
fn an_event_is_delivered_once_however_often_its_message_comes() {
    for is_transparent in ["false", "true"] {
        let world = bound(World::with_ledger(&[])).with("TRANSPARENT", is_transparent);
        for expected in ["invoked", "duplicate"] {
            let records = vec![undelivered("a", TARGET, 60), undelivered("b", IMPORTS, 60)];
            assert_eq!(outcomes(&handle(&world, records)), [expected; 2]);
        }
        assert_eq!(world.invocations().len(), 1);
        assert!(world.look_ups().is_empty(), "no earlier attempt is looked for");
        assert_eq!(world.count("recall"), 0);
        // A failure of the function is the first of an event of its own.
        let runs = world.runs();
        assert!(runs.values().all(|known| known.note.is_none() && known.calls.is_empty()));
        assert!(!runs.contains_key(&key_of("a")), "the key of a record's run");
    }
}

#[test]
fn a_wait_that_becomes_a_delay_takes_along_what_names_the_target_and_the_rule() {
    let mut world = bound(World::new(&[]));
    world.in_flight = 200_000;
    let mut schedule = undelivered("a", TARGET, 0);
    for name in [
        "ERROR_MESSAGE",
        "EXECUTION_ID",
        "EXHAUSTED_RETRY_CONDITION",
        "IS_PAYLOAD_TRUNCATED",
        "SCHEDULED_TIME",
    ] {
        schedule.message_attributes.insert(name.to_owned(), text("x"));
    }
    let mut records = vec![schedule];
    records.extend((0..9).map(|nth| waiting(&format!("w{nth}"))));
    let report = handle(&world, records);
    assert_eq!(outcomes(&report), ["delayed"; 10]);
    let mut sent = world.sent_again().into_iter().map(|(_, names)| names);
    let mut names = sent.find(|names| names.contains(&"RULE_ARN".to_owned())).unwrap();
    names.sort_unstable();
    let expected = [
        "ERROR_CODE",
        "ERROR_MESSAGE",
        "FailedAt",
        "IS_PAYLOAD_TRUNCATED",
        "MessageId",
        "RULE_ARN",
        "TARGET_ARN",
    ];
    assert_eq!(names, expected);
}

#[test]
fn an_event_that_was_never_delivered_is_no_sign_that_its_function_is_down() {
    let world = bound(World::with_probes("", &[]));
    let records = (0..20).map(|nth| undelivered(&format!("m{nth}"), TARGET, 60));
    let report = handle(&world, records.collect());
    assert_eq!(outcomes(&report), ["invoked"; 20]);
    assert!(report.targets.is_empty(), "{:?}", report.targets);
}
