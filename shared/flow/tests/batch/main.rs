//! Batches against ports that fail in every way.

mod answers;
mod deliveries;
mod ledger;
mod lineage;
mod log;
mod probes;
mod queues;
mod records;
mod services;
mod streams;
mod table;
mod world;

use std::time::Duration;

use comeback_core::in_flight::IN_FLIGHT_MAX;
use proptest::prelude::*;
use services::{Answer, denied, throttled};
use wire::Request;
use world::{
    QUEUE_URL, World, batch, due, failed, handle, handle_within, kept, message, outcomes, poison,
    waiting,
};

#[test]
fn what_waits_goes_back_in_one_call_and_what_is_due_is_invoked() {
    let world = World::new(&[]);
    let records = vec![waiting("a"), due("b"), failed("c", 20), due("d"), poison("e")];
    let report = handle(&world, records);
    assert_eq!(outcomes(&report), ["waits", "invoked", "waits", "invoked", "unreadable"]);
    assert_eq!(kept(&report), ["a", "c"]);
    let changes = vec![("handle of a".to_owned(), 60), ("handle of c".to_owned(), 40)];
    assert_eq!(world.visibility_calls(), [(QUEUE_URL.to_owned(), changes)]);
    let (invocations, payloads) = (world.invocations(), world.payloads());
    assert_eq!(invocations.len(), 2);
    assert_eq!(
        invocations[0].target,
        "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST"
    );
    assert!(payloads[0].contains(r#""attempt":1"#) && payloads[0].contains(r#""payload of b""#));
    assert_eq!(world.letter_calls()[0][0].body, "no JSON in e");
}

#[test]
fn calls_are_made_in_batches_of_ten_and_invocations_ten_at_a_time() {
    let world = World::new(&[]);
    let mut records: Vec<_> = (0..25).map(|n| waiting(&format!("w{n}"))).collect();
    records.extend((0..35).map(|n| due(&format!("d{n}"))));
    records.extend((0..12).map(|n| poison(&format!("p{n}"))));
    let report = handle(&world, records);
    assert_eq!(kept(&report).len(), 25);
    let sizes: Vec<_> = world.visibility_calls().iter().map(|(_, changes)| changes.len()).collect();
    assert_eq!(sizes, [10, 10, 5]);
    let sizes: Vec<_> = world.letter_calls().iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 2]);
    assert_eq!(world.invocations().len(), 35);
    assert_eq!(world.most("invoke"), 10);
}

#[test]
fn each_queue_has_calls_of_its_own() {
    let world = World::new(&[]);
    let mut other = waiting("b");
    other.event_source_arn = Some("arn:aws:sqs:us-east-1:123456789012:other".into());
    let mut unnamed = waiting("c");
    unnamed.event_source_arn = None;
    let report = handle(&world, vec![waiting("a"), other, unnamed, due("d")]);
    assert_eq!(outcomes(&report), ["waits", "waits", "left to queue", "invoked"]);
    assert_eq!(kept(&report), ["a", "b", "c"]);
    let urls: Vec<_> = world.visibility_calls().iter().map(|(url, _)| url.clone()).collect();
    assert_eq!(urls.len(), 2);
    assert!(urls.contains(&QUEUE_URL.replace("retry", "other")));
}

#[test]
fn a_call_that_hangs_holds_up_no_other() {
    let world = World::new(&[
        ("payload of hung", Answer::Never),
        ("handle of stuck", Answer::Never),
        ("payload of throttled", throttled()),
    ]);
    let mut records =
        vec![due("hung"), due("throttled"), due("good"), poison("p"), waiting("stuck")];
    records[4].event_source_arn = Some("arn:aws:sqs:us-east-1:123456789012:stuck".into());
    records.push(waiting("w"));
    let report = handle(&world, records);
    assert_eq!(
        outcomes(&report),
        ["not reached", "waits", "invoked", "unreadable", "not reached", "waits"]
    );
    // Every answer of this world takes 20 ms, and the throttled message is put back as soon as its own has arrived.
    let is_put_back = |(_, request): &&(_, Request)| matches!(request, Request::Hide { .. });
    let at = world.log.borrow().iter().rfind(is_put_back).unwrap().0.start;
    assert!(at < world::start() + Duration::from_millis(50), "{at}");
}

