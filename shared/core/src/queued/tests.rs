//! How messages of queues whose consumers failed are read, scheduled, sent back, given up and redriven.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    attribute::is_accepted,
    dead_letter::DeadLetter,
    decision::{Decision, Judgement, Settlement, decide},
    failure::Failure,
    key::Key,
    message::{Message, MessageAttributes},
    testing::{self, RECORD, at, home, rules},
    time::later,
};

const IMPORTS: &str = "arn:aws:sqs:us-east-1:123456789012:imports";
const RETRIED: &str = r#"{"attempt":2,"initial_timestamp":1769947140,"request_id":"m-0"}"#;
const BOUND: &[(&str, &str)] = &[("QUEUE_TARGETS", r#"{"retry-imports":["sqs:imports"]}"#)];

/// When the producer sent the message, when it failed, and much later.
fn sent_at() -> Timestamp {
    at("2026-02-01T11:50:00Z")
}

fn failed_at() -> Timestamp {
    at("2026-02-01T12:00:00.250Z")
}

fn text<'a>(name: &'a str, value: &'a str) -> Attribute<'a> {
    Attribute::text(name, value)
}

fn binary<'a>(name: &'a str, value: &'a [u8]) -> Attribute<'a> {
    let value = Value::Binary(value.into());
    Attribute { name: name.into(), data_type: "Binary.x".into(), value }
}

/// A message with these attributes, as the handler reads it.
fn message<'a>(body: &'a str, attributes: &'a [Attribute<'a>]) -> Message<'a> {
    let named = testing::attributes(attributes);
    let named = MessageAttributes { all: attributes.to_vec(), ..named };
    Message {
        id: "m-1",
        queue: Some("retry-imports"),
        body,
        receive_count: 2,
        sent_at: Some(sent_at()),
        first_received_at: Some(failed_at()),
        attributes: named,
        ..Message::default()
    }
}

/// The same, moved by the redrive policy of the queue of imports.
fn moved<'a>(body: &'a str, attributes: &'a [Attribute<'a>]) -> Message<'a> {
    Message { moved_from: Some(IMPORTS), ..message(body, attributes) }
}

fn judged<'a>(message: Message<'a>, variables: &[(&str, &str)], now: Timestamp) -> Judgement<'a> {
    decide(message, &home(), &rules(variables), now)
}

fn failure<'j, 'a>(judgement: &'j Judgement<'a>) -> &'j Failure<'a> {
    judgement.failure.as_ref().unwrap()
}

fn given_up(reason: Reason) -> Decision {
    Decision::Settle(Settlement::DeadLetter(reason))
}

fn due(judgement: &Judgement<'_>) -> Timestamp {
    judgement.schedule.unwrap().due
}

/// The attributes with which a due message is sent back.
fn sent_back<'j>(judgement: &'j Judgement<'_>) -> Vec<Attribute<'j>> {
    failure(judgement).attributes(judgement.schedule.unwrap().attempt).unwrap()
}

