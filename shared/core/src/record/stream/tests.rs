//! How records about batches are read, divided, given up and redriven.

use super::*;
use crate::{
    Attempt,
    attribute::SIZE_MAX,
    decision::{Decision, Judgement, Settlement, decide},
    envelope::RetryMetadata,
    message::{BATCH_PART, FAILED_AT, MessageAttributes, PAYLOAD_LOCATION},
    reason::Reason,
    record::{NoFailure, Read},
    settings::Rules,
    testing::{self, at, home, rules},
};

const KEY: &str = "aws/lambda/4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e/shardId-000000000001/2019/11/14/2019-11-14T00.38.06-3f1c";
const ID: &str = "c9b8fa9f-5a7f-xmpl-af9c-0c604cde93a5";
const BATCH: &str = include_str!("../../../fixtures/batches/kinesis.json");
const TRANSPARENT: [(&str, &str); 2] = [("TRANSPARENT", "true"), ("LEDGER_TABLE", "ledger")];

/// AWS's sample of a record of a Kinesis stream, at home, with this `payload` as JSON.
fn record(payload: &str) -> String {
    let sample = include_str!("../../../fixtures/samples/stream_kinesis.json");
    let sample = sample.replace("us-east-2", "us-east-1");
    let sample = sample.trim_end().strip_suffix('}').unwrap();
    format!(r#"{sample},"payload":{payload}}}"#)
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn notice() -> String {
    let key = "aws/lambda/async/my-function/2019/11/14/2019-11-14T18.16.05-ac1e49f4-7d3b-4d0c-9a55-6b0ce3c3d1f0";
    include_str!("../../../fixtures/s3_notification.json").replace(key, KEY)
}

/// A notice about the record, with these attributes.
fn message<'a>(body: &'a str, attributes: MessageAttributes<'a>) -> Message<'a> {
    let sent_at = Some(at("2019-11-14T00:38:07Z"));
    Message { queue: Some("retry"), sent_at, attributes, ..testing::message(body) }
}

fn about(part: Option<&str>) -> MessageAttributes<'_> {
    MessageAttributes { batch_part: part, ..MessageAttributes::default() }
}

/// The message judged an hour after the failure, once the record was fetched.
fn judged<'a>(message: Message<'a>, record: &str, rules: &Rules) -> Judgement<'a> {
    let now = at("2019-11-14T01:38:06Z");
    let judgement = decide(message, &home(), rules, now);
    assert!(judgement.location.is_some());
    judgement.fetched(Ok(record.as_bytes()), &home(), rules, now)
}

fn given_up(judgement: &Judgement<'_>) -> Option<Reason> {
    match judgement.decision {
        Decision::Settle(Settlement::DeadLetter(reason)) => Some(reason),
        Decision::Settle(Settlement::Wait { .. }) | Decision::Invoke => None,
    }
}