#[test]
fn what_has_begun_is_not_cut_off_to_begin_nothing_more() {
    // Ten invocations run at a time. Of ten seconds, new calls begin in the first 6.5 s, and calls may end until 9.5 s.
    let world = World::new(&[("payload of slow", Answer::Slow(8_000))]);
    let mut records: Vec<_> = (0..10).map(|n| due(&format!("slow {n}"))).collect();
    records.push(due("next"));
    let report = handle_within(10, &world, records);
    let mut expected = vec!["invoked"; 10];
    expected.push("not reached");
    assert_eq!(outcomes(&report), expected);
}

#[test]
fn a_batch_whose_messages_could_not_end_is_refused_before_anything_is_done() {
    let (mut nameless, mut own) = (due("a"), poison("a"));
    nameless.message_id = Some(String::new());
    own.event_source_arn = Some("arn:aws:sqs:us-east-1:123456789012:dead".to_owned());
    for (record, refused) in [
        (nameless, "expected every record to have a messageId, got one without"),
        (
            own,
            "expected DEAD_LETTER_QUEUE_URL to be another queue than the retry queue, got https://sqs.us-east-1.amazonaws.com/123456789012/dead, which sent this batch",
        ),
    ] {
        let world = World::new(&[]);
        let (batch, deadline) =
            (batch(vec![due("b"), record]), world::start() + Duration::from_secs(30));
        let refusal = world.play(&world.handler(), &batch, deadline).unwrap_err();
        assert_eq!(refusal.to_string(), refused);
        assert!(world.log.borrow().is_empty());
    }
}

#[test]
fn only_a_full_batch_asks_how_many_messages_are_in_flight_and_only_once() {
    let batch = || (0..12).map(|n| waiting(&format!("w{n}"))).collect::<Vec<_>>();
    let lone = vec![waiting("a"), due("b"), poison("c")];
    let full = [("count", Answer::Accepted)];
    for (records, in_flight, answers, asks) in [
        (lone, 100_000, &full, 0),
        (batch(), 0, &full, 1),
        (batch(), 100_000, &[("count", denied())], 1),
    ] {
        let mut world = World::new(answers);
        world.in_flight = in_flight;
        let waits = outcomes(&handle(&world, records));
        assert!(!waits.contains(&"delayed"), "{waits:?}");
        assert_eq!(world.count("count"), asks);
    }
}

#[test]
fn a_ledger_that_does_not_answer_keeps_no_sent_message_in_the_queue() {
    let answers =
        [("release", Answer::Never), ("delay of", Answer::Accepted), ("payload of", throttled())];
    let mut world = World::with_ledger(&answers);
    world.in_flight = IN_FLIGHT_MAX.get().into();
    let report = handle(&world, (0..10).map(|n| due(&format!("d{n}"))).collect());
    assert_eq!(outcomes(&report), ["delayed"; 10]);
}

proptest! {
    /// Whatever is in a batch, each message has one outcome, and the good ones are served.
    #[test]
    fn whatever_its_neighbours_are_a_good_message_is_served(bodies in proptest::collection::vec(".{0,40}", 0..12), place in 0usize..12) {
        let world = World::new(&[]);
        let mut records: Vec<_> = bodies.iter().enumerate().map(|(n, body)| message(&format!("m{n}"), body)).collect();
        let place = place.min(records.len());
        records.insert(place, due("good"));
        let report = handle(&world, records);
        let outcomes = outcomes(&report);
        prop_assert_eq!(outcomes.len(), bodies.len() + 1);
        prop_assert_eq!(outcomes[place], "invoked");
        prop_assert!(kept(&report).is_empty(), "{:?}", kept(&report));
    }
}
