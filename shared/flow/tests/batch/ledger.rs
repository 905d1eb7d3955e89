//! Batches whose failures are acted on once.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    claim::{Claim, State, Token},
    fault::FaultKind,
    time::later,
};
use comeback_flow::report::Obstacle;

use crate::world::{
    Answer, World, due, failed, handle, handle_within, kept, outcomes, poison, start, waiting,
};

const THROTTLED: FaultKind = FaultKind::Transient { retry_after: None };

/// A failure that is past its age.
fn expired(id: &str) -> SqsMessage {
    failed(id, 2 * 86_400)
}

/// The same failure in another message.
fn again(mut message: SqsMessage, id: &str) -> SqsMessage {
    message.message_id = Some(id.to_owned());
    message.receipt_handle = Some(format!("handle of {id}"));
    message
}

fn claim_of(owner: &str, state: State) -> Claim {
    let token = Token { generation: 1, owner: owner.to_owned() };
    Claim { token, state, expires_at: later(start(), Duration::from_hours(24)) }
}

/// A world in which this failure is claimed already.
fn where_claimed(id: &str, claim: Claim, answers: &[(&'static str, Answer)]) -> World {
    let world = World::with_ledger(answers);
    world.claims().insert(format!("request of {id}"), claim);
    world
}

/// The key of each claim, its generation and whether it is done.
fn states(world: &World) -> Vec<(String, u32, bool)> {
    let told = |(key, claim): (&String, &Claim)| {
        (key.clone(), claim.token.generation, claim.state == State::Done)
    };
    world.claims().iter().map(told).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_acted_on_is_claimed_before_and_marked_after_with_two_writes() {
    let world = World::with_ledger(&[]);
    let records = vec![waiting("a"), due("b"), expired("c"), poison("d")];
    let report = handle(&world, records).await;
    assert_eq!(outcomes(&report), ["waits", "invoked", "max_age_exceeded", "unreadable"]);
    let done = |key: &str| (key.to_owned(), 1, true);
    assert_eq!(states(&world), [done("request of b"), done("request of c")]);
    assert_eq!(world.ledger_calls.borrow().len(), 4, "nothing for what waits or is unreadable");
}

#[tokio::test(start_paused = true)]
async fn what_was_acted_on_already_is_dropped() {
    for record in [due("a"), expired("a")] {
        let world = where_claimed("a", claim_of("other", State::Done), &[]);
        let report = handle(&world, vec![record]).await;
        assert_eq!(outcomes(&report), ["duplicate"]);
        assert!(kept(&report).is_empty());
        assert!(world.invocations.borrow().is_empty() && world.letter_calls.borrow().is_empty());
        assert_eq!(world.ledger_calls.borrow().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_acts_on_waits_until_that_one_has_surely_ended() {
    let until = later(start(), Duration::from_secs(25));
    let world = where_claimed("a", claim_of("other", State::Held { until }), &[]);
    let report = handle(&world, vec![due("a"), due("b")]).await;
    assert_eq!(outcomes(&report), ["waits", "invoked"]);
    let calls = world.visibility_calls.borrow();
    assert_eq!(calls[0].1, [("handle of a".to_owned(), 25)]);
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_one_that_has_died_is_taken_over() {
    let world = where_claimed("a", claim_of("other", State::Held { until: start() }), &[]);
    let report = handle(&world, vec![due("a")]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(states(&world), [("request of a".to_owned(), 2, true)]);
}

#[tokio::test(start_paused = true)]
async fn one_failure_twice_in_a_batch_is_invoked_once() {
    let world = World::with_ledger(&[]);
    let report = handle(&world, vec![due("a"), again(due("a"), "b")]).await;
    assert_eq!(outcomes(&report), ["invoked", "waits"]);
    assert_eq!(world.invocations.borrow().len(), 1);
    let again = handle(&world, vec![again(due("a"), "b")]).await;
    assert_eq!(outcomes(&again), ["duplicate"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_accepted_is_free_again() {
    let world = World::with_ledger(&[
        ("payload of a", Answer::Fault(THROTTLED)),
        ("payload of b", Answer::Refused),
    ]);
    let report = handle(&world, vec![due("a"), expired("b")]).await;
    assert_eq!(outcomes(&report), ["waits", "left to queue"]);
    assert!(states(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_cannot_be_asked_delays_an_invocation_but_no_dead_letter() {
    for kind in [THROTTLED, FaultKind::Configuration] {
        let world = World::with_ledger(&[("claim", Answer::Fault(kind))]);
        let report = handle(&world, vec![due("a"), expired("b")]).await;
        assert_eq!(outcomes(&report), ["waits", "max_age_exceeded"]);
        let obstacles: Vec<_> = report.entries.iter().map(|entry| entry.obstacle).collect();
        assert_eq!(obstacles, [Some(Obstacle::Ledger); 2]);
        assert!(world.invocations.borrow().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_hangs_is_left_to_the_queue_in_time() {
    let world = World::with_ledger(&[("claim request of a", Answer::Never)]);
    let report = handle_within(10, &world, vec![due("a"), due("b")]).await;
    assert_eq!(outcomes(&report), ["not reached", "invoked"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_invoked_is_done_even_if_it_cannot_be_marked() {
    for answer in [Answer::Fault(THROTTLED), Answer::Never] {
        let world = World::with_ledger(&[("mark", answer)]);
        let report = handle_within(10, &world, vec![due("a")]).await;
        assert_eq!(outcomes(&report), ["invoked"]);
        assert_eq!(states(&world), [("request of a".to_owned(), 1, false)], "its lease will end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_its_owners() {
    let world = World::with_ledger(&[("request of a", Answer::Unheard)]);
    let report = handle(&world, vec![due("a")]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    assert_eq!(states(&world), [("request of a".to_owned(), 1, true)]);
}

#[tokio::test(start_paused = true)]
async fn one_who_comes_late_undoes_nothing() {
    // While the target of `a` hangs, its claim is taken over and marked by another.
    let world = World::with_ledger(&[("payload of a", Answer::Fault(THROTTLED))]);
    let taken_over = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let other = claim_of("other", State::Done);
        world.claims().insert("request of a".to_owned(), other);
    };
    let (report, ()) = futures_util::future::join(handle(&world, vec![due("a")]), taken_over).await;
    assert_eq!(outcomes(&report), ["waits"]);
    assert_eq!(states(&world), [("request of a".to_owned(), 1, true)], "still the other's");
}

#[tokio::test(start_paused = true)]
async fn an_age_that_ends_while_a_failure_is_claimed_is_over() {
    // It may be invoked for this moment and no longer; the ledger's answer takes 20 ms.
    let world = World::with_ledger(&[]);
    let report = handle(&world, vec![failed("a", 86_400)]).await;
    assert_eq!(outcomes(&report), ["max_age_exceeded"]);
    assert!(world.invocations.borrow().is_empty());
    assert_eq!(states(&world), [("request of a".to_owned(), 1, true)]);
}
