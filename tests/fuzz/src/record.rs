//! Reading a record and deciding about it.
//!
//! The input is the body of a message in the retry queue. In a queue's message, it is also the metadata. The schedule
//! of a failure must be the same at any time, each decision must fit its time, the payload must keep its bytes, and SQS
//! must accept the dead letter and the message that goes back to its queue.

use std::{sync::LazyLock, time::Duration};

use chrono::TimeDelta;
use comeback_core::{
    Timestamp,
    arn::{FunctionArn, Home},
    attribute::{self, ATTRIBUTES_MAX, Attribute, SIZE_MAX, message_size},
    dead_letter::DeadLetter,
    decision::{Decision, Judgement, Settlement, decide, visibility_timeout},
    envelope::{Envelope, INVOCATION_MAX, METADATA, RetryMetadata},
    record::{Condition, DeliveryAttributes, Failure, Message, MessageAttributes},
    schedule::Schedule,
    settings::Settings,
    time,
};
use comeback_local_model::sqs::{Attributes, MessageAttribute, Outgoing, Sqs};
use serde_json::Value;

/// The account of AWS's sample record.
static HOME: LazyLock<Home> = LazyLock::new(|| {
    let own = "arn:aws:lambda:us-east-1:123456789012:function:retry-handler";
    FunctionArn::parse(own).unwrap().home()
});

/// The queue from which all messages come.
const QUEUE: &str = "retry";

/// What EventBridge could not deliver an event to.
const TARGETS: [&str; 4] = [
    "arn:aws:lambda:us-east-1:123456789012:function:f",
    "arn:aws:sqs:us-east-1:123456789012:imports",
    "arn:aws:scheduler:::aws-sdk:lambda:invoke",
    "arn:aws:scheduler:::aws-sdk:sqs:sendMessage",
];

/// The keys of failure records in a bucket, and the part of a batch that a notice is about.
const FETCHED: [(&str, Option<&str>); 3] = [
    ("aws/lambda/async/my-function/2019/11/14/x", None),
    ("aws/lambda/4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e/shard/2019/11/14/x", None),
    ("aws/lambda/4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e/shard/2019/11/14/x", Some("1-1")),
];

const NOTICE: &str = r#"{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"records"},"object":{"key":"KEY"}}}]}"#;

