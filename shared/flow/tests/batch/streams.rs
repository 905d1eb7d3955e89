//! Batches of streams that their functions could not process.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::{collections::BTreeSet, time::Duration};

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::target::Target;
use serde_json::Value;

use super::*;
use crate::{
    lineage::{of_run, transparent},
    log,
    queues::text,
    world::{TARGET, start},
};

const KEY: &str =
    "aws/lambda/4aa76e6b-7b23-4e8d-8b4d-0d6f9c3f7f0e/shardId-000000000001/2026/02/01/x";

/// A notice of the bucket about the record of a batch.
fn notice(id: &str) -> SqsMessage {
    message(
        id,
        &format!(
            r#"{{"Records":[{{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"records"}},"object":{{"key":"{KEY}"}}}}}}]}}"#
        ),
    )
}

fn record_of(nth: usize, data: &str) -> String {
    format!(
        r#"{{"kinesis":{{"sequenceNumber":"{nth}","data":"{data}"}},"eventSource":"aws:kinesis"}}"#
    )
}

fn event_of(records: &[String]) -> String {
    format!(r#"{{"Records":[{}]}}"#, records.join(","))
}

/// A world with the record of a mapping in a bucket, about a batch that failed two minutes ago.
fn with_batch(world: World, event: &str) -> World {
    let failed_at = (start() - Duration::from_mins(2)).to_rfc3339();
    let payload = serde_json::to_string(event).unwrap();
    let record = format!(
        r#"{{"timestamp":"{failed_at}","requestContext":{{"requestId":"batch","functionArn":"{TARGET}","condition":"RetryAttemptsExhausted"}},"KinesisBatchInfo":{{"shardId":"s"}},"payload":{payload}}}"#
    );
    let mut world = world.with("RECORD_BUCKETS", "records");
    world.objects.insert(format!("s3://records/{KEY}"), record.into_bytes());
    world
}

/// The messages about the parts of a batch, as the queue gets them.
fn parts(world: &World) -> Vec<SqsMessage> {
    let sent = world.calls(|request| {
        let Request::Again { messages, .. } = request else { return None };
        Some(messages.clone())
    });
    let messages = sent.concat().into_iter().enumerate().map(|(nth, sent)| {
        let mut part = message(&format!("part {nth}"), &sent.body);
        for (name, value) in &sent.attributes {
            let value = serde_json::to_value(value).unwrap();
            let value = text(value["StringValue"].as_str().unwrap());
            part.message_attributes.insert(name.clone(), value);
        }
        part
    });
    messages.collect()
}

/// The sequence numbers of the records in the payloads that were sent, with or without an envelope.
fn sent(world: &World) -> Vec<Vec<String>> {
    let numbers = |payload: String| -> Vec<String> {
        let payload: Value = serde_json::from_str(&payload).unwrap();
        let event = payload.get("_original_payload").unwrap_or(&payload);
        let records = event["Records"].as_array().into_iter().flatten();
        records.map(|it| it["kinesis"]["sequenceNumber"].as_str().unwrap().to_owned()).collect()
    };
    world.payloads().into_iter().map(numbers).collect()
}

/// What becomes of messages that come an hour later, when no lease holds any more, to another place of a batch.
fn again(world: &World, mut records: Vec<SqsMessage>) -> Vec<&'static str> {
    world.pass(Duration::from_hours(1));
    records.insert(0, success("before", "1", "null"));
    let outcomes = outcomes(&handle(world, records));
    assert_eq!(outcomes[0], "succeeded");
    outcomes[1..].to_vec()
}

#[test]
fn a_batch_goes_to_its_function_as_one_event_however_often_its_notice_comes() {
    let event = event_of(&[record_of(0, "1.0"), record_of(1, "b")]);
    for world in [World::with_ledger(&[]), transparent(&[])] {
        let is_transparent = world.settings.contains_key("TRANSPARENT");
        let world = with_batch(world, &event);
        let report = handle(&world, vec![notice("a"), due("neighbour")]);
        assert_eq!(outcomes(&report), ["invoked", "invoked"]);
        assert_eq!(report.entries[0].target.as_deref(), Some("orders"));
        let is_sent = |it: &String| if is_transparent { *it == event } else { it.contains(&event) };
        assert!(world.payloads().iter().any(is_sent));
        assert_eq!(world.count("recall"), usize::from(is_transparent), "only for the neighbour");
        assert_eq!(again(&world, vec![notice("again")]), ["duplicate"]);
        let mut gone = with_batch(World::with_ledger(&[]), &event);
        gone.objects.clear();
        assert_eq!(outcomes(&handle(&gone, vec![notice("late")])), ["record_gone"]);
    }
}

