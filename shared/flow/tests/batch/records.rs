//! Failure records in buckets.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::{collections::BTreeMap, time::Duration};

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use comeback_core::in_flight::IN_FLIGHT_MAX;
use comeback_flow::{ports::RECORD_MAX, report::Obstacle};

use crate::{
    log,
    services::{Answer, denied, throttled},
    world::{
        QUEUE_URL, TARGET, World, due, failed, handle, handle_within, kept, message, outcomes,
        start, waiting,
    },
};

fn key(id: &str) -> String {
    format!("aws/lambda/async/orders/2026/02/01/2026-02-01T11.59.00-{id}")
}

fn notice_in(bucket: &str, id: &str) -> SqsMessage {
    let body = format!(
        r#"{{"Records":[{{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"{bucket}"}},"object":{{"key":"{}"}}}}}}]}}"#,
        key(id)
    );
    message(id, &body)
}

fn notice(id: &str) -> SqsMessage {
    notice_in("records", id)
}

/// A world with a ledger, and with these objects in a bucket.
fn with_records(objects: BTreeMap<String, Vec<u8>>, answers: &[(&'static str, Answer)]) -> World {
    let mut world = World::with_ledger(answers).with("RECORD_BUCKETS", "records");
    world.objects = objects;
    world
}

/// A world with a bucket that has the bodies of these messages as records.
fn world(records: &[SqsMessage], answers: &[(&'static str, Answer)]) -> World {
    let of = |record: &SqsMessage| {
        let place = format!("s3://records/{}", key(record.message_id.as_deref().unwrap()));
        (place, record.body.clone().unwrap().into_bytes())
    };
    with_records(records.iter().map(of).collect(), answers)
}

#[test]
fn a_record_in_a_bucket_is_judged_as_one_in_a_message_and_its_message_stays_the_notice() {
    let world = world(&[due("a"), waiting("b")], &[]);
    let report = handle(&world, vec![notice("a"), notice("b"), due("c")]);
    assert_eq!(outcomes(&report), ["invoked", "waits", "invoked"]);
    assert_eq!(kept(&report), ["b"]);
    let targets: Vec<_> = report.entries.iter().map(|it| it.target.as_deref()).collect();
    assert_eq!(targets, [Some("orders"); 3]);
    let payloads = world.payloads();
    let is_of = |id: &str| payloads.iter().any(|it| it.contains(&format!("payload of {id}")));
    assert!(is_of("a") && is_of("c"));
    assert_eq!(world.visibility_calls()[0].1, [("handle of b".to_owned(), 60)]);
    assert_eq!(world.runs().len(), 2, "each failure is claimed under its own request id");
    assert!(world.runs().keys().any(|key| key.run == "request of a"));
}

#[test]
fn a_long_wait_as_a_delay_sends_the_notice_again_and_never_the_record() {
    let ids: Vec<_> = (0..10).map(|nth| format!("w{nth}")).collect();
    let records: Vec<_> = ids.iter().map(|id| waiting(id)).collect();
    let notices: Vec<_> = ids.iter().map(|id| notice(id)).collect();
    let mut world = world(&records, &[]);
    world.in_flight = IN_FLIGHT_MAX.get().into();
    let report = handle(&world, notices.clone());
    assert_eq!(outcomes(&report), ["delayed"; 10]);
    let sent = world.sent_again();
    let bodies = notices.iter().map(|it| it.body.clone().unwrap());
    assert!(bodies.into_iter().all(|body| sent.iter().any(|it| it.0 == body)), "{sent:?}");
}

#[test]
fn every_fault_of_a_read_ends_in_its_outcome_and_touches_no_neighbour() {
    let mut records: Vec<_> =
        ["good", "throttled", "denied", "large", "other", "bare"].map(due).to_vec();
    records[4].body = records[4].body.as_ref().map(|body| body.replace(":orders:", ":their:"));
    records[3].body = Some(" ".repeat(RECORD_MAX + 1));
    records[5].body = Some("no JSON".to_owned());
    let world = world(&records, &[("-throttled", throttled()), ("-denied", denied())]);
    let mut batch: Vec<_> =
        ["good", "throttled", "denied", "large", "other", "bare", "gone"].map(notice).to_vec();
    batch.push(notice_in("unlisted", "unlisted"));
    batch.push(due("neighbour"));
    let report = handle(&world, batch);
    assert_eq!(
        outcomes(&report),
        [
            "invoked",
            "waits",
            "waits",
            "unreadable",
            "unreadable",
            "unreadable",
            "record_gone",
            "waits",
            "invoked",
        ]
    );
    assert_eq!(kept(&report), ["throttled", "denied", "unlisted"]);
    let obstacles: Vec<_> = report.entries.iter().filter_map(|it| it.obstacle).collect();
    let (passes, mended) = (Obstacle::Throttled, Obstacle::Configuration);
    assert_eq!(obstacles, [passes, mended, mended]);
    let denied = "AccessDeniedException: the world says no";
    assert_eq!(log::errors(), [denied, "RECORD_BUCKETS does not name unlisted"]);
    assert_eq!(world.count("read"), 7, "all but the one in the unlisted bucket");
    let letters = world.letter_calls();
    let gone = letters.iter().flatten().find(|it| it.attributes[0].1 == "record_gone").unwrap();
    assert_eq!(
        Some(&*gone.body),
        notice("gone").body.as_deref(),
        "so that a redrive reads it again"
    );
    let why: Vec<_> = letters.iter().flatten().map(|it| &*it.attributes[1].1).collect();
    for part in
        ["at most 8 MiB", "function that its key names", "not a JSON object", "no such object"]
    {
        assert!(why.iter().any(|why| why.contains(part)), "{part}: {why:?}");
    }
}

#[test]
fn s3s_test_event_is_done_and_other_notices_are_dead_letters_that_say_why() {
    let test = r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"records"}"#;
    let removed = notice("c").body.unwrap().replace("ObjectCreated:Put", "ObjectRemoved:Delete");
    let records = vec![message("b", test), message("c", &removed)];
    for world in [world(&[], &[]), World::new(&[])] {
        let report = handle(&world, records.clone());
        assert_eq!(outcomes(&report), ["tested", "unreadable"]);
        assert!(kept(&report).is_empty() && world.count("read") == 0);
        assert!(world.letter_calls()[0][0].attributes[1].1.contains("got another notice"));
    }
}

/// A notice of all the objects that these are notices of.
fn several(id: &str, notices: &[SqsMessage]) -> SqsMessage {
    let record = |notice: &SqsMessage| {
        let body = notice.body.as_deref().unwrap();
        body.strip_prefix(r#"{"Records":["#).unwrap().strip_suffix("]}").unwrap().to_owned()
    };
    let records: Vec<_> = notices.iter().map(record).collect();
    message(id, &format!(r#"{{"Records":[{}]}}"#, records.join(",")))
}

fn bodies(messages: &[SqsMessage]) -> Vec<String> {
    messages.iter().map(|message| message.body.clone().unwrap()).collect()
}

#[test]
fn a_notice_of_several_objects_is_done_once_each_has_a_notice_of_its_own() {
    let ids: Vec<_> = (0..23).map(|nth| format!("r{nth}")).collect();
    let notices: Vec<_> = ids.iter().map(|id| notice(id)).collect();
    let mut all = several("all", &notices);
    let mut tenant = SqsMessageAttribute::default();
    tenant.string_value = Some("blue".to_owned());
    all.message_attributes.insert("tenant".to_owned(), tenant);
    let body = serde_json::to_string(all.body.as_ref().unwrap()).unwrap();
    let in_sns = message("sns", &format!(r#"{{"Type":"Notification","Message":{body}}}"#));
    for all in [all, in_sns] {
        let world = world(&[due("a")], &[]);
        let report = handle(&world, vec![notice("a"), all, due("neighbour")]);
        assert_eq!(outcomes(&report), ["invoked", "split", "invoked"]);
        assert!(kept(&report).is_empty());
        let (mut sent, names): (Vec<_>, Vec<_>) = world.sent_again().into_iter().unzip();
        sent.sort();
        let mut expected = bodies(&notices);
        expected.sort();
        assert_eq!(sent, expected);
        assert!(names.iter().all(|it| *it == names[0]), "each has the attributes of the whole");
    }
}

#[test]
fn a_notice_of_several_objects_stays_until_its_queue_has_taken_all_of_theirs() {
    let (passes, mended) = (Some(Obstacle::Throttled), Some(Obstacle::Configuration));
    for (answer, obstacle) in [
        (throttled(), passes),
        (denied(), mended),
        (Answer::Counted(2), mended),
        (Answer::Never, passes),
    ] {
        let world = world(&[due("a")], &[("-bad", answer.clone())]);
        let all = several("all", &["x", "bad", "y"].map(notice));
        let report = handle_within(10, &world, vec![all, notice("a")]);
        assert_eq!(outcomes(&report), ["waits", "invoked"], "{answer:?}");
        assert_eq!(report.entries[0].obstacle, obstacle, "{answer:?}");
        assert_eq!(kept(&report), ["all"]);
        log::errors();
    }
    let world = world(&[], &[("letter of", Answer::Accepted), ("-bad", denied())]);
    let mut old = several("all", &["x", "bad"].map(notice));
    let sent_at = start() - Duration::from_secs(14 * 24 * 3600);
    old.attributes.insert("SentTimestamp".into(), sent_at.timestamp_millis().to_string());
    assert_eq!(outcomes(&handle(&world, vec![old.clone()])), ["unreadable"]);
    let letter = &world.letter_calls()[0][0];
    assert_eq!(Some(&*letter.body), old.body.as_deref(), "no event of it is lost");
    assert!(letter.attributes[1].1.contains("a notice of several"));
}

#[test]
fn without_buckets_nothing_is_read_and_a_notice_waits_for_somebody_to_set_them() {
    let world = World::new(&[]);
    let report = handle(&world, vec![notice("a"), due("b")]);
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    assert_eq!(report.entries[0].obstacle, Some(Obstacle::Configuration));
    assert!(world.count("read") == 0);
}

#[test]
fn few_records_are_read_at_a_time_and_what_was_read_in_time_is_acted_on() {
    let ids = ["a", "b", "c", "d", "hung", "e"];
    let world = world(&ids.map(due), &[("-hung", Answer::Never)]);
    let report = handle_within(10, &world, ids.map(notice).to_vec());
    assert_eq!(outcomes(&report), ["invoked", "invoked", "invoked", "invoked", "waits", "invoked"]);
    assert_eq!(world.most("read"), 3);
    assert_eq!(world.count("read"), 6);
}

#[test]
fn a_large_payload_that_is_given_up_stays_in_its_bucket_and_a_redrive_brings_it_back() {
    let mut record = failed("a", 2 * 24 * 3600);
    let large = "x".repeat(1 << 20);
    record.body = record.body.map(|body| body.replace("payload of a", &large));
    let world = world(std::slice::from_ref(&record), &[]);
    assert_eq!(outcomes(&handle(&world, vec![notice("a")])), ["payload_too_large"]);
    let letter = world.letter_calls()[0][0].clone();
    assert_eq!(Some(&*letter.body), notice("a").body.as_deref());
    let place = ("PayloadLocation", format!("s3://records/{}", key("a")));
    assert_eq!(letter.attributes[1], place);
    let mut moved = message("moved", &letter.body);
    for (name, value) in &letter.attributes {
        let mut attribute = SqsMessageAttribute::default();
        attribute.string_value = Some(value.clone());
        moved.message_attributes.insert((*name).to_owned(), attribute);
    }
    let small = world.objects.values().next().unwrap();
    let small = String::from_utf8(small.clone()).unwrap().replace(&large, "small");
    let objects = world.objects.keys().map(|place| (place.clone(), small.clone().into_bytes()));
    let after = with_records(objects.collect(), &[]);
    let report = handle(&after, vec![moved]);
    assert_eq!(outcomes(&report), ["waits"], "the event starts over at its first backoff");
    assert_eq!(after.visibility_calls()[0].0, QUEUE_URL);
}

#[test]
fn a_dead_letter_that_was_moved_back_can_wait_as_a_delay_although_it_has_ten_attributes() {
    let records = [due("a")];
    let mut world = world(&records, &[]);
    world.in_flight = IN_FLIGHT_MAX.get().into();
    let letters = (0..10).map(|nth| {
        let mut letter = message(&format!("l{nth}"), &notice("a").body.unwrap());
        for (name, value) in [
            ("Reason", "cancelled"),
            ("NoEnvelope", "true"),
            ("PayloadLocation", "s3://records/…"),
            ("FunctionArn", TARGET),
            ("RequestId", "first"),
            ("Attempts", "7"),
            ("FirstFailureAt", "2026-01-01T00:00:00Z"),
            ("LastFailureAt", "2026-01-01T10:00:00Z"),
            ("ErrorType", "Down"),
            ("ErrorMessage", "no route to host"),
        ] {
            let mut attribute = SqsMessageAttribute::default();
            attribute.string_value = Some(value.to_owned());
            letter.message_attributes.insert(name.to_owned(), attribute);
        }
        letter
    });
    let report = handle(&world, letters.collect());
    assert_eq!(outcomes(&report), ["delayed"; 10]);
    for (_, names) in world.sent_again() {
        let gone = ["Attempts", "FirstFailureAt", "LastFailureAt"];
        assert!(
            names.len() <= 10 && !names.iter().any(|name| gone.contains(&&**name)),
            "{names:?}"
        );
        assert!(names.iter().any(|name| name == "NoEnvelope"), "{names:?}");
    }
}
