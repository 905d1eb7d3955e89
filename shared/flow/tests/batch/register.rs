//! Batches whose waits are listed in the register, and an operator's orders.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    claim::{Claim, Order, State, Token},
    fault::FaultKind,
    time::later,
};
use comeback_flow::report::Obstacle;

use crate::world::{Answer, World, due, failed, handle, kept, outcomes, poison, start, waiting};

const ORDERS: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
const THROTTLED: FaultKind = FaultKind::Transient { retry_after: None };
const KEY: &str = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST/request of a";

fn first(mut message: SqsMessage) -> SqsMessage {
    message.attributes.insert("ApproximateReceiveCount".to_owned(), "1".to_owned());
    message
}

fn item(world: &World) -> Option<Claim> {
    world.claims().get(KEY).cloned()
}

/// A world in which the event waits, and an operator's order for it.
async fn ordered(order: Option<Order>, answers: &[(&'static str, Answer)]) -> World {
    let world = World::with_register(answers);
    handle(&world, vec![first(waiting("a"))]).await;
    let mut claims = world.claims();
    let item = claims.get_mut(KEY).unwrap();
    item.order = order;
    item.token = Token { generation: item.token.generation + 1, owner: "operator".to_owned() };
    drop(claims);
    world.ledger_calls.borrow_mut().clear();
    world.look_ups.borrow_mut().clear();
    world
}

#[tokio::test(start_paused = true)]
async fn a_retry_costs_three_writes_and_one_read() {
    let world = World::with_register(&[]);
    let report = handle(&world, vec![first(waiting("a")), first(poison("b"))]).await;
    assert_eq!(outcomes(&report), ["waits", "unreadable"]);
    assert_eq!(item(&world).unwrap().state, State::Waiting);
    let until = later(start(), Duration::from_secs(60));
    assert_eq!(world.waits.borrow()[KEY], (until, Some("handle of a".to_owned())));
    assert!(world.look_ups.borrow().is_empty(), "nobody knew of it before");
    let report = handle(&world, vec![due("a")]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(item(&world).unwrap().state, State::Done);
    assert_eq!(world.ledger_calls.borrow().len(), 3);
    assert_eq!(*world.look_ups.borrow(), [(1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn without_the_register_a_wait_writes_nothing_and_nothing_is_read() {
    let world = World::with_ledger(&[]);
    handle(&world, vec![waiting("a"), due("b")]).await;
    assert_eq!(world.ledger_calls.borrow().len(), 2, "claim and mark");
    assert!(world.look_ups.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_not_accepted_is_listed_again_by_the_write_that_releases_it() {
    let world = World::with_register(&[("payload of a", Answer::Fault(THROTTLED))]);
    let report = handle(&world, vec![due("a")]).await;
    assert_eq!(outcomes(&report), ["waits"]);
    assert_eq!(item(&world).unwrap().state, State::Waiting);
    assert_eq!(world.ledger_calls.borrow().len(), 2, "a claim, and its release");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_goes_on_is_listed_by_its_latest_receipt_handle() {
    let world = ordered(None, &[]).await;
    let mut next = waiting("a");
    next.receipt_handle = Some("the next handle".to_owned());
    handle(&world, vec![next]).await;
    assert_eq!(world.waits.borrow()[KEY].1.as_deref(), Some("the next handle"));
    assert_eq!(world.ledger_calls.borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_goes_on_is_not_written_again() {
    let world = World::with_register(&[]);
    world.in_flight.set(Some(100_000));
    let batch = || (0..10).map(|nth| waiting(&format!("{nth}"))).collect::<Vec<_>>();
    let report = handle(&world, batch()).await;
    assert_eq!(outcomes(&report), ["delayed"; 10]);
    assert!(world.waits.borrow().values().all(|(_, handle)| handle.is_none()));
    assert_eq!(world.ledger_calls.borrow().len(), 10);
    handle(&world, batch()).await;
    assert_eq!(world.ledger_calls.borrow().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_wants_retried_is_invoked_before_it_is_due() {
    let world = ordered(Some(Order::Retry), &[]).await;
    let report = handle(&world, vec![waiting("a")]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    let payload = world.invocations.borrow()[0].1.clone();
    assert!(payload.contains(r#""attempt":1,"#), "{payload}");
    assert_eq!(item(&world).unwrap().state, State::Done);
    assert_eq!(world.ledger_calls.borrow().len(), 2, "claim and mark");
    assert_eq!(world.look_ups.borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_order_stays_until_it_is_carried_out() {
    let world = ordered(Some(Order::Retry), &[("payload of a", Answer::Fault(THROTTLED))]).await;
    let report = handle(&world, vec![waiting("a")]).await;
    assert_eq!(outcomes(&report), ["waits"]);
    assert_eq!(item(&world).unwrap().order, Some(Order::Retry));
    let world = ordered(Some(Order::Cancel), &[("payload of a", Answer::Refused)]).await;
    let report = handle(&world, vec![waiting("a")]).await;
    assert_eq!(outcomes(&report), ["dead letter not sent"]);
    let item = item(&world).unwrap();
    assert_eq!((item.state, item.order), (State::Waiting, Some(Order::Cancel)));
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_is_given_up_whether_it_is_due_or_not() {
    for message in [waiting("a"), due("a"), failed("a", 2 * 86_400)] {
        let world = ordered(Some(Order::Cancel), &[]).await;
        let report = handle(&world, vec![message]).await;
        assert_eq!(outcomes(&report), ["cancelled"]);
        assert!(kept(&report).is_empty() && world.invocations.borrow().is_empty());
        assert_eq!(item(&world).unwrap().state, State::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_is_found_by_the_claim_if_it_could_not_be_read() {
    let world = ordered(Some(Order::Cancel), &[("look up", Answer::Fault(THROTTLED))]).await;
    let report = handle(&world, vec![due("a")]).await;
    assert_eq!(outcomes(&report), ["cancelled"]);
    assert_eq!(report.entries[0].obstacle, Some(Obstacle::Ledger));
}

#[tokio::test(start_paused = true)]
async fn the_order_that_is_found_by_the_claim_counts() {
    let (retry, cancel) = (Some(Order::Retry), Some(Order::Cancel));
    for (read, found, outcome) in [(cancel, retry, "invoked"), (retry, cancel, "cancelled")] {
        let world = ordered(read, &[]).await;
        world.next_order.set(found);
        let report = handle(&world, vec![waiting("a")]).await;
        assert_eq!(outcomes(&report), [outcome]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_that_comes_with_a_wait_stays_beside_the_new_receipt_handle() {
    // The operator's order was written after this batch had read the items.
    let world = ordered(Some(Order::Retry), &[]).await;
    let report = handle(&world, vec![first(waiting("a"))]).await;
    assert_eq!(outcomes(&report), ["waits"]);
    assert_eq!(item(&world).unwrap().order, Some(Order::Retry));
    let calls = world.visibility_calls.borrow();
    let brought_back = calls.last().map(|(_, changes)| changes.clone());
    assert_eq!(brought_back, Some(vec![("handle of a".to_owned(), 0)]));
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_brought_back_is_soon_looked_up_again_if_that_fails() {
    for (kind, seconds) in [(THROTTLED, 1..=5), (FaultKind::Configuration, 60..=120)] {
        let world = ordered(Some(Order::Retry), &[("look up", Answer::Fault(kind))]).await;
        world.visibility_calls.borrow_mut().clear();
        let report = handle(&world, vec![waiting("a"), first(waiting("b"))]).await;
        assert_eq!(outcomes(&report), ["waits", "waits"]);
        let calls = world.visibility_calls.borrow();
        let timeouts: Vec<u32> =
            calls.iter().flat_map(|(_, changes)| changes).map(|(_, timeout)| *timeout).collect();
        assert!(seconds.contains(&timeouts[0]), "{timeouts:?}");
        assert_eq!(timeouts[1], 60, "nobody can have ordered anything for it");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_due_for_a_paused_target_waits_again_and_uses_up_no_attempt() {
    let world = World::with_register(&[]);
    world.paused.borrow_mut().push(ORDERS.to_owned());
    let report = handle(&world, vec![due("a"), waiting("b"), failed("c", 2 * 86_400)]).await;
    assert_eq!(outcomes(&report), ["waits", "waits", "max_age_exceeded"]);
    assert!(world.invocations.borrow().is_empty());
    let (until, _) = world.waits.borrow()[KEY].clone();
    assert!(until >= later(start(), Duration::from_mins(12)), "{until}");
    world.paused.borrow_mut().clear();
    let report = handle(&world, vec![due("a")]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    assert!(world.invocations.borrow()[0].1.contains(r#""attempt":1,"#));
}

#[tokio::test(start_paused = true)]
async fn one_event_of_a_paused_target_is_retried_if_an_operator_wants_it() {
    let world = ordered(Some(Order::Retry), &[]).await;
    world.paused.borrow_mut().push(ORDERS.to_owned());
    let report = handle(&world, vec![waiting("a"), due("b")]).await;
    assert_eq!(outcomes(&report), ["invoked", "waits"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_goes_on_without_a_register_that_fails() {
    for (verb, answer) in [
        ("register", Answer::Fault(THROTTLED)),
        ("register", Answer::Fault(FaultKind::Configuration)),
        ("look up", Answer::Fault(FaultKind::Configuration)),
        ("look up", Answer::Slow(3)),
    ] {
        let world = World::with_register(&[(verb, answer)]);
        let report = handle(&world, vec![waiting("a"), due("b")]).await;
        assert_eq!(outcomes(&report), ["waits", "invoked"], "{verb}");
        let is_fault = matches!(answer, Answer::Fault(_));
        assert_eq!(report.entries[0].obstacle.is_some(), is_fault, "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_fails_makes_no_event_late() {
    let world = World::with_register(&[("look up", Answer::Fault(FaultKind::Configuration))]);
    let report = handle(&world, vec![failed("a", 55)]).await;
    assert_eq!(outcomes(&report), ["waits"]);
    assert_eq!(world.visibility_calls.borrow()[0].1[0].1, 5);
}

#[tokio::test(start_paused = true)]
async fn a_register_that_hangs_leaves_no_message_behind() {
    let world = World::with_register(&[("register", Answer::Never)]);
    let report = handle(&world, vec![waiting("a"), due("b")]).await;
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    assert_eq!(kept(&report), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn what_another_holds_or_has_done_is_not_listed_as_waiting() {
    let until = later(start(), Duration::from_secs(25));
    for state in [State::Done, State::Held { until }] {
        let world = World::with_register(&[]);
        let token = Token { generation: 1, owner: "other".to_owned() };
        let expires_at = later(start(), Duration::from_hours(24));
        let others = Claim { token, state, order: None, expires_at };
        world.claims().insert(KEY.to_owned(), others.clone());
        let report = handle(&world, vec![first(waiting("a"))]).await;
        assert_eq!(outcomes(&report), ["waits"]);
        assert_eq!(item(&world), Some(others));
    }
}

/// What a handler does with a message that an old receipt handle made visible, hours before its event is due.
async fn shown_while(state: State) -> (&'static str, World) {
    let world = World::with_register(&[]);
    let token = Token { generation: 1, owner: "other".to_owned() };
    let expires_at = later(start(), Duration::from_hours(24));
    world.claims().insert(KEY.to_owned(), Claim { token, state, order: None, expires_at });
    let report = handle(&world, vec![waiting("a")]).await;
    (outcomes(&report)[0], world)
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_early_and_was_acted_on_is_dropped_at_once() {
    let (outcome, world) = shown_while(State::Done).await;
    assert_eq!(outcome, "duplicate");
    assert!(world.ledger_calls.borrow().is_empty() && world.visibility_calls.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_early_while_another_acts_on_it_waits_for_that_one_and_not_until_it_is_due()
{
    for (lease, waited) in [(25, 25), (600, 60)] {
        let until = later(start(), Duration::from_secs(lease));
        let (outcome, world) = shown_while(State::Held { until }).await;
        assert_eq!(outcome, "waits");
        assert_eq!(
            world.visibility_calls.borrow()[0].1[0].1,
            waited,
            "the event is due after a minute"
        );
    }
}