/// The default settings, those of a queue that is bound to targets, and settings in which every value differs from its
/// default.
static SETTINGS: LazyLock<[Settings; 3]> = LazyLock::new(|| {
    [
        settings(&[]),
        settings(&[("QUEUE_TARGETS", r#"{"retry":["*","sqs:imports"]}"#)]),
        settings(&[
            ("BASE_BACKOFF", "12h"),
            ("MAX_BACKOFF", "13d"),
            ("MAX_AGE", "365d"),
            ("MAX_ATTEMPTS", "7"),
            ("JITTER", "equal"),
            ("NON_RETRYABLE_ERRORS", "ValueError,app.*"),
            ("TARGET_FUNCTIONS", "my-*,arn:aws:lambda:*:function:orders,sqs:imports"),
            ("DLQ_TARGET", "my-function"),
            ("POLICIES", r#"{"orders":{"BASE_BACKOFF":"1s","MAX_BACKOFF":"2s","JITTER":"none"}}"#),
        ]),
    ]
});

fn settings(variables: &[(&str, &str)]) -> Settings {
    let dead = [("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/dead")];
    let lookup = |name: &str| {
        let found = dead.iter().chain(variables).find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Settings::from_lookup(lookup).unwrap()
}

pub fn check(data: &[u8]) {
    let Ok(body) = str::from_utf8(data) else { return };
    let sent_at = Timestamp::from_timestamp_millis(1_573_755_366_068).unwrap();
    let mut sqs = Sqs::new(1);
    sqs.create_queue(sent_at, "q", &Attributes::new()).unwrap();
    let outgoing = Outgoing { body: body.into(), ..Outgoing::default() };
    if sqs.send(sent_at, "q", outgoing).is_err() {
        // SQS rejects such a message, so no queue contains one.
        return;
    }
    let id = "19dd0b57-b21e-4ac1-bd88-01bbb068cb78";
    let none = MessageAttributes::default();
    let bare = MessageAttributes {
        lambda_request_id: Some("r-1"),
        error_message: Some("boom"),
        ..none.clone()
    };
    let redriven = MessageAttributes {
        reason: Some("max_age_exceeded"),
        function_arn: Some("arn:aws:lambda:us-east-1:123456789012:function:f"),
        request_id: Some("r-1"),
        error_type: Some("PermanentFailure"),
        ..none.clone()
    };
    let all = vec![Attribute::text(METADATA, body), Attribute::text("tenant", "blue")];
    let fits = message_size(body, &all) <= SIZE_MAX;
    let moved_from = fits.then_some("arn:aws:sqs:us-east-1:123456789012:imports");
    let moved = MessageAttributes { all, ..none.clone() };
    let undelivered = |target| MessageAttributes {
        delivery: DeliveryAttributes {
            schedule_arn: Some("arn:aws:scheduler:us-east-1:123456789012:schedule/default/f"),
            target_arn: Some(target),
            error_code: Some("THROTTLING"),
            ..DeliveryAttributes::default()
        },
        ..none.clone()
    };
    let undelivered = TARGETS.map(|target| (None, undelivered(target)));
    for settings in &*SETTINGS {
        check_fetched(data, settings, &mut sqs);
    }
    let forms = [(None, none), (None, bare), (None, redriven), (moved_from, moved)];
    for (moved_from, attributes) in forms.into_iter().chain(undelivered) {
        for sent_at in [Some(sent_at), None] {
            let attributes = attributes.clone();
            let message = Message {
                id,
                queue: Some(QUEUE),
                body,
                receive_count: 1,
                sent_at,
                moved_from,
                attributes,
                ..Message::default()
            };
            for settings in &*SETTINGS {
                check_message(&message, settings, &mut sqs);
            }
        }
    }
}

/// The input is a failure record in a bucket, of an invocation or of a stream's batch, or of a part of the batch. What
/// is invoked must fit, and SQS must accept the dead letter.
fn check_fetched(data: &[u8], settings: &Settings, sqs: &mut Sqs) {
    for (key, batch_part) in FETCHED {
        let body = NOTICE.replace("KEY", key);
        let sent_at = Some(Timestamp::from_timestamp_millis(1_573_755_366_068).unwrap());
        let attributes = MessageAttributes { batch_part, ..MessageAttributes::default() };
        let (id, queue, body) = ("notice", Some(QUEUE), &*body);
        let message = Message {
            id,
            queue,
            body,
            receive_count: 1,
            sent_at,
            attributes,
            ..Message::default()
        };
        let judge = |now| {
            let notice = decide(message.clone(), &HOME, &settings.rules, now);
            assert!(notice.location.is_some(), "{key}");
            notice.fetched(Ok(data), &HOME, &settings.rules, now)
        };
        let first = judge(Timestamp::UNIX_EPOCH);
        for now in moments(&first) {
            let judgement = judge(now);
            assert_eq!(judgement.schedule, first.schedule, "the schedule depends on the time");
            match (judgement.decision, judgement.schedule, &judgement.failure) {
                (Decision::Settle(Settlement::DeadLetter(reason)), ..) => {
                    send_letter(&judgement.dead_letter(reason), now, sqs);
                }
                (Decision::Invoke, Some(schedule), Ok(failure)) if judgement.parts().is_empty() => {
                    check_invocation(failure, settings, schedule, now, sqs);
                }
                (Decision::Invoke | Decision::Settle(Settlement::Wait { .. }), ..) => {}
            }
        }
    }
}

fn check_message(message: &Message, settings: &Settings, sqs: &mut Sqs) {
    let judge = |now| decide(message.clone(), &HOME, &settings.rules, now);
    let first = judge(Timestamp::UNIX_EPOCH);
    for now in moments(&first) {
        let judgement = judge(now);
        assert_eq!(judgement.schedule, first.schedule, "the schedule depends on the time");
        let again = Message { receive_count: 1000, ..message.clone() };
        let repeated = decide(again, &HOME, &settings.rules, now);
        assert_eq!(repeated.schedule, first.schedule, "the schedule depends on the receive count");
        check_judgement(message, settings, &judgement, now, sqs);
    }
}

/// The times at which the decision may change, with one before all of them and one after.
fn moments(judgement: &Judgement) -> Vec<Timestamp> {
    let mut moments = vec![Timestamp::MIN_UTC, Timestamp::MAX_UTC];
    if let Ok(failure) = &judgement.failure {
        moments.push(failure.failed_at);
    }
    if let Some(Schedule { due, last_chance, expiry, .. }) = judgement.schedule {
        for at in [due, last_chance, expiry] {
            moments.extend(at.checked_sub_signed(TimeDelta::milliseconds(1)));
            moments.extend([at, time::later(at, Duration::from_millis(1))]);
        }
    }
    moments
}

fn check_judgement(
    message: &Message,
    settings: &Settings,
    judgement: &Judgement,
    now: Timestamp,
    sqs: &mut Sqs,
) {
    if let Decision::Settle(Settlement::DeadLetter(reason)) = judgement.decision {
        check_letter(message, judgement, &judgement.dead_letter(reason), now, sqs);
    } else {
        assert!(judgement.failure.is_ok(), "unreadable, and yet {:?}", judgement.decision);
    }
    let Ok(failure) = &judgement.failure else { return };
    check_payload(message, failure);
    let Some(schedule) = judgement.schedule else { return };
    let Schedule { due, last_chance, expiry, .. } = schedule;
    assert!(failure.first_failure() <= failure.failed_at);
    assert!(failure.failed_at <= due && due <= last_chance && last_chance <= expiry);
    match judgement.decision {
        Decision::Settle(Settlement::Wait { until }) => {
            assert!(now < due && until == due, "it waits until {until}, and is due at {due}");
            let timeout = visibility_timeout(until, now);
            assert!((1..=43_140).contains(&timeout), "{timeout} s at {now} until {until}");
        }
        Decision::Invoke => {
            assert!(due <= now && now <= expiry, "invoked at {now}: {schedule:?}");
            check_invocation(failure, settings, schedule, now, sqs);
        }
        Decision::Settle(Settlement::DeadLetter(_)) => {
            assert!(now > expiry, "given up at {now}: {schedule:?}")
        }
    }
}

fn check_invocation(
    failure: &Failure,
    settings: &Settings,
    schedule: Schedule,
    now: Timestamp,
    sqs: &mut Sqs,
) {
    let target = &failure.target;
    assert!(settings.rules.allow(target, Some(QUEUE), &HOME), "{target}");
    let max = settings.rules.policies.of(target.name()).max_attempts;
    assert!(max.is_none_or(|max| schedule.attempt <= max), "{}", schedule.attempt);
    let payload = failure.event.as_ref().unwrap().payload();
    let Some(envelope) = failure.envelope(schedule.attempt) else {
        let attributes = failure.attributes(schedule.attempt).unwrap();
        assert!(
            attributes.len() <= ATTRIBUTES_MAX && message_size(payload, &attributes) <= SIZE_MAX
        );
        if failure.is_undelivered() {
            assert!(attributes.is_empty());
            let outgoing = Outgoing { body: payload.into(), ..Outgoing::default() };
            assert_eq!(sqs.send(now, "q", outgoing).map(|_| ()), Ok(()));
            return;
        }
        assert_eq!(attributes[0], Attribute::text("tenant", "blue"));
        let texts = attributes.iter().filter_map(|attribute| match &attribute.value {
            attribute::Value::Text(text) => Some((attribute.name.to_string(), text.as_ref())),
            attribute::Value::Binary(_) => None,
        });
        let texts: Vec<_> = texts.collect();
        assert_eq!(RetryMetadata::read(texts[1].1).unwrap().attempt, schedule.attempt);
        let texts = texts.into_iter().map(|(name, text)| (name, MessageAttribute::string(text)));
        let attributes = texts.collect();
        let outgoing = Outgoing { body: payload.into(), attributes, ..Outgoing::default() };
        assert_eq!(sqs.send(now, "q", outgoing).map(|_| ()), Ok(()));
        return;
    };
    assert_eq!(envelope.metadata.attempt, schedule.attempt);
    assert_eq!(envelope.payload.get(), payload);
    if failure.is_sent_bare() {
        assert!(payload.len() <= INVOCATION_MAX);
        return;
    }
    let json = envelope.to_json();
    assert!(json.len() <= INVOCATION_MAX);
    let read = Envelope::read(&json).unwrap();
    assert_eq!(read.to_json(), json);
}

/// The payload must occur in the message byte for byte, if this parser can parse the message.
fn check_payload(message: &Message, failure: &Failure) {
    let Some(event) = &failure.event else { return };
    let MessageAttributes { lambda_request_id, reason, delivery, .. } = &message.attributes;
    let is_of_request = delivery.target_arn.is_some_and(|target| target.contains("aws-sdk"));
    let is_cut = message.body.contains("Success") && event.payload().contains("Records");
    if is_of_request || failure.condition == Condition::OfBatch || is_cut {
        // It may be in a string, with escapes, or be without some of its records.
        return;
    }
    let is_bare = lambda_request_id.or(*reason).is_some()
        || failure.target.is_queue()
        || failure.is_undelivered();
    let carried = match serde_json::from_str::<Value>(message.body) {
        Ok(body) if !is_bare && body["Type"] == "Notification" => {
            body["Message"].as_str().map(str::to_owned)
        }
        Ok(_) => Some(message.body.to_owned()),
        // Production's parser may be more lenient than this one.
        Err(_) => None,
    };
    let payload = event.payload();
    assert!(carried.is_none_or(|carried| carried.contains(payload)), "{payload}");
}

/// SQS must accept the dead letter. Its body is the payload or, without a payload, the whole message.
fn check_letter(
    message: &Message,
    judgement: &Judgement,
    letter: &DeadLetter<'_>,
    now: Timestamp,
    sqs: &mut Sqs,
) {
    let payload = judgement.failure.as_ref().ok().and_then(|failure| failure.event.as_ref());
    let kept = payload.map_or(message.body, |payload| payload.payload());
    let is_cleaned = kept.contains(['\u{fffe}', '\u{ffff}']);
    assert!(letter.body == kept || is_cleaned, "{}", letter.body);
    send_letter(letter, now, sqs);
}

fn send_letter(letter: &DeadLetter<'_>, now: Timestamp, sqs: &mut Sqs) {
    assert_eq!(letter.attributes[0].0, "Reason");
    let attributes = letter.attributes.iter();
    let attributes = attributes.map(|(name, value)| ((*name).to_owned(), value.as_str()));
    let outgoing = Outgoing {
        body: (*letter.body).into(),
        attributes: attributes.map(|(name, it)| (name, MessageAttribute::string(it))).collect(),
        ..Outgoing::default()
    };
    assert_eq!(sqs.send(now, "q", outgoing).map(|_| ()), Ok(()));
}