/// A batch of so many records of so many bytes each.
fn batch(count: usize, size: usize) -> String {
    let record = |nth| format!(r#"{{"n":{nth},"data":"{}"}}"#, "x".repeat(size));
    format!(r#"{{"Records":[{}]}}"#, (0..count).map(record).collect::<Vec<_>>().join(","))
}

#[test]
fn a_batch_in_a_bucket_is_the_first_failure_of_its_event_byte_for_byte() {
    let body = notice();
    for payload in [quoted(BATCH), BATCH.trim().to_owned()] {
        for variables in [&[][..], &TRANSPARENT] {
            let rules = rules(variables);
            let judgement = judged(message(&body, about(None)), &record(&payload), &rules);
            assert_eq!(judgement.decision, Decision::Invoke);
            let failure = judgement.failure.unwrap();
            let event = failure.event.as_ref().unwrap().payload();
            assert_eq!(event, BATCH.trim());
            assert_eq!(
                failure.target.as_str(),
                "arn:aws:lambda:us-east-1:123456789012:function:myfunction:$LATEST",
                "as the records of its later failures, so that a pause holds back both"
            );
            assert_eq!(failure.request_id, ID);
            assert_eq!(failure.failed_at, at("2019-11-14T00:38:06.021Z"));
            assert_eq!((failure.attempts_made(), &failure.error), (0, &ErrorReport::default()));
            assert_eq!(failure.is_sent_bare(), !variables.is_empty());
            assert!(failure.noted_key().is_none(), "no retry of ours has failed");
            let metadata = failure.envelope(Attempt::FIRST).unwrap().metadata;
            assert_eq!(metadata.request_id.as_deref(), Some(ID));
        }
    }
}

#[test]
fn only_a_record_of_a_mapping_about_a_function_that_the_queue_may_name_is_retried() {
    let body = notice();
    let bound = |target: &str| format!(r#"{{"retry":["{target}"]}}"#);
    let good = record(&quoted(BATCH));
    for (target, expected) in [("myfunction", None), ("other", Some(Reason::TargetNotAllowed))] {
        let rules = rules(&[("QUEUE_TARGETS", &bound(target))]);
        let judgement = judged(message(&body, about(None)), &good, &rules);
        assert_eq!(given_up(&judgement), expected, "{target}");
    }
    let rules = rules(&[]);
    let abroad = good.replace("us-east-1:123456789012:function", "eu-west-1:123456789012:function");
    let invocation = testing::record_of(BATCH);
    let no_time = good.replace("timestamp", "time");
    for (text, expected) in [
        (&*abroad, Some(Reason::TargetNotAllowed)),
        (&invocation, Some(Reason::Unreadable)),
        (&good.replace("function:myfunction", ""), Some(Reason::Unreadable)),
        (&no_time, None),
        (&record("\"no JSON\""), Some(Reason::Unreadable)),
        (&record(r#""\ud800""#), Some(Reason::Unreadable)),
        (&record("7"), None),
        (&record("null"), None),
        (&record(r#""{\"Records\":[]}""#), None),
        (&good.replace("\"payload\"", "\"pay\""), Some(Reason::PayloadMissing)),
    ] {
        let judgement = judged(message(&body, about(None)), text, &rules);
        assert_eq!(given_up(&judgement), expected, "{text}");
        assert!(judgement.parts().is_empty());
    }
    let unread = decide(message(&body, about(None)), &home(), &rules, at("2019-11-14T00:38:07Z"));
    assert_eq!(unread.failure.unwrap_err(), Unreadable::NotFetched, "its function is not known");
}

#[test]
fn a_batch_without_payload_says_what_to_set() {
    let sample = include_str!("../../../fixtures/samples/stream_dynamodb.json");
    let sample = sample.replace("us-east-2", "us-east-1");
    let judgement =
        decide(testing::message(&sample), &home(), &rules(&[]), at("2019-11-14T19:00:00Z"));
    let letter = judgement.dead_letter(given_up(&judgement).unwrap());
    assert_eq!(letter.attributes[0].1, "payload_missing");
    let advice = letter.attributes.iter().find(|(name, _)| *name == "Advice");
    assert!(advice.is_some_and(|(_, text)| text.contains("S3 bucket")), "{letter:?}");
}

#[test]
fn a_batch_that_no_invocation_can_carry_has_a_message_for_each_part() {
    let body = notice();
    let beside = r#"{"Records":[{"n":0,"data":""}]}"#.len();
    for (variables, payload, is_whole) in [
        (&[][..], batch(2, 520_000), true),
        (&[], batch(2, INVOCATION_MAX / 2 - 500), false),
        (&TRANSPARENT, batch(2, INVOCATION_MAX / 2 - 500), true),
        (&TRANSPARENT, batch(2, INVOCATION_MAX / 2), false),
        (&TRANSPARENT, batch(1, INVOCATION_MAX - beside), true),
    ] {
        let judgement =
            judged(message(&body, about(None)), &record(&quoted(&payload)), &rules(variables));
        assert_eq!(judgement.parts().is_empty(), is_whole, "{} bytes", payload.len());
        assert_eq!(given_up(&judgement), None, "{} bytes", payload.len());
    }
    let payload = batch(10_000, 500);
    let text = record(&quoted(&payload));
    let rules = rules(&[]);
    let whole = judged(message(&body, about(None)), &text, &rules);
    let names: Vec<_> = whole.parts().iter().map(ToString::to_string).collect();
    assert!((6..=9).contains(&names.len()), "{names:?}");
    let (mut records, mut keys) = (Vec::new(), std::collections::BTreeSet::new());
    for name in &names {
        let part = judged(message(&body, about(Some(name))), &text, &rules);
        assert!(part.parts().is_empty() && given_up(&part).is_none(), "{name}");
        let failure = part.failure.as_ref().unwrap();
        assert_eq!(failure.request_id, format!("{ID}.{name}"), "an event of its own");
        let payload = failure.event.as_ref().unwrap().payload();
        assert!(payload.len() <= PART_MAX);
        let event: serde_json::Value = serde_json::from_str(payload).unwrap();
        records.extend(
            event["Records"].as_array().unwrap().iter().map(|it| it["n"].as_u64().unwrap()),
        );
        keys.insert(failure.key());
    }
    assert_eq!(keys.len(), names.len(), "each is claimed alone");
    assert!(records.into_iter().eq(0..10_000));
    for forged in ["0-10000", "10000-10000", "1-0", "x"] {
        let part = judged(message(&body, about(Some(forged))), &text, &rules);
        assert_eq!(part.failure.as_ref().unwrap_err(), &Unreadable::NoPart, "{forged}");
        let letter = part.dead_letter(Reason::Unreadable);
        assert!(letter.attributes.contains(&(BATCH_PART, forged.to_owned())), "{letter:?}");
    }
}

/// What SQS's redrive makes of a letter.
fn redriven<'a>(body: &'a str, attributes: &'a [(&'static str, String)]) -> Message<'a> {
    let named = attributes.iter().map(|(name, value)| (*name, Some(&**value)));
    Message { id: "moved", ..message(body, MessageAttributes::named(named)) }
}

#[test]
fn a_record_that_no_invocation_can_carry_is_a_letter_whose_redrive_sends_it_alone() {
    let body = notice();
    let payload =
        batch(3, 10).replacen("xxxxxxxxxx\"},", &format!("{}\"}},", "x".repeat(SIZE_MAX)), 2);
    let payload = payload.replacen(&"x".repeat(SIZE_MAX), "small", 1);
    let text = record(&quoted(&payload));
    let rules = rules(&[]);
    let whole = judged(message(&body, about(None)), &text, &rules);
    let names: Vec<_> = whole.parts().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["0-0", "1-1", "2-2"]);
    let judgements =
        names.iter().map(|name| judged(message(&body, about(Some(name))), &text, &rules));
    let judgements: Vec<_> = judgements.collect();
    let reasons: Vec<_> = judgements.iter().map(given_up).collect();
    assert_eq!(reasons, [None, Some(Reason::PayloadTooLarge), None]);
    let letter = judgements[1].dead_letter(Reason::PayloadTooLarge);
    assert_eq!(letter.body, body);
    let value = |name: &str| letter.attributes.iter().find(|it| it.0 == name).map(|it| &*it.1);
    assert_eq!(value(PAYLOAD_LOCATION), Some(&*format!("s3://failure-records/{KEY}")));
    assert_eq!((value(BATCH_PART), value("RequestId")), (Some("1-1"), Some(&*format!("{ID}.1-1"))));
    // The record is small by now, so that it can be retried.
    let mended = record(&quoted(&payload.replace(&"x".repeat(SIZE_MAX), "mended")));
    let again = judged(redriven(&letter.body, &letter.attributes), &mended, &rules);
    let failure = again.failure.unwrap();
    assert_eq!(
        failure.event.as_ref().unwrap().payload(),
        r#"{"Records":[{"n":1,"data":"mended"}]}"#
    );
    assert_eq!(failure.request_id, format!("{ID}.1-1"));
    assert_eq!((failure.key().run.as_str(), failure.attempts_made()), ("moved", 0));
}

#[test]
fn a_large_batch_that_was_refused_is_divided_when_it_is_redriven() {
    let body = notice();
    let text = record(&quoted(&batch(4, SIZE_MAX / 2)));
    let refusing = rules(&[("QUEUE_TARGETS", r#"{"retry":["other"]}"#)]);
    let refused = judged(message(&body, about(None)), &text, &refusing);
    assert_eq!(given_up(&refused), Some(Reason::TargetNotAllowed));
    assert!(refused.parts().is_empty());
    let letter = refused.dead_letter(Reason::TargetNotAllowed);
    assert_eq!(letter.body, body);
    let bound = rules(&[("QUEUE_TARGETS", r#"{"retry":["myfunction"]}"#)]);
    let moved = redriven(&letter.body, &letter.attributes);
    let names: Vec<_> =
        judged(moved.clone(), &text, &bound).parts().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["0-0", "1-1", "2-2", "3-3"]);
    let ids = names.iter().map(|name| {
        let attributes = MessageAttributes { batch_part: Some(name), ..moved.attributes.clone() };
        let part = judged(Message { attributes, ..moved.clone() }, &text, &bound);
        part.failure.unwrap().request_id
    });
    assert!(ids.eq(names.iter().map(|name| format!("{ID}.{name}"))), "a target's idempotency keys");
}

#[test]
fn a_wait_that_becomes_a_delay_stays_about_its_part() {
    let body = notice();
    let text = record(&quoted(&batch(4, SIZE_MAX / 2)));
    let first = judged(message(&body, about(Some("2-2"))), &text, &rules(&[]));
    let failure = first.failure.as_ref().unwrap();
    let carried = failure.carried(&first.message);
    let named = carried
        .iter()
        .map(|(name, value)| (*name, Some(&**value)))
        .chain([(BATCH_PART, Some("2-2"))]);
    let attributes = MessageAttributes::named(named);
    assert_eq!(attributes.failed_at, Some("2019-11-14T00:38:06.021Z"), "{FAILED_AT}");
    let later = Message {
        id: "m-2",
        sent_at: Some(at("2019-11-14T01:00:00Z")),
        ..message(&body, attributes)
    };
    let second = judged(later, &text, &rules(&[]));
    assert_eq!(second.schedule, first.schedule);
    assert_eq!(second.failure.unwrap().key(), failure.key());
}

/// Lambda's record of a success, of an invocation with this payload and this answer.
fn success(payload: &str, answer: &str) -> String {
    let record = testing::record_of(payload).replace("RetriesExhausted", "Success");
    record.replace("\"responsePayload\"", &format!(r#""responsePayload":{answer},"was""#))
}

fn naming(sequence_number: &str) -> String {
    format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{sequence_number}"}}]}}"#)
}

const SECOND: &str = "49590338271490256608559692540925702759324208523137515618";

/// What a success record says, as it is and in a notification of SNS.
fn read_success(text: &str, policies: &Policies) -> Option<Failure<'static>> {
    let in_sns = super::super::tests::in_sns(text);
    let [plain, over_sns] = [text, &in_sns].map(|body| {
        let message = testing::message(body);
        match crate::record::read(&message, None, policies).unwrap() {
            Read::Failure(failure) => Some(super::super::of_notification(failure)),
            Read::NoFailure(NoFailure::Success) => None,
            other @ (Read::InBucket(_) | Read::Several(_) | Read::NoFailure(_)) => {
                panic!("{other:?}")
            }
        }
    });
    let payload = |failure: &Option<Failure<'_>>| {
        failure
            .as_ref()
            .map(|it| (it.key(), it.noted_key(), it.event.as_ref().unwrap().payload().to_owned()))
    };
    assert_eq!(payload(&plain), payload(&over_sns));
    plain
}

#[test]
fn a_success_is_a_failure_of_the_records_that_it_names() {
    let policies = Policies::default();
    let rest = Batch::read(BATCH).unwrap().cut(Part::parse("1-1").unwrap()).unwrap();
    let failure = read_success(&success(BATCH.trim(), &naming(SECOND)), &policies).unwrap();
    assert_eq!(failure.event.as_ref().unwrap().payload(), rest.trim());
    assert_eq!((failure.condition.clone(), failure.attempts_made()), (Condition::Failed, 0));
    assert_eq!(failure.error, ErrorReport::default());
    // A retry that has processed some of them goes on with its attempts.
    let wrapped = testing::envelope(3, 1_573_755_000, "first", BATCH.trim());
    let failure = read_success(&success(&wrapped, &naming(SECOND)), &policies).unwrap();
    assert_eq!(failure.event.as_ref().unwrap().payload(), rest.trim());
    assert_eq!((failure.first_request_id(), failure.attempts_made()), (Some("first"), 3));
    let whole = read_success(&success(BATCH.trim(), &naming("no such")), &policies).unwrap();
    assert_eq!(whole.event.as_ref().unwrap().payload(), BATCH.trim());
    for (payload, answer) in [
        (BATCH.trim(), "null"),
        (BATCH.trim(), r#"{"batchItemFailures":[]}"#),
        ("1", &naming(SECOND)),
        (r#"{"Records":[{"eventSource":"aws:sqs","messageId":"a"}]}"#, &naming("a")),
    ] {
        assert!(read_success(&success(payload, answer), &policies).is_none(), "{payload} {answer}");
    }
}

/// The ledger knows the run by the bytes that it was sent, and is to know the next one by those that it will be sent.
#[test]
fn a_run_without_an_envelope_is_known_by_its_whole_batch_and_retried_by_the_rest() {
    let rules = rules(&TRANSPARENT);
    let rest = Batch::read(BATCH).unwrap().cut(Part::parse("1-1").unwrap()).unwrap();
    let mut failure =
        read_success(&success(BATCH.trim(), &naming(SECOND)), &rules.policies).unwrap();
    let sent = read_success(&success(BATCH.trim(), &naming("no such")), &rules.policies).unwrap();
    assert_eq!(failure.noted_key(), sent.noted_key());
    assert!(failure.noted_key().is_some() && failure.key() != sent.key());
    let (key, noted) = (failure.key(), failure.noted_key());
    let second = RetryMetadata::first(at("2019-11-14T00:00:00Z"), "first");
    failure.continues(second);
    assert_eq!(failure.event.as_ref().unwrap().payload(), rest.trim());
    assert_eq!((failure.first_request_id(), failure.attempts_made()), (Some("first"), 1));
    assert_eq!((failure.key(), failure.noted_key()), (key, noted));
    // It may be an envelope of an earlier setting. What has failed is known once that is.
    let wrapped = testing::envelope(3, 1_573_755_000, "first", BATCH.trim());
    let failure = read_success(&success(&wrapped, &naming(SECOND)), &rules.policies).unwrap();
    assert_eq!(failure.event.as_ref().unwrap().payload(), BATCH.trim());
}
