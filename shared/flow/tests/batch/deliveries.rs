//! Events that EventBridge could not deliver go to the one target that has missed them.

use std::collections::BTreeMap;

use aws_lambda_events::event::sqs::SqsMessage;

use super::*;
use crate::{
    queues::{bound, text},
    world::{TARGET, key_of, start},
};

const RULE: &str = "arn:aws:events:us-east-1:123456789012:rule/links";
const IMPORTS: &str = "arn:aws:sqs:us-east-1:123456789012:imports";

/// A rule's event that could not be delivered to this target, sent this many seconds ago.
fn undelivered(id: &str, target: &str, seconds_ago: i64) -> SqsMessage {
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

#[tokio::test(start_paused = true)]
async fn an_event_waits_and_is_then_delivered_to_its_target_as_it_is() {
    let world = bound(World::new(&[]));
    let abroad = TARGET.replace("us-east-1", "eu-west-1");
    let records = vec![
        undelivered("new", TARGET, 0),
        undelivered("function", TARGET, 60),
        undelivered("queue", IMPORTS, 60),
        undelivered("forged", &abroad, 60),
    ];
    let report = handle(&world, records).await;
    assert_eq!(outcomes(&report), ["waits", "invoked", "invoked", "target_not_allowed"]);
    let targets: Vec<_> = report.entries.iter().map(|entry| entry.target.as_deref()).collect();
    assert_eq!(targets, [Some("orders"), Some("orders"), Some("sqs:imports"), None]);
    let invocations = world.invocations.borrow();
    let [(function, payload, _)] = &invocations[..] else { panic!("{invocations:?}") };
    assert_eq!((&**function, &**payload), (TARGET, r#""payload of function""#));
    assert_eq!(*world.sent_again.borrow(), [r#""payload of queue""#]);
    assert_eq!(*world.names_sent_again.borrow(), [[""; 0]], "as EventBridge sends it");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_its_function_does_not_accept_waits_until_it_is_too_old() {
    let answers = [("letter of", Answer::Accepted), ("payload of", Answer::Fault(THROTTLED))];
    let world = bound(World::new(&answers));
    let hour = 3600;
    let records = vec![
        undelivered("throttled", TARGET, hour),
        undelivered("refused", IMPORTS, hour),
        undelivered("old", TARGET, 25 * hour),
    ];
    let report = handle(&world, records).await;
    assert_eq!(outcomes(&report), ["waits", "waits", "max_age_exceeded"]);
    let letters = world.letter_calls.borrow();
    let letter: BTreeMap<_, _> = letters[0][0].attributes.iter().cloned().collect();
    assert_eq!((&*letter["SourceArn"], &*letter["FunctionArn"]), (RULE, TARGET));
    assert_eq!((&*letter["Attempts"], &*letter["ErrorType"]), ("0", "THROTTLING"));
    assert_eq!(letters[0][0].body, r#""payload of old""#);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_delivered_once_however_often_its_message_comes() {
    for is_transparent in [false, true] {
        let mut world = bound(World::with_ledger(&[]));
        world.transparent = is_transparent;
        for expected in ["invoked", "duplicate"] {
            let records = vec![undelivered("a", TARGET, 60), undelivered("b", IMPORTS, 60)];
            assert_eq!(outcomes(&handle(&world, records).await), [expected; 2]);
        }
        assert_eq!(world.invocations.borrow().len(), 1);
        assert!(world.look_ups.borrow().is_empty(), "no earlier attempt is looked for");
        assert!(world.sibling_reads.borrow().is_empty());
        // A failure of the function is the first of an event of its own.
        let runs = world.runs();
        assert!(runs.values().all(|known| known.note.is_none() && known.calls.is_empty()));
        assert!(!runs.contains_key(&key_of("a")), "the key of a record's run");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_becomes_a_delay_takes_along_what_names_the_target_and_the_rule() {
    let world = bound(World::new(&[]));
    world.in_flight.set(Some(200_000));
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
    let report = handle(&world, records).await;
    assert_eq!(outcomes(&report), ["delayed"; 10]);
    let sent = world.names_sent_again.borrow();
    let names: Vec<_> = sent
        .iter()
        .find(|names| names.contains(&"RULE_ARN".to_owned()))
        .cloned()
        .into_iter()
        .flatten()
        .collect();
    let mut names: Vec<_> = names.iter().map(String::as_str).collect();
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

#[tokio::test(start_paused = true)]
async fn an_event_that_was_never_delivered_is_no_sign_that_its_function_is_down() {
    let world = bound(World::with_probes("", &[]));
    let records = (0..20).map(|nth| undelivered(&format!("m{nth}"), TARGET, 60));
    let report = handle(&world, records.collect()).await;
    assert_eq!(outcomes(&report), ["invoked"; 20]);
    assert!(report.targets.is_empty(), "{:?}", report.targets);
}