#[test]
fn a_batch_that_is_too_large_goes_out_in_parts_that_live_alone() {
    let large = "x".repeat(700 << 10);
    let mut records: Vec<_> = (0..4).map(|nth| record_of(nth, &large)).collect();
    records.push(record_of(4, &"x".repeat(1 << 20)));
    records.extend((5..10_000).map(|nth| record_of(nth, "x")));
    for world in [World::with_ledger(&[]), transparent(&[])] {
        let world = with_batch(world, &event_of(&records));
        let report = handle(&world, vec![notice("a"), due("neighbour")]);
        assert_eq!(outcomes(&report), ["split", "invoked"]);
        assert!(kept(&report).is_empty() && world.letter_calls().is_empty());
        let parts = parts(&world);
        let of = |it: &SqsMessage| it.message_attributes["BatchPart"].string_value.clone().unwrap();
        let names: BTreeSet<_> = parts.iter().map(of).collect();
        let expected = ["0-0", "1-1", "2-2", "3-3", "4-4", "5-9999"];
        assert_eq!(names, expected.map(str::to_owned).into());
        let before = world.payloads().len();
        let mut ended = outcomes(&handle(&world, parts.clone()));
        ended.sort_unstable();
        assert_eq!(ended, [&["invoked"; 5][..], &["payload_too_large"]].concat());
        let mut there: Vec<_> = sent(&world)
            .split_off(before)
            .concat()
            .iter()
            .map(|it| it.parse::<usize>().unwrap())
            .collect();
        there.sort_unstable();
        assert!(there.into_iter().eq((0..10_000).filter(|nth| *nth != 4)));
        let letter = &world.letter_calls()[0][0];
        assert_eq!(Some(&*letter.body), notice("a").body.as_deref());
        assert!(letter.attributes.contains(&("BatchPart", "4-4".to_owned())));
        // The handler dies after it has sent the parts, and the whole notice comes back.
        assert_eq!(outcomes(&handle(&world, vec![notice("a")])), ["split"]);
        assert_eq!(again(&world, parts), ["duplicate"; 6], "each was acted on once");
    }
}

#[test]
fn a_part_that_is_not_accepted_waits_alone_and_a_split_that_fails_waits_whole() {
    let large = "x".repeat(700 << 10);
    let records: Vec<_> = (0..3).map(|nth| record_of(nth, &format!("part{nth}{large}"))).collect();
    let world = with_batch(World::with_ledger(&[("part1", throttled())]), &event_of(&records));
    assert_eq!(outcomes(&handle(&world, vec![notice("a")])), ["split"]);
    let mut parts = parts(&world);
    parts.sort_by_key(|it| it.message_attributes["BatchPart"].string_value.clone());
    let report = handle(&world, parts);
    assert_eq!(outcomes(&report), ["invoked", "waits", "invoked"]);
    let world = with_batch(World::with_ledger(&[("send of", denied())]), &event_of(&records));
    let report = handle(&world, vec![notice("a"), due("neighbour")]);
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    log::errors();
}

/// The record of a success two minutes ago, of a run with this payload that has named this record as failed.
fn success(id: &str, payload: &str, answer: &str) -> SqsMessage {
    let mut record = failed(id, 120);
    let own = format!("\"payload of {id}\"");
    record.body = record.body.map(|body| {
        let body = body.replace("RetriesExhausted", "Success").replace(&own, payload);
        body.replacen('{', &format!(r#"{{"responsePayload":{answer},"#), 1)
    });
    record
}

fn naming(nth: usize) -> String {
    format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{nth}"}}]}}"#)
}

#[test]
fn a_success_is_done_without_a_call_unless_it_names_records() {
    let event = event_of(&[0, 1, 2].map(|nth| record_of(nth, "x")));
    for world in [World::with_ledger(&[]), transparent(&[]).with("REGISTER", "true")] {
        let report = handle(&world, vec![success("a", "1", "null"), success("b", &event, "{}")]);
        assert_eq!(outcomes(&report), ["succeeded"; 2]);
        assert!(
            kept(&report).is_empty() && world.log.borrow().is_empty(),
            "nothing is read or paid"
        );
        assert!(comeback_flow::metrics::lines(&report, start()).is_empty());
        let report = handle(&world, vec![success("c", &event, &naming(1)), success("d", "1", "2")]);
        assert_eq!(outcomes(&report), ["invoked", "succeeded"]);
        assert_eq!(sent(&world), [["1", "2"]]);
        assert_eq!(again(&world, vec![success("c", &event, &naming(1))]), ["duplicate"]);
    }
}

#[test]
fn a_retry_without_an_envelope_that_has_processed_a_part_goes_on_with_its_attempts() {
    let event = event_of(&[0, 1, 2].map(|nth| record_of(nth, "x")));
    let rest = event_of(&[1, 2].map(|nth| record_of(nth, "x")));
    let last = event_of(&[record_of(2, "x")]);
    let world = with_batch(transparent(&[]), &event);
    assert_eq!(outcomes(&handle(&world, vec![notice("a")])), ["invoked"]);
    let target = Target::parse(TARGET).unwrap();
    let attempt = |payload: &str, run: &str| {
        let key = comeback_core::lineage::Key::of(&target, payload, run);
        let note = world.runs().get(&key).and_then(|known| known.note.clone());
        note.map(|note| (note.metadata.attempt.get(), note.metadata.request_id))
    };
    let first = Some("batch".to_owned());
    assert_eq!(attempt(&event, "retry-1"), Some((1, first.clone())));
    let run = |run: &str, payload: &str, nth| of_run(success("r", payload, &naming(nth)), "r", run);
    for (payload, of, nth, next, number) in
        [(&event, "retry-1", 1, &rest, 2), (&rest, "retry-2", 2, &last, 3)]
    {
        let record = run(of, payload, nth);
        world.pass(Duration::from_mins(10));
        assert_eq!(outcomes(&handle(&world, vec![record.clone()])), ["invoked"]);
        assert_eq!(world.payloads().last(), Some(next));
        assert_eq!(attempt(next, &format!("retry-{number}")), Some((number, first.clone())));
        assert_eq!(again(&world, vec![record]), ["duplicate"]);
    }
    assert_eq!(outcomes(&handle(&world, vec![run("retry-3", &last, 7)])), ["invoked"]);
    assert_eq!(attempt(&last, "retry-4"), Some((4, first)), "all of its records");
}
