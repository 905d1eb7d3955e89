//! Batches whose failures are acted on once.

use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use comeback_core::{
    claim::{Claim, State, Token},
    fault::FaultKind,
    time::later,
};
use comeback_flow::report::Obstacle;

use crate::world::{
    Answer, World, due, failed, handle, handle_within, kept, key_of, message, outcomes, poison,
    start, waiting,
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
    Claim { token, state, order: None, expires_at: later(start(), Duration::from_hours(24)) }
}

/// A world in which this failure is claimed already.
fn where_claimed(id: &str, claim: Claim, answers: &[(&'static str, Answer)]) -> World {
    let world = World::with_ledger(answers);
    world.claims().insert(key_of(id), claim);
    world
}

/// The key of each claim, its generation, its owner and whether it is done.
fn states(world: &World) -> Vec<(String, u32, String, bool)> {
    let told = |(key, claim): (&String, &Claim)| {
        let Token { generation, owner } = claim.token.clone();
        (key.clone(), generation, owner, claim.state == State::Done)
    };
    world.claims().iter().map(told).collect()
}

/// The entry in `states` for the handler's own claim, for the message at the index `nth` in the batch.
fn own(id: &str, generation: u32, nth: usize, done: bool) -> (String, u32, String, bool) {
    (key_of(id), generation, format!("the handler's/{nth}"), done)
}

#[tokio::test(start_paused = true)]
async fn what_is_acted_on_is_claimed_before_and_marked_after_with_two_writes() {
    let world = World::with_ledger(&[]);
    let records = vec![waiting("a"), due("b"), expired("c"), poison("d")];
    let report = handle(&world, records).await;
    assert_eq!(outcomes(&report), ["waits", "invoked", "max_age_exceeded", "unreadable"]);
    assert_eq!(states(&world), [own("b", 1, 1, true), own("c", 1, 2, true)]);
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
    assert_eq!(states(&world), [own("a", 2, 0, true)]);
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
    assert_eq!(outcomes(&report), ["waits", "dead letter not sent"]);
    assert!(states(&world).is_empty());
}

/// The dead letter of a failure, which was moved back to the retry queue a minute ago and is due.
fn redriven(id: &str, request_id: &str) -> SqsMessage {
    let mut message = message(id, &format!("\"payload of {id}\""));
    let sent_at = (start() - Duration::from_secs(60)).timestamp_millis();
    message.attributes.insert("SentTimestamp".to_owned(), sent_at.to_string());
    let attributes = [
        ("Reason", "not_retryable"),
        ("FunctionArn", "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST"),
        ("RequestId", request_id),
        ("ErrorType", "PermanentFailure"),
    ];
    message.message_attributes = attributes
        .map(|(name, value)| {
            let mut attribute = SqsMessageAttribute::default();
            attribute.string_value = Some(value.to_owned());
            (name.to_owned(), attribute)
        })
        .into();
    message
}

#[tokio::test(start_paused = true)]
async fn a_redriven_event_is_no_duplicate_of_the_failure_that_ended_it() {
    let world = where_claimed("a", claim_of("other", State::Done), &[]);
    let letter = redriven("letter of a", "request of a");
    let report = handle(&world, vec![letter.clone()]).await;
    assert_eq!(outcomes(&report), ["invoked"]);
    let payload = world.invocations.borrow()[0].1.clone();
    assert!(payload.contains(r#""attempt":1,"#), "{payload}");
    assert!(payload.contains(r#""request_id":"request of a""#), "{payload}");
    let again = handle(&world, vec![letter]).await;
    assert_eq!(outcomes(&again), ["duplicate"], "the same message, delivered twice");
}

#[tokio::test(start_paused = true)]
async fn where_the_ledger_cannot_be_asked_nothing_is_done_until_it_can() {
    for (kind, seconds) in [(THROTTLED, 1..=2), (FaultKind::Configuration, 60..=120)] {
        let world = World::with_ledger(&[("claim", Answer::Fault(kind))]);
        let report = handle(&world, vec![due("a"), expired("b")]).await;
        assert_eq!(outcomes(&report), ["waits"; 2]);
        let obstacles: Vec<_> = report.entries.iter().map(|entry| entry.obstacle).collect();
        assert_eq!(obstacles, [Some(Obstacle::Ledger); 2]);
        assert!(world.invocations.borrow().is_empty() && world.letter_calls.borrow().is_empty());
        for (handle, timeout) in world.visibility_calls.borrow().iter().flat_map(|call| &call.1) {
            assert!(seconds.contains(timeout), "{handle}: {timeout}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_sqs_would_delete_soon_is_given_up_though_the_ledger_cannot_be_asked() {
    let world = World::with_ledger(&[("claim", Answer::Fault(FaultKind::Configuration))]);
    let report = handle(&world, vec![failed("a", 14 * 86_400)]).await;
    assert_eq!(outcomes(&report), ["max_age_exceeded"]);
}

#[tokio::test(start_paused = true)]
async fn what_another_handler_may_judge_differently_is_given_up_without_a_claim() {
    let world = World::with_ledger(&[("claim", Answer::Never)]);
    let mut foreign = due("a");
    foreign.body = foreign.body.map(|body| body.replace("123456789012", "999999999999"));
    let report = handle(&world, vec![foreign]).await;
    assert_eq!(outcomes(&report), ["target_not_allowed"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_hangs_is_left_to_the_queue_in_time_and_holds_up_no_other() {
    let world = World::with_ledger(&[("claim request of a", Answer::Never)]);
    let records = vec![due("a"), due("b"), expired("c"), waiting("d")];
    let report = handle_within(10, &world, records).await;
    assert_eq!(outcomes(&report), ["not reached", "invoked", "max_age_exceeded", "waits"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_invoked_whose_age_was_over_when_its_claim_was_answered() {
    // MAX_AGE is a day. The event has 2 s left, and its claim takes 3 s.
    let world = World::with_ledger(&[("claim", Answer::Slow(3))]);
    let report = handle(&world, vec![failed("a", 86_398)]).await;
    assert_eq!(outcomes(&report), ["max_age_exceeded"]);
    assert!(world.invocations.borrow().is_empty());
    assert_eq!(states(&world), [own("a", 1, 0, true)]);
    let in_time = handle(&World::new(&[]), vec![failed("a", 86_400)]).await;
    assert_eq!(outcomes(&in_time), ["invoked"], "at the very end of its age");
}

#[tokio::test(start_paused = true)]
async fn what_was_invoked_is_done_even_if_it_cannot_be_marked() {
    for (answer, obstacle) in
        [(Answer::Fault(THROTTLED), Some(Obstacle::Ledger)), (Answer::Never, None)]
    {
        let world = World::with_ledger(&[("mark", answer)]);
        let report = handle_within(10, &world, vec![due("a")]).await;
        assert_eq!(outcomes(&report), ["invoked"]);
        assert_eq!(report.entries[0].obstacle, obstacle);
        assert_eq!(states(&world), [own("a", 1, 0, false)], "its lease will end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_made_twice_is_its_owners() {
    let world = World::with_ledger(&[
        ("payload of b", Answer::Fault(THROTTLED)),
        ("request of", Answer::Repeated),
    ]);
    let report = handle(&world, vec![due("a"), due("b")]).await;
    assert_eq!(outcomes(&report), ["invoked", "waits"]);
    assert!(report.entries.iter().all(|entry| entry.obstacle != Some(Obstacle::Ledger)));
    assert_eq!(states(&world), [own("a", 1, 0, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_knows_of_is_released_with_its_wait() {
    let world = World::with_ledger(&[("claim", Answer::Lost)]);
    let report = handle(&world, vec![due("a")]).await;
    assert_eq!(outcomes(&report), ["waits"]);
    assert!(states(&world).is_empty(), "the next receive need not wait for a lease");
}

/// Invokes `a`. Before Lambda gives this answer, another invocation takes the claim over and marks it.
async fn taken_over_during(answer: Answer) -> World {
    let world = World::with_ledger(&[("payload of a", answer)]);
    let taken_over = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let other = claim_of("other", State::Done);
        world.claims().insert(key_of("a"), other);
    };
    futures_util::future::join(handle(&world, vec![due("a")]), taken_over).await;
    world
}

#[tokio::test(start_paused = true)]
async fn one_who_comes_late_can_neither_mark_nor_release_what_another_holds() {
    for answer in [Answer::Accepted, Answer::Fault(THROTTLED)] {
        let world = taken_over_during(answer).await;
        let others = (key_of("a"), 1, "other".to_owned(), true);
        assert_eq!(states(&world), [others]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_keeps_changing_is_left_for_later() {
    let world = World::with_ledger(&[]);
    // Every write finds this claim, whose lease is over, instead of the one that it expects.
    let other = claim_of("other", State::Held { until: start() });
    world.always_found.replace(Some(other));
    let report = handle(&world, vec![due("a")]).await;
    assert_eq!(outcomes(&report), ["waits"]);
    assert!(world.invocations.borrow().is_empty());
    let claims = world.ledger_calls.borrow().iter().filter(|(_, next)| next.is_some()).count();
    assert_eq!(claims, 3);
}