/// The dead letter, as a redrive moves it back.
fn redriven<'a>(letter: &'a DeadLetter<'_>, attributes: &'a [Attribute<'a>]) -> Message<'a> {
    Message { id: "m-2", first_received_at: None, ..message(&letter.body, attributes) }
}

fn attributes_of<'a>(letter: &'a DeadLetter<'_>) -> Vec<Attribute<'a>> {
    letter.attributes.iter().map(|(name, value)| text(name, value)).collect()
}

#[test]
fn a_moved_message_is_a_failure_of_its_queue_whatever_its_body_and_attributes_look_like() {
    let letter = [
        text("Reason", "target_not_allowed"),
        text("FunctionArn", "arn:aws:lambda:us-east-1:123456789012:function:orders"),
        text("RequestId", "r-7"),
        text("SourceQueueArn", "arn:aws:sqs:us-east-1:123456789012:others"),
    ];
    let delayed = [text("FailedAt", "2020-01-01T00:00:00Z"), text("MessageId", "other")];
    let bare = [text("RequestID", "r-7"), binary("FailedAt", b"\0")];
    let envelope =
        r#"{"_retry_metadata":{"attempt":7,"initial_timestamp":1},"_original_payload":1}"#;
    for body in ["no JSON", "{\"a\":1.0}", "null", RECORD, envelope, " "] {
        for attributes in [&[][..], &letter, &delayed, &bare] {
            let judgement = judged(moved(body, attributes), BOUND, failed_at());
            let failure = failure(&judgement);
            assert_eq!(failure.target.name(), "sqs:imports");
            assert_eq!(failure.target.as_str(), IMPORTS);
            assert_eq!((failure.failed_at, failure.attempts_made()), (failed_at(), 0), "{body}");
            assert_eq!(failure.first_request_id(), Some("m-1"));
            assert_eq!(failure.key(), Key::of(&failure.target, body, "m-1"));
            assert_eq!(failure.event.as_ref().unwrap().payload(), body);
            assert_eq!(failure.error.error_type, None);
            assert!(judgement.accepted().is_some());
            let until = at("2026-02-01T12:00:01.250Z");
            assert_eq!(judgement.decision, Decision::Settle(Settlement::Wait { until }));
        }
    }
}

#[test]
fn without_a_queue_among_the_targets_a_moved_message_is_what_it_was_before() {
    for variables in [
        &[][..],
        &[("TARGET_FUNCTIONS", "*,arn:*")],
        &[("QUEUE_TARGETS", r#"{"retry-imports":["my-function"]}"#)],
        &[
            ("QUEUE_TARGETS", r#"{"retry-imports":["my-function"],"other":["sqs:imports"]}"#),
            ("TARGET_FUNCTIONS", "my-*,sqs:imports"),
        ],
    ] {
        let judgement = judged(moved(RECORD, &[]), variables, at("2019-11-14T18:17:00Z"));
        assert_eq!(failure(&judgement).target.name(), "my-function", "{variables:?}");
        assert_eq!(judgement.decision, Decision::Invoke);
        let unread = judged(moved("no JSON", &[]), variables, failed_at());
        assert_eq!(unread.decision, given_up(Reason::Unreadable), "{variables:?}");
    }
}

#[test]
fn a_queue_is_a_target_only_where_its_name_or_arn_says_so() {
    let waits = |variables: &[(&str, &str)], from| {
        let message = Message { moved_from: Some(from), ..moved("x", &[]) };
        let judgement = judged(message, variables, failed_at());
        assert_eq!(judgement.accepted().is_some(), judgement.schedule.is_some());
        let is_waiting = matches!(judgement.decision, Decision::Settle(Settlement::Wait { .. }));
        let is_refused = judgement.decision == given_up(Reason::TargetNotAllowed);
        assert!(is_waiting != is_refused, "{variables:?} {from}");
        is_waiting
    };
    let others = "arn:aws:sqs:us-east-1:123456789012:others";
    let abroad = "arn:aws:sqs:eu-west-1:123456789012:imports";
    let retry = "arn:aws:sqs:us-east-1:123456789012:retry-imports";
    let by_arn = format!(r#"{{"retry-imports":["{IMPORTS}"]}}"#);
    for (variables, allowed) in [
        (BOUND, [true, false, false, false]),
        (&[("QUEUE_TARGETS", &*by_arn)], [true, false, false, false]),
        (&[("TARGET_FUNCTIONS", "orders,sqs:imports")], [true, false, false, false]),
        (&[("TARGET_FUNCTIONS", IMPORTS)], [true, false, false, false]),
        (&[("TARGET_FUNCTIONS", "sqs:*")], [true, true, false, false]),
        (&[("TARGET_FUNCTIONS", "arn:aws:sqs:*:imports")], [true, false, false, false]),
        (&[("TARGET_FUNCTIONS", "sqs:others")], [false, true, false, false]),
        (
            &[("TARGET_FUNCTIONS", "sqs:others"), ("QUEUE_TARGETS", &*by_arn)],
            [true, false, false, false],
        ),
    ] {
        let got = [IMPORTS, others, abroad, retry].map(|from| waits(variables, from));
        assert_eq!(got, allowed, "{variables:?}");
    }
}

#[test]
fn a_message_failed_when_it_was_received_first_whether_or_not_the_move_begins_the_receives_anew() {
    let policy = &[BOUND[0], ("BASE_BACKOFF", "1h"), ("MAX_BACKOFF", "4h")];
    // If it doesn't, SQS says when the consumer received it first; else, when the handler did.
    for first_received_at in [at("2026-02-01T11:50:01Z"), failed_at()] {
        let received = |now| {
            let first_received_at = Some(first_received_at);
            judged(Message { first_received_at, ..moved("x", &[]) }, policy, now)
        };
        let first = received(failed_at());
        assert_eq!(failure(&first).failed_at, first_received_at);
        assert!(due(&first) >= later(first_received_at, Duration::from_hours(1)));
        let now_due = received(due(&first));
        assert_eq!((now_due.decision, sent_back(&now_due).len()), (Decision::Invoke, 1));
    }
    let undated = Message { first_received_at: None, ..moved("x", &[]) };
    assert_eq!(failure(&judged(undated, BOUND, failed_at())).failed_at, sent_at(), "an emulator's");
}

#[test]
fn metadata_is_judged_as_that_of_an_envelope() {
    let (now, first) = (failed_at(), at("2026-02-01T11:59:00Z"));
    for (value, attempts, first_failure, id) in [
        (RETRIED, 2, first, Some("m-0")),
        (r#"{"attempt":2,"initial_timestamp":1769947140}"#, 2, first, None),
        (r#"{"attempt":1,"initial_timestamp":9999999999}"#, 1, now, None),
        ("no JSON", 0, now, Some("m-1")),
    ] {
        let attributes = [text(METADATA, value), text("tenant", "blue")];
        let judgement = judged(moved("x", &attributes), BOUND, now);
        let failure = failure(&judgement);
        assert_eq!(failure.attempts_made(), attempts, "{value:.80}");
        assert_eq!(failure.first_failure(), first_failure, "{value:.80}");
        assert_eq!(failure.first_request_id(), id, "{value:.80}");
        let sent = sent_back(&judgement);
        assert_eq!(sent.len(), 2, "{value:.80}");
        assert_eq!(sent[0], text("tenant", "blue"));
    }
    let attributes = [binary(METADATA, br#"{"attempt":2,"initial_timestamp":5}"#)];
    let judgement = judged(moved("x", &attributes), BOUND, now);
    assert_eq!(failure(&judgement).attempts_made(), 0);
    assert_eq!(sent_back(&judgement).len(), 1, "ours replaces it");
}

#[test]
fn what_a_producer_escapes_in_its_metadata_goes_back_as_sqs_accepts_it_and_means_the_same() {
    let id = "\u{ffff}\u{1}é";
    let mut value =
        r#"{"attempt":1,"initial_timestamp":1769947140,"request_id":"\uffff\u0001é","\ufffe":"\uffff"}"#
            .to_owned();
    for attempts in 1..4 {
        let attributes = [text(METADATA, &value)];
        let judgement = judged(moved("x", &attributes), BOUND, failed_at());
        assert_eq!(failure(&judgement).attempts_made(), attempts);
        assert_eq!(failure(&judgement).first_request_id(), Some(id), "attempt {attempts}");
        let sent = sent_back(&judgement);
        let [Attribute { value: Value::Text(metadata), .. }] = &sent[..] else {
            panic!("{sent:?}")
        };
        assert!(metadata.chars().all(is_accepted), "{metadata:?}");
        assert!(metadata.ends_with(r#","\ufffe":"\uffff"}"#), "{metadata}");
        value = metadata.clone().into_owned();
    }
}

#[test]
fn a_message_fits_with_its_metadata_up_to_the_last_byte() {
    let attributes = [binary("key", &[7; 100])];
    let small = judged(moved("x", &attributes), BOUND, failed_at());
    let room = SIZE_MAX - message_size("", &sent_back(&small));
    for (size, fits) in [(room, true), (room + 1, false)] {
        let body = "x".repeat(size);
        let judgement = judged(moved(&body, &attributes), BOUND, failed_at());
        if fits {
            assert_eq!(message_size(&body, &sent_back(&judgement)), SIZE_MAX);
        } else {
            assert_eq!(judgement.decision, given_up(Reason::PayloadTooLarge));
        }
    }
}

#[test]
fn a_message_is_given_up_before_sqs_deletes_it_14_days_after_its_producer_sent_it() {
    let variables =
        &[BOUND[0], ("MAX_AGE", "365d"), ("BASE_BACKOFF", "1h"), ("MAX_BACKOFF", "13d")];
    let days = |days: u64| later(sent_at(), Duration::from_hours(24 * days));
    let failed_after = |after| {
        let message = Message { first_received_at: Some(days(after)), ..moved("x", &[]) };
        judged(message, variables, days(after))
    };
    for after in [1, 6, 12] {
        let judgement = failed_after(after);
        assert!(due(&judgement) <= days(13), "after {after} days: {judgement:?}");
        assert!(judgement.schedule.unwrap().expiry < days(14));
    }
    assert_eq!(failed_after(13).decision, given_up(Reason::MaxAgeExceeded));
}

#[test]
fn a_full_message_keeps_every_byte_and_its_attributes_before_the_name_of_its_queue() {
    let attributes = [binary("key", &[7; 300])];
    for spare in [0, 1, 28, 29, 100, 400, 480, 560, 700, 2000] {
        let body = "x".repeat(SIZE_MAX - spare - message_size("", &attributes));
        for reason in [Reason::PayloadTooLarge, Reason::TargetNotAllowed] {
            let judgement = judged(moved(&body, &attributes), BOUND, failed_at());
            let letter = judgement.dead_letter(reason);
            assert!(letter.body == body && letter.size() <= SIZE_MAX, "{spare} to spare");
            let has = |name| letter.attributes.iter().any(|(other, _)| *other == name);
            assert!(!has("SourceQueueArn") || has("OriginalAttributes"), "{spare} to spare");
        }
    }
}

#[test]
fn a_redriven_letter_reaches_only_a_queue_that_is_bound() {
    let given_up = judged(moved("x", &[]), BOUND, failed_at());
    for reason in [Reason::MaxAgeExceeded, Reason::TargetNotAllowed] {
        let letter = given_up.dead_letter(reason);
        let attributes = attributes_of(&letter);
        for (variables, allowed) in [
            (BOUND, true),
            (&[][..], false),
            (&[("QUEUE_TARGETS", r#"{"retry-imports":["sqs:others"]}"#)], false),
            (&[("QUEUE_TARGETS", r#"{"other":["sqs:imports"]}"#)], false),
        ] {
            let again = judged(redriven(&letter, &attributes), variables, failed_at());
            assert_eq!(again.accepted().is_some(), allowed, "{reason} {variables:?}");
        }
    }
    let letter = given_up.dead_letter(Reason::MaxAgeExceeded);
    let mut attributes = attributes_of(&letter);
    attributes.push(text("OriginalAttributes", "no JSON"));
    let broken = judged(redriven(&letter, &attributes), BOUND, failed_at());
    assert_eq!(broken.decision, self::given_up(Reason::Unreadable));
}

#[test]
fn a_wait_stays_in_flight_where_its_attributes_leave_no_room_or_could_be_mistaken() {
    let names: Vec<_> = (0..8).map(|nth| format!("a{nth}")).collect();
    let attributes: Vec<_> = names.iter().map(|name| text(name, "x")).collect();
    let may = |body: &str, attributes: &[Attribute<'_>]| {
        let judgement = judged(moved(body, attributes), BOUND, failed_at());
        failure(&judgement).may_be_sent_again(&judgement.message)
    };
    assert!(may("x", &attributes[..7]) && !may("x", &attributes));
    for name in ["FailedAt", "MessageId", "SourceQueueArn", "Reason"] {
        assert!(!may("x", &[text(name, "x")]), "{name}");
    }
    assert!(!may(&"x".repeat(SIZE_MAX - 110), &[]));
}

fn attribute(name: &str, data_type: &str, value: Value<'static>) -> Attribute<'static> {
    Attribute { name: name.to_owned().into(), data_type: data_type.to_owned().into(), value }
}

#[test]
fn what_is_no_list_of_attributes_is_refused_as_a_whole() {
    for json in [
        "",
        "[]",
        "{",
        r#"{"a":"b"}"#,
        r#"{"a":{"type":"String"}}"#,
        r#"{"a":{"type":"Binary","value":"no base64"}}"#,
        r#"{"a":{"type":"String","value":7}}"#,
    ] {
        assert_eq!(read_attributes(json), None, "{json}");
    }
    assert_eq!(read_attributes("{}"), Some(Vec::new()));
}

proptest! {
    #[test]
    fn every_attribute_comes_back_as_it_was(
        texts in prop::collection::btree_map("[a-z_.-]{1,9}", ("(String|Number)([.][a-z]{1,5})?", any::<String>()), 0..6),
        bytes in prop::collection::btree_map("[A-Z]{1,9}", prop::collection::vec(any::<u8>(), 0..40), 0..5),
    ) {
        let texts = texts.iter().map(|(name, (kind, text))| attribute(name, kind, Value::Text(text.clone().into())));
        let bytes = bytes.iter().map(|(name, bytes)| attribute(name, "Binary", Value::Binary(bytes.clone().into())));
        let mut attributes: Vec<_> = texts.chain(bytes).collect();
        let queued = Queued::fresh("x".into(), attributes.clone());
        let json = queued.attributes_json();
        prop_assert_eq!(json.is_none(), attributes.is_empty());
        let read = json.map_or(Some(Vec::new()), |json| read_attributes(&json));
        attributes.sort_by(|a, b| a.name.cmp(&b.name));
        prop_assert_eq!(read, Some(attributes));
    }
}
