//! How events that EventBridge and EventBridge Scheduler could not deliver are read, bound, delivered, given up and
//! redriven.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    Attempt, Timestamp,
    arn::QueueArn,
    attribute::{Attribute, SIZE_MAX},
    dead_letter::DeadLetter,
    decision::{Decision, Judgement, Settlement, decide},
    key::Key,
    message::{FAILED_AT, MESSAGE_ID, MessageAttributes},
    reason::Reason,
    testing::{self, at, rules},
    time::{later, rfc3339_exact},
};

const RULE: &str = "arn:aws:events:us-east-1:123456789012:rule/links";
const SCHEDULE: &str = "arn:aws:scheduler:us-east-1:123456789012:schedule/default/nightly";
const ORDERS: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
const IMPORTS: &str = "arn:aws:sqs:us-east-1:123456789012:imports";
const BOUND: &[(&str, &str)] = &[("QUEUE_TARGETS", r#"{"retry":["orders","sqs:imports"]}"#)];
const EVENT: &str = r#"{"id":"17554ea1", "detail":{"amount":1.0,"big":12345678901234567890123}}"#;

fn sent_at() -> Timestamp {
    at("2026-02-01T12:00:00.250Z")
}

/// A message with these attributes, as the handler receives it from the queue `retry`.
fn message<'a>(body: &'a str, attributes: &'a [Attribute<'a>]) -> Message<'a> {
    let named = testing::attributes(attributes);
    Message {
        id: "m-1",
        queue: Some("retry"),
        body,
        receive_count: 1,
        sent_at: Some(sent_at()),
        attributes: MessageAttributes { all: attributes.to_vec(), ..named },
        ..Message::default()
    }
}

fn texts<'a>(attributes: &[(&'a str, &'a str)]) -> Vec<Attribute<'a>> {
    attributes.iter().map(|&(name, value)| Attribute::text(name, value)).collect()
}

/// The attributes of a rule that could not deliver an event to this target.
fn of_rule<'a>(target: &'a str, code: &'a str) -> Vec<Attribute<'a>> {
    texts(&[("RULE_ARN", RULE), ("TARGET_ARN", target), ("ERROR_CODE", code)])
}

fn of_schedule(target: &str) -> Vec<Attribute<'_>> {
    texts(&[("SCHEDULE_ARN", SCHEDULE), ("TARGET_ARN", target)])
}

fn judged<'a>(message: Message<'a>, variables: &[(&str, &str)], now: Timestamp) -> Judgement<'a> {
    decide(message, &testing::home(), &rules(variables), now)
}

fn failure<'j, 'a>(judgement: &'j Judgement<'a>) -> &'j Failure<'a> {
    judgement.failure.as_ref().unwrap()
}

fn given_up(reason: Reason) -> Decision {
    Decision::Settle(Settlement::DeadLetter(reason))
}

/// What the target is sent: a function its payload, a queue the body and the attributes.
fn sent(failure: &Failure<'_>) -> (String, usize) {
    match (&failure.target, failure.envelope(Attempt::FIRST)) {
        (Target::Function(_), Some(envelope)) => {
            assert!(failure.is_sent_bare());
            (envelope.payload.get().to_owned(), 0)
        }
        (Target::Queue(_), None) => {
            let attributes = failure.attributes(Attempt::FIRST).unwrap();
            (failure.event.as_ref().unwrap().payload().to_owned(), attributes.len())
        }
        other => panic!("{other:?}"),
    }
}

/// The dead letter, as a redrive moves it back.
fn redriven<'a>(letter: &'a DeadLetter<'_>, attributes: &'a [Attribute<'a>]) -> Message<'a> {
    Message { id: "m-2", ..message(&letter.body, attributes) }
}

fn attributes_of<'a>(letter: &'a DeadLetter<'_>) -> Vec<Attribute<'a>> {
    letter.attributes.iter().map(|(name, value)| Attribute::text(name, value)).collect()
}

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../fixtures/deliveries/", $name, ".json"))
    };
}

