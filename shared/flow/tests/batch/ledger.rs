//! Batches whose failures are claimed and listed in the ledger's table. What a handler does with claims and orders is
//! searched and simulated; here is what that costs, and what is noted and left out if the table fails.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    claim::{Claim, State, Token},
    lineage::{Key, Known},
    time::later,
};
use comeback_flow::report::Obstacle;

use crate::{
    services::{Answer, denied, throttled},
    world::{
        World, due, failed, handle, handle_by, handle_within, key_of, outcomes, poison, start,
        waiting,
    },
};

fn first(mut message: SqsMessage) -> SqsMessage {
    message.attributes.insert("ApproximateReceiveCount".to_owned(), "1".to_owned());
    message
}

/// The run of each claim, its generation, its owner and whether it is done.
fn states(world: &World) -> Vec<(String, u32, String, bool)> {
    let told = |(key, Known { claim, .. }): (&Key, &Known)| {
        let Token { generation, owner } = claim.token.clone();
        (key.run.clone(), generation, owner, claim.state == State::Done)
    };
    let mut states: Vec<_> = world.runs().iter().map(told).collect();
    states.sort();
    states
}

/// The entry in `states` for the handler's own claim, for the message at the index `nth` in the batch.
fn own(id: &str, generation: u32, nth: usize, done: bool) -> (String, u32, String, bool) {
    (key_of(id).run, generation, format!("the handler's/{nth}"), done)
}

#[test]
fn what_sqs_would_delete_soon_is_given_up_though_the_ledger_cannot_be_asked() {
    let world = World::with_ledger(&[("claim", denied())]);
    let report = handle(&world, vec![failed("a", 14 * 86_400)]);
    assert_eq!(outcomes(&report), ["max_age_exceeded"]);
}

#[test]
fn what_was_invoked_is_done_even_if_it_cannot_be_marked() {
    for (answer, obstacle) in [(throttled(), Some(Obstacle::Ledger)), (Answer::Never, None)] {
        let world = World::with_ledger(&[("mark", answer)]);
        let report = handle_within(10, &world, vec![due("a")]);
        assert_eq!(outcomes(&report), ["invoked"]);
        assert_eq!(report.entries[0].obstacle, obstacle);
        assert_eq!(states(&world), [own("a", 1, 0, false)], "its lease will end");
    }
}

#[test]
fn what_waits_because_it_could_not_be_claimed_is_listed_if_that_can_be_written() {
    let world = World::with_register(&[("claim", throttled())]);
    let report = handle(&world, vec![due("a")]);
    assert_eq!(outcomes(&report), ["waits"]);
    assert_eq!(world.run_of("a").claim.state, State::Waiting);
    let handle = world.listed("a").receipt_handle;
    assert_eq!(handle, Some("handle of a".to_owned()), "an operator's order reaches it");
}

/// The events were held back for an hour, and have come often.
#[test]
fn events_wait_for_no_longer_after_a_fault_than_it_has_lasted() {
    for (part, answer, shortest) in
        [("claim", denied(), 10), ("claim", throttled(), 1), ("payload of", throttled(), 1)]
    {
        let world = World::with_ledger(&[(part, answer)]);
        let handler = world.handler();
        let longest = |after| {
            world.pass(Duration::from_secs(after));
            world.log.borrow_mut().clear();
            let records = (0..20).map(|nth| {
                let mut held_back = failed(&format!("e{nth}"), 3_600);
                let count = ("ApproximateReceiveCount".to_owned(), "40".to_owned());
                held_back.attributes.extend([count]);
                held_back
            });
            let report = handle_by(&world, &handler, 30, records.collect());
            assert_eq!(outcomes(&report), ["waits"; 20], "{part}");
            let calls = world.visibility_calls();
            calls.into_iter().flat_map(|(_, changes)| changes).map(|change| change.1).max()
        };
        let [first, later, another] = [longest(0), longest(25), longest(3_600)];
        assert!(first <= Some(shortest), "{part}: {first:?}");
        assert!((Some(13)..=Some(26)).contains(&later), "{part}, after 25 s: {later:?}");
        assert!(another <= Some(shortest), "{part}, another fault: {another:?}");
    }
}

#[test]
fn a_retry_costs_three_writes_and_one_read() {
    let world = World::with_register(&[]);
    let report = handle(&world, vec![first(waiting("a")), first(poison("b"))]);
    assert_eq!(outcomes(&report), ["waits", "unreadable"]);
    assert_eq!(world.run_of("a").claim.state, State::Waiting);
    let until = later(start(), Duration::from_secs(60));
    let listed = world.listed("a");
    assert_eq!((listed.due, listed.receipt_handle), (until, Some("handle of a".to_owned())));
    assert!(world.count("look up") == 0, "nobody knew of it before");
    let report = handle(&world, vec![due("a")]);
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(states(&world), [own("a", 2, 0, true)]);
    assert_eq!(world.count("claim"), 3);
    assert_eq!(world.look_ups(), [(1, 1)]);
}

#[test]
fn an_event_goes_on_without_a_register_that_fails() {
    for (verb, answer) in [
        ("register", throttled()),
        ("register", denied()),
        ("look up", denied()),
        ("look up", Answer::Slow(3_000)),
        ("register", Answer::Never),
    ] {
        let is_fault = matches!(answer, Answer::Refused(_));
        let world = World::with_register(&[(verb, answer)]);
        let report = handle(&world, vec![waiting("a"), due("b")]);
        assert_eq!(outcomes(&report), ["waits", "invoked"], "{verb}");
        assert_eq!(report.entries[0].obstacle.is_some(), is_fault, "{verb}");
    }
}

/// An old receipt handle made its message visible, before its event is due.
#[test]
fn what_comes_back_early_while_another_acts_on_it_waits_for_that_one() {
    let world = World::with_register(&[]);
    let token = Token { generation: 1, owner: "other".to_owned() };
    let in_seconds = |seconds| later(start(), Duration::from_secs(seconds));
    let (state, expires_at) = (State::Held { until: in_seconds(25) }, in_seconds(86_400));
    let claim = Claim { token, state, order: None, expires_at };
    world.know(key_of("a"), Known { claim, note: None, calls: Vec::new() });
    assert_eq!(outcomes(&handle(&world, vec![waiting("a")])), ["waits"]);
    assert_eq!(world.visibility_calls()[0].1[0].1, 25);
}