/// A message that AWS shows: its source, the message as `aws sqs receive-message` prints it, and the target, the rule
/// or schedule, the error and the payload that it names.
type Shown = (&'static str, &'static str, [&'static str; 3], Option<&'static str>);

/// No message with the values of a rule is published. Its attributes are those that the guide lists, and its body is
/// one that serverless/serverless#4647 shows.
const SHOWN: [Shown; 4] = [
    (
        "Amazon EventBridge User Guide, \"Using dead-letter queues to process undelivered events\"; \
         serverless/serverless#4647, 2022-03-13",
        fixture!("of_rule"),
        [ORDERS, RULE, "THROTTLING"],
        Some(r#""detail":{"amount":1.0}}"#),
    ),
    (
        "EventBridge Scheduler User Guide, \"Retrieve the dead-letter event\" (a quote and a comma mended)",
        fixture!("of_schedule"),
        [
            "arn:aws:sqs:us-west-2:123456789012:does-not-exist",
            "arn:aws:scheduler:us-west-2:123456789012:schedule/DLQ-test",
            "AWS.SimpleQueueService.NonExistentQueue",
        ],
        Some("Hello, world!"),
    ),
    (
        "Amazon EventBridge User Guide, \"Decrypting events in EventBridge dead-letter queues\"",
        fixture!("of_encrypted_event"),
        [
            ORDERS,
            "arn:aws:events:us-east-1:123456789012:rule/orders/links",
            "ACTION_DECRYPTION_FAILURE",
        ],
        None,
    ),
    (
        "Amazon EventBridge User Guide, \"Retry policies and dead-letter queues\" of custom event buses",
        fixture!("of_custom_bus"),
        [
            "arn:aws:sqs:us-east-1:111122223333:large-orders",
            "arn:aws:events:us-east-1:111122223333:subscriber/large-orders/EXAMPLEabcdef1234567890",
            "ACCESS_DENIED",
        ],
        None,
    ),
];

#[test]
fn each_message_that_aws_shows_names_its_target_its_source_and_its_error() {
    for (source, shown, [target, by, code], payload) in SHOWN {
        let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
        let named = shown["MessageAttributes"].as_object().unwrap();
        let attributes: Vec<_> = named
            .iter()
            .map(|(name, it)| Attribute::text(name, it["StringValue"].as_str().unwrap()))
            .collect();
        let message = message(shown["Body"].as_str().unwrap(), &attributes);
        let home = FunctionArn::parse(target).map(|function| function.home());
        let home = home.or_else(|| QueueArn::parse(target)?.home()).unwrap();
        let failure = undelivered(&message, &home).unwrap().unwrap();
        assert_eq!(failure.target.as_str(), target, "{source}");
        assert_eq!(failure.undelivered_by.as_deref(), Some(by), "{source}");
        assert_eq!(failure.error.error_type.as_deref(), Some(code), "{source}");
        let got = failure.event.as_ref().map(|event| event.payload());
        assert!(got.is_some() == payload.is_some(), "{source}");
        assert!(got.is_none_or(|got| got.ends_with(payload.unwrap())), "{source}: {got:?}");
    }
}

#[test]
fn an_event_fails_when_its_message_is_sent_and_is_delivered_as_it_is_once_it_is_due() {
    let envelope = testing::envelope(7, 1, "other", "1.0");
    for (target, body) in
        [(ORDERS, EVENT), (ORDERS, &envelope), (IMPORTS, EVENT), (IMPORTS, "no JSON ")]
    {
        for attributes in [of_rule(target, "THROTTLING"), of_schedule(target)] {
            let policy = [BOUND[0], ("TRANSPARENT", "true"), ("LEDGER_TABLE", "ledger")];
            for variables in [BOUND, &policy] {
                let first = judged(message(body, &attributes), variables, sent_at());
                let until = at("2026-02-01T12:00:01.250Z");
                assert_eq!(first.decision, Decision::Settle(Settlement::Wait { until }));
                assert_eq!(first.noted_key(), None, "no run of the function");
                let due = judged(message(body, &attributes), variables, until);
                assert_eq!(due.decision, Decision::Invoke);
                let failure = failure(&due);
                assert_eq!(sent(failure), (body.to_owned(), 0), "{target}");
                assert_eq!((failure.failed_at, failure.attempts_made()), (sent_at(), 0));
                assert_eq!(failure.key(), Key::of(&failure.target, body, "m-1"));
            }
        }
    }
}

#[test]
fn an_event_goes_only_to_the_target_that_its_queue_is_bound_to() {
    let any = [("QUEUE_TARGETS", r#"{"retry":["*"]}"#)];
    let listed = [("TARGET_FUNCTIONS", "orders,sqs:imports")];
    let other = [("QUEUE_TARGETS", r#"{"other":["orders","sqs:imports"]}"#)];
    let narrowed = [BOUND[0], ("TARGET_FUNCTIONS", "payments")];
    for (variables, allowed) in [
        (BOUND, [true, true]),
        (&any, [true, false]),
        (&narrowed, [false, true]),
        (&[], [false, false]),
        (&listed, [false, false]),
        (&other, [false, false]),
    ] {
        let got = [ORDERS, IMPORTS].map(|target| {
            let attributes = of_rule(target, "THROTTLING");
            let judgement = judged(message(EVENT, &attributes), variables, sent_at());
            let is_refused = judgement.decision == given_up(Reason::TargetNotAllowed);
            assert_eq!(judgement.accepted().is_some(), !is_refused);
            !is_refused
        });
        assert_eq!(got, allowed, "{variables:?}");
    }
}

#[test]
fn a_forged_target_is_refused() {
    for target in [
        "arn:aws:lambda:us-east-1:999999999999:function:orders",
        "arn:aws:lambda:eu-west-1:123456789012:function:orders",
        "arn:aws:lambda:us-east-1:123456789012:function:retry-handler",
        "arn:aws:sqs:us-east-1:123456789012:dead",
        "arn:aws:sqs:us-east-1:123456789012:retry",
        "arn:aws:sqs:us-east-1:123456789012:imports.fifo",
        "arn:aws:sns:us-east-1:123456789012:orders",
        "arn:aws:events:us-east-1:123456789012:event-bus/orders",
        "arn:aws:scheduler:::aws-sdk:sqs:deleteQueue",
        "orders",
    ] {
        for attributes in [of_rule(target, "THROTTLING"), of_schedule(target)] {
            let judgement = judged(message(EVENT, &attributes), BOUND, sent_at());
            assert_eq!(judgement.decision, given_up(Reason::TargetNotAllowed), "{target}");
            assert!(judgement.accepted().is_none());
            assert_eq!(judgement.dead_letter(Reason::TargetNotAllowed).body, EVENT);
        }
    }
}

#[test]
fn only_a_target_and_a_rule_or_a_schedule_make_a_message_an_event_that_could_not_be_delivered() {
    let target = ("TARGET_ARN", ORDERS);
    let is_it = |attributes: &[(&str, &str)]| {
        let attributes = texts(attributes);
        crate::record::undelivered(&message(EVENT, &attributes), &testing::home()).is_some()
    };
    assert!(is_it(&[target, ("RULE_ARN", RULE)]) && is_it(&[target, ("SCHEDULE_ARN", SCHEDULE)]));
    assert!(is_it(&[target, ("SUBSCRIBER_ARN", "any")]), "its event is on a custom bus");
    assert!(is_it(&[target, ("RULE_ARN", RULE), ("RequestID", "r-1")]), "it has a target");
    assert!(!is_it(&[target]) && !is_it(&[("RULE_ARN", RULE)]));
    assert!(!is_it(&[target, ("RULE_ARN", RULE), ("Reason", "cancelled")]), "a letter of ours");
    // What SQS has moved from a queue's consumer is its message, whatever its producer wrote.
    let attributes = of_rule(ORDERS, "THROTTLING");
    let moved = Message { moved_from: Some(IMPORTS), ..message(EVENT, &attributes) };
    let judgement = judged(moved, BOUND, sent_at());
    let moved = failure(&judgement);
    assert_eq!((moved.target.name(), moved.is_undelivered()), ("sqs:imports", false));
}

#[test]
fn each_reason_not_to_deliver_has_its_name() {
    let truncated = ("IS_PAYLOAD_TRUNCATED", "true");
    let whole = ("IS_PAYLOAD_TRUNCATED", "false");
    let invoke = "arn:aws:scheduler:::aws-sdk:lambda:invoke";
    let permanent = [BOUND[0], ("NON_RETRYABLE_ERRORS", "NO_*")];
    type Row<'a> = (&'a str, &'a str, (&'a str, &'a str), &'a [(&'a str, &'a str)], Option<Reason>);
    let table: [Row<'_>; 15] = [
        (ORDERS, EVENT, whole, BOUND, None),
        (ORDERS, EVENT, truncated, BOUND, Some(Reason::PayloadTruncated)),
        (ORDERS, "{\"id\":\"1755", truncated, BOUND, Some(Reason::PayloadTruncated)),
        (IMPORTS, "{\"id\":\"1755", truncated, BOUND, Some(Reason::PayloadTruncated)),
        (invoke, "{\"FunctionName\":\"ord", truncated, BOUND, Some(Reason::PayloadTruncated)),
        (ORDERS, "1", truncated, &[], Some(Reason::TargetNotAllowed)),
        (ORDERS, "no JSON", whole, BOUND, Some(Reason::Unreadable)),
        (ORDERS, EVENT, ("ERROR_CODE", "LOOP_DETECTED"), BOUND, Some(Reason::NotRetryable)),
        (
            ORDERS,
            EVENT,
            ("ERROR_CODE", "THIRD_REGION_HOP_DETECTED"),
            BOUND,
            Some(Reason::NotRetryable),
        ),
        (ORDERS, EVENT, ("ERROR_CODE", "INVALID_JSON"), BOUND, Some(Reason::NotRetryable)),
        (
            ORDERS,
            EVENT,
            ("ERROR_CODE", "EVENT_DECRYPTION_FAILURE"),
            BOUND,
            Some(Reason::PayloadMissing),
        ),
        (
            IMPORTS,
            EVENT,
            ("ERROR_CODE", "EVENT_ENCRYPTION_FAILURE"),
            BOUND,
            Some(Reason::PayloadMissing),
        ),
        (ORDERS, EVENT, ("ERROR_CODE", "NO_PERMISSIONS"), BOUND, None),
        (ORDERS, EVENT, ("ERROR_CODE", "NO_PERMISSIONS"), &permanent, Some(Reason::NotRetryable)),
        (IMPORTS, EVENT, ("ERROR_CODE", "NO_RESOURCE"), &permanent, Some(Reason::NotRetryable)),
    ];
    for (target, body, attribute, variables, reason) in table {
        let attributes = [of_schedule(target), texts(&[attribute])].concat();
        let judgement = judged(message(body, &attributes), variables, sent_at());
        let given_up = match judgement.decision {
            Decision::Settle(Settlement::DeadLetter(reason)) => Some(reason),
            Decision::Invoke | Decision::Settle(Settlement::Wait { .. }) => None,
        };
        assert_eq!(given_up, reason, "{target} {body} {attribute:?}");
        if let Some(reason) = reason {
            assert_eq!(judgement.dead_letter(reason).body, body, "{target} {attribute:?}");
        }
    }
}

#[test]
fn the_code_of_an_error_is_its_type_so_that_it_may_have_a_policy() {
    let policies = r#"{"orders":{"ERRORS":{"NO_*":{"BACKOFFS":"1h","JITTER":"none"}}}}"#;
    let variables = [BOUND[0], ("JITTER", "none"), ("POLICIES", policies)];
    for (code, seconds) in [("NO_PERMISSIONS", 3600), ("NO_RESOURCE", 3600), ("THROTTLING", 1)] {
        let attributes = of_rule(ORDERS, code);
        let judgement = judged(message(EVENT, &attributes), &variables, sent_at());
        let due = judgement.schedule.unwrap().due;
        assert_eq!(due, later(sent_at(), Duration::from_secs(seconds)), "{code}");
    }
}

#[test]
fn a_schedules_request_names_the_target_and_has_the_payload() {
    let invoke = "arn:aws:scheduler:::aws-sdk:lambda:invoke";
    let send = "arn:aws-us-gov:scheduler:::aws-sdk:sqs:sendMessage";
    let url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports";
    let live = "arn:aws:lambda:us-east-1:123456789012:function:orders:live";
    type Row<'a> = (&'a str, String, Result<(&'a str, &'a str), Unreadable>);
    let table: [Row<'_>; 18] = [
        (
            invoke,
            r#"{"FunctionName":"orders","Payload":"{\"a\": 1.0}","InvocationType":"Event"}"#.into(),
            Ok((ORDERS, r#"{"a": 1.0}"#)),
        ),
        (
            invoke,
            r#"{"FunctionName":"orders","Payload":{"a": 1.0}}"#.into(),
            Ok((ORDERS, r#"{"a": 1.0}"#)),
        ),
        (invoke, format!(r#"{{"FunctionName":"{live}","Payload":"null"}}"#), Ok((live, "null"))),
        (
            invoke,
            r#"{"FunctionName":"orders","Qualifier":"live","Payload":"1"}"#.into(),
            Ok((live, "1")),
        ),
        (invoke, r#"{"FunctionName":"orders"}"#.into(), Err(Unreadable::OtherRequest)),
        (invoke, r#"{"FunctionName":7,"Payload":"1"}"#.into(), Err(Unreadable::OtherRequest)),
        (
            invoke,
            r#"{"FunctionName":"orders","Payload":"no JSON"}"#.into(),
            Err(Unreadable::NoEvent),
        ),
        (
            invoke,
            r#"{"FunctionName":"or ders","Payload":"1"}"#.into(),
            Err(Unreadable::OtherTarget),
        ),
        (invoke, "no JSON".into(), Err(Unreadable::OtherRequest)),
        (invoke, "[]".into(), Err(Unreadable::OtherRequest)),
        (send, format!(r#"{{"MessageBody":"a\nb","QueueUrl":"{url}"}}"#), Ok((IMPORTS, "a\nb"))),
        (
            send,
            format!(r#"{{"MessageBody":"a","QueueUrl":"{url}","MessageAttributes":{{}}}}"#),
            Err(Unreadable::OtherRequest),
        ),
        (
            send,
            format!(r#"{{"MessageBody":"a","QueueUrl":"{url}.fifo"}}"#),
            Err(Unreadable::OtherTarget),
        ),
        (send, r#"{"MessageBody":"a","QueueUrl":"imports"}"#.into(), Err(Unreadable::OtherTarget)),
        (
            send,
            format!(
                r#"{{"MessageBody":"a","QueueUrl":"{}"}}"#,
                url.replace("us-east-1", "eu-west-1")
            ),
            Err(Unreadable::OtherTarget),
        ),
        (send, format!(r#"{{"MessageBody":7,"QueueUrl":"{url}"}}"#), Err(Unreadable::OtherRequest)),
        (
            send,
            format!(r#"{{"MessageBody":"","QueueUrl":"{url}"}}"#),
            Err(Unreadable::OtherRequest),
        ),
        (
            send,
            format!(r#"{{"MessageBody":"\u0000","QueueUrl":"{url}"}}"#),
            Err(Unreadable::OtherRequest),
        ),
    ];
    for (target, body, expected) in table {
        let attributes = of_schedule(target);
        let read = undelivered(&message(&body, &attributes), &testing::home()).unwrap();
        let read = read.map(|failure| {
            assert_eq!(sent(&failure).1, 0);
            (failure.target.to_string(), sent(&failure).0)
        });
        let expected = expected.map(|(target, payload)| (target.to_owned(), payload.to_owned()));
        assert_eq!(read, expected, "{body}");
    }
}

#[test]
fn an_event_that_is_given_up_is_delivered_to_the_same_target_by_a_redrive() {
    let envelope = testing::envelope(7, 1, "other", "1.0");
    let large = format!("\"{}\"", "x".repeat(SIZE_MAX - 800));
    for (target, body) in [(ORDERS, EVENT), (ORDERS, &envelope), (ORDERS, &large), (IMPORTS, EVENT)]
    {
        let attributes = of_rule(target, "THROTTLING");
        let a_day_later = later(sent_at(), Duration::from_hours(24));
        let late =
            judged(message(body, &attributes), BOUND, later(a_day_later, Duration::from_secs(1)));
        assert_eq!(late.decision, given_up(Reason::MaxAgeExceeded), "throttled for a day");
        let mut letter = late.dead_letter(Reason::MaxAgeExceeded).into_owned();
        for _ in 0..2 {
            let value = |of: &str| {
                let found = letter.attributes.iter().find(|(name, _)| *name == of);
                found.map(|(_, value)| value.as_str())
            };
            let names = ["FunctionArn", "SourceQueueArn"].map(value);
            let named = if target == ORDERS { [Some(target), None] } else { [None, Some(target)] };
            assert_eq!((names, value("SourceArn")), (named, Some(RULE)));
            assert_eq!((value("Attempts"), value("ErrorType")), (Some("0"), Some("THROTTLING")));
            assert_eq!(letter.body, body);
            let attributes = attributes_of(&letter);
            let moved = redriven(&letter, &attributes);
            let again = judged(
                moved,
                &[BOUND[0], ("TRANSPARENT", "true"), ("LEDGER_TABLE", "ledger")],
                a_day_later,
            );
            let failure = failure(&again);
            assert_eq!((again.decision, &*failure.key().run), (Decision::Invoke, "m-2"));
            assert_eq!(sent(failure), (body.to_owned(), 0), "as it was, without an envelope");
            assert!(!failure.is_transparent, "no run of the function is looked for");
            let next = again.dead_letter(Reason::MaxAgeExceeded).into_owned();
            assert_eq!(next.body, letter.body);
            letter = next;
        }
        let attributes = attributes_of(&letter);
        let unbound = judged(redriven(&letter, &attributes), &[], a_day_later);
        assert_eq!(unbound.decision, given_up(Reason::TargetNotAllowed));
    }
}

#[test]
fn a_part_of_a_payload_is_never_delivered_by_a_redrive() {
    for (target, body) in [(ORDERS, "12"), (ORDERS, "{\"id\""), (IMPORTS, "{\"id\"")] {
        let attributes = [of_schedule(target), texts(&[("IS_PAYLOAD_TRUNCATED", "true")])].concat();
        let judgement = judged(message(body, &attributes), BOUND, sent_at());
        let letter = judgement.dead_letter(Reason::PayloadTruncated);
        let attributes = attributes_of(&letter);
        let again = judged(redriven(&letter, &attributes), BOUND, sent_at());
        assert_eq!(again.decision, given_up(Reason::PayloadTruncated), "{target} {body}");
        assert_eq!(again.dead_letter(Reason::PayloadTruncated).body, body);
    }
}

#[test]
fn a_message_that_is_sent_again_is_the_same_event_if_it_has_room_for_what_it_loses() {
    let schedules: Vec<_> = [
        of_schedule(IMPORTS),
        texts(&[
            ("ERROR_CODE", "THROTTLING"),
            ("ERROR_MESSAGE", "Rate exceeded"),
            ("EXECUTION_ID", "ad06616e51cdf74a"),
            ("EXHAUSTED_RETRY_CONDITION", "MaximumRetryAttempts"),
            ("IS_PAYLOAD_TRUNCATED", "false"),
            ("RETRY_ATTEMPTS", "3"),
            ("SCHEDULED_TIME", "2026-02-01T12:00:00Z"),
        ]),
    ]
    .concat();
    let sent = message(EVENT, &schedules);
    let judgement = judged(sent.clone(), BOUND, sent_at());
    let first = failure(&judgement);
    assert!(first.may_be_sent_again(&sent), "four of its nine attributes are dropped");
    let carried = first.carried(&sent);
    assert_eq!(
        carried,
        [(FAILED_AT, rfc3339_exact(sent_at())), (MESSAGE_ID, "m-1".to_owned())],
        "its target is in an attribute of its own",
    );
    let carried = carried.iter().map(|(name, value)| Attribute::text(name, value));
    let resent: Vec<_> = schedules[..3].iter().cloned().chain(carried).collect();
    let again_at = later(sent_at(), Duration::from_mins(15));
    let resent = Message { id: "m-2", sent_at: Some(again_at), ..message(EVENT, &resent) };
    let again = judged(resent.clone(), BOUND, again_at);
    assert_eq!(failure(&again).key(), first.key());
    assert_eq!(again.schedule, judgement.schedule);
    assert!(failure(&again).may_be_sent_again(&resent));

    let names: Vec<_> = (0..8).map(|nth| format!("a{nth}")).collect();
    let others = |count| names[..count].iter().map(|name| Attribute::text(name, "x"));
    for (count, may) in [(6, true), (7, false), (8, false)] {
        let attributes: Vec<_> = of_schedule(ORDERS).into_iter().chain(others(count)).collect();
        let sent = message(EVENT, &attributes);
        let judgement = judged(sent.clone(), BOUND, sent_at());
        assert_eq!(failure(&judgement).may_be_sent_again(&sent), may, "{count} others");
    }
}

proptest! {
    #[test]
    fn every_payload_is_delivered_byte_for_byte_in_a_body_or_in_a_request(
        text in any::<String>(), number in any::<f64>(), spaces in " {0,3}",
    ) {
        let quoted = serde_json::to_string(&text).unwrap();
        let payload = format!("{{{spaces}\"a\":{spaces}{quoted},\"b\":{number:e},\"b\":0.10}}");
        prop_assume!(number.is_finite());
        let attributes = of_rule(ORDERS, "THROTTLING");
        let read = undelivered(&message(&payload, &attributes), &testing::home()).unwrap().unwrap();
        prop_assert_eq!(&sent(&read).0, &payload);
        let attributes = of_schedule("arn:aws:scheduler:::aws-sdk:lambda:invoke");
        let string = serde_json::to_string(&payload).unwrap();
        for inner in [&string, &payload] {
            let request = format!(r#"{{"FunctionName":"orders","Payload":{inner}}}"#);
            let read = undelivered(&message(&request, &attributes), &testing::home());
            prop_assert_eq!(&sent(&read.unwrap().unwrap()).0, &payload);
        }
        let attributes = of_rule(IMPORTS, "THROTTLING");
        let read = undelivered(&message(&text, &attributes), &testing::home()).unwrap().unwrap();
        prop_assert_eq!(&sent(&read).0, &text);
    }

    #[test]
    fn no_attribute_stops_the_handler_or_reaches_a_target_that_is_not_bound(
        body in prop_oneof![Just(EVENT.to_owned()), any::<String>()],
        attributes in prop::collection::btree_map(
            prop::sample::select(vec![
                "RULE_ARN", "SCHEDULE_ARN", "TARGET_ARN", "ERROR_CODE", "ERROR_MESSAGE", "IS_PAYLOAD_TRUNCATED",
                "Reason", "FunctionArn", "SourceQueueArn", "SourceArn", "FailedAt", "MessageId", "RequestID",
            ]),
            prop_oneof![
                prop::sample::select(vec![
                    ORDERS, IMPORTS, RULE, SCHEDULE, "true", "2020-01-01T00:00:00Z", "payload_truncated",
                    "target_not_allowed", "arn:aws:lambda:us-east-1:123456789012:function:payments",
                    "arn:aws:sqs:us-east-1:123456789012:retry", "arn:aws:scheduler:::aws-sdk:sqs:sendMessage",
                ]).prop_map(str::to_owned),
                any::<String>(),
            ],
            0..11,
        ),
    ) {
        let attributes: Vec<_> =
            attributes.iter().map(|(name, value)| Attribute::text(name, &**value)).collect();
        let judgement = judged(message(&body, &attributes), BOUND, sent_at());
        if let Some(failure) = judgement.accepted() {
            prop_assert!([ORDERS, IMPORTS].contains(&failure.target.as_str()), "{}", failure.target);
        }
        for &reason in Reason::ALL {
            prop_assert!(judgement.dead_letter(reason).size() <= SIZE_MAX);
        }
    }
}
