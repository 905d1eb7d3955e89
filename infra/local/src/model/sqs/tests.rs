//! Tests of what depends on the time. The conformance tests check everything else against AWS.

mod move_tasks;
mod properties;

use super::*;

const QUEUE: &str = "retries";
const DEAD: &str = "dead";

fn at(second: u64) -> Timestamp {
    time::later(Timestamp::UNIX_EPOCH, Duration::from_secs(1_000_000 + second))
}

fn attributes(given: &[(&str, &str)]) -> Attributes {
    given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn sqs(given: &[(&str, &str)]) -> Sqs {
    let mut sqs = Sqs::new(7);
    sqs.create_queue(at(0), DEAD, &Attributes::new()).unwrap();
    sqs.create_queue(at(0), QUEUE, &attributes(given)).unwrap();
    sqs
}

/// A queue that moves messages to the dead-letter queue after `count` receives.
fn redriving(count: u32) -> Sqs {
    let arn = "arn:aws:sqs:us-east-1:000000000000:dead";
    let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{count}}}"#);
    sqs(&[("RedrivePolicy", &policy)])
}

fn outgoing(body: &str) -> Outgoing {
    Outgoing { body: body.into(), ..Outgoing::default() }
}

fn send(sqs: &mut Sqs, second: u64, body: &str) -> Received {
    sqs.send(at(second), QUEUE, outgoing(body)).cloned().unwrap()
}

fn receive(sqs: &mut Sqs, second: u64) -> Vec<Received> {
    sqs.receive(at(second), QUEUE, 10, None).unwrap()
}

fn receive_one(sqs: &mut Sqs, second: u64) -> Received {
    let mut received = receive(sqs, second);
    assert_eq!(received.len(), 1);
    received.remove(0)
}

/// An SQS with one message in flight, and its receipt handle.
fn held(given: &[(&str, &str)]) -> (Sqs, String) {
    let mut sqs = sqs(given);
    send(&mut sqs, 0, "x");
    let handle = receive_one(&mut sqs, 0).receipt_handle;
    (sqs, handle)
}

fn bodies(received: &[Received]) -> Vec<&str> {
    received.iter().map(|message| &*message.body).collect()
}

fn attribute(sqs: &mut Sqs, second: u64, name: &str) -> String {
    sqs.attributes(at(second), QUEUE).unwrap().remove(name).unwrap_or_default()
}

#[test]
fn a_received_message_is_hidden_until_its_visibility_timeout_ends() {
    let mut sqs = sqs(&[("VisibilityTimeout", "10")]);
    send(&mut sqs, 0, "x");
    for (second, count) in [(0, 1), (1, 0), (9, 0), (10, 1), (19, 0), (20, 1)] {
        assert_eq!(receive(&mut sqs, second).len(), count, "second {second}");
    }
}

#[test]
fn a_receive_returns_at_most_the_requested_number_longest_visible_first() {
    let mut sqs = sqs(&[]);
    for second in 0..5 {
        send(&mut sqs, second, &second.to_string());
    }
    assert_eq!(bodies(&sqs.receive(at(5), QUEUE, 3, None).unwrap()), ["0", "1", "2"]);
    assert_eq!(bodies(&sqs.receive(at(5), QUEUE, 3, None).unwrap()), ["3", "4"]);
}

#[test]
fn a_receive_with_a_visibility_timeout_of_zero_returns_a_message_once_and_leaves_it_visible() {
    let mut sqs = sqs(&[]);
    send(&mut sqs, 0, "x");
    for count in 1..4 {
        let received = sqs.receive(at(0), QUEUE, 10, Some(0)).unwrap();
        assert_eq!(received.iter().map(|it| it.receive_count).collect::<Vec<_>>(), [count]);
    }
}

#[test]
fn a_delayed_message_becomes_visible_after_its_own_or_the_queues_delay() {
    let mut sqs = sqs(&[("DelaySeconds", "5")]);
    send(&mut sqs, 0, "queue's");
    for (body, delay) in [("own", 2), ("none", 0)] {
        let message = Outgoing { delay: Some(delay), ..outgoing(body) };
        sqs.send(at(0), QUEUE, message).unwrap();
    }
    for (second, expected) in
        [(0, vec!["none"]), (1, vec![]), (2, vec!["own"]), (5, vec!["queue's"])]
    {
        assert_eq!(bodies(&receive(&mut sqs, second)), expected, "second {second}");
    }
}

#[test]
fn a_refused_change_names_the_limit_and_changes_nothing() {
    let (mut sqs, handle) = held(&[("VisibilityTimeout", "10")]);
    let refusal = sqs.change_visibility(at(1), QUEUE, &handle, 43_200).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
    );
    receive_one(&mut sqs, 10);
}

#[test]
fn malformed_handles_and_those_of_another_queue_or_an_earlier_start_are_invalid() {
    let (mut sqs, handle) = held(&[]);
    let mut earlier = Sqs::new(1);
    earlier.create_queue(at(0), QUEUE, &Attributes::new()).unwrap();
    send(&mut earlier, 0, "x");
    let earlier = receive_one(&mut earlier, 0).receipt_handle;
    for (queue, handle) in [(QUEUE, "garbage"), (DEAD, &handle), (QUEUE, &earlier)] {
        let expected = Err(SqsError::ReceiptHandleIsInvalid { handle: handle.to_owned() });
        assert_eq!(sqs.delete(at(0), queue, handle), expected);
        assert_eq!(sqs.change_visibility(at(0), queue, handle, 1), expected);
    }
}

#[test]
fn a_message_is_deleted_after_its_retention_period_in_every_state() {
    for place in ["visible", "delayed", "in flight"] {
        let mut sqs = sqs(&[("MessageRetentionPeriod", "60")]);
        let delay = if place == "delayed" { Some(60) } else { None };
        sqs.send(at(0), QUEUE, Outgoing { delay, ..outgoing("x") }).unwrap();
        if place == "in flight" {
            sqs.receive(at(0), QUEUE, 1, Some(59)).unwrap();
        }
        assert!(receive(&mut sqs, 60).is_empty(), "{place}");
        for name in ["", "Delayed", "NotVisible"] {
            let name = format!("ApproximateNumberOfMessages{name}");
            assert_eq!(attribute(&mut sqs, 60, &name), "0", "{place} {name}");
        }
    }
}

#[test]
fn a_changed_retention_period_applies_to_existing_messages() {
    let mut sqs = sqs(&[]);
    send(&mut sqs, 0, "x");
    let shorter = attributes(&[("MessageRetentionPeriod", "60")]);
    sqs.set_attributes(at(61), QUEUE, &shorter).unwrap();
    assert!(receive(&mut sqs, 61).is_empty());
}

#[test]
fn a_message_moves_to_the_dead_letter_queue_when_it_would_exceed_max_receive_count() {
    let mut sqs = redriving(2);
    let sent = send(&mut sqs, 0, "x");
    for second in [1, 2] {
        assert_eq!(sqs.receive(at(second), QUEUE, 1, Some(0)).unwrap().len(), 1);
    }
    assert!(sqs.receive(at(3), DEAD, 1, None).unwrap().is_empty());
    assert!(receive(&mut sqs, 3).is_empty());
    let dead = sqs.receive(at(4), DEAD, 1, None).unwrap().remove(0);
    assert_eq!(dead.message_id, sent.message_id);
    assert_eq!((dead.sent_at, dead.first_received_at), (at(0), at(1)));
    // The receive that moved the message did not return it, so it does not count.
    assert_eq!(dead.receive_count, 3);
    let source = "arn:aws:sqs:us-east-1:000000000000:retries";
    assert_eq!(dead.dead_letter_source.as_deref(), Some(source));
}

#[test]
fn retention_in_a_dead_letter_queue_counts_from_the_original_send() {
    let mut sqs = redriving(1);
    sqs.set_attributes(at(0), DEAD, &attributes(&[("MessageRetentionPeriod", "60")])).unwrap();
    send(&mut sqs, 0, "x");
    sqs.receive(at(0), QUEUE, 1, Some(0)).unwrap();
    assert!(receive(&mut sqs, 50).is_empty());
    assert_eq!(sqs.receive(at(59), DEAD, 1, Some(0)).unwrap().len(), 1);
    assert!(sqs.receive(at(60), DEAD, 1, Some(0)).unwrap().is_empty());
}

#[test]
fn a_message_that_moves_to_a_dead_letter_queue_too_late_is_deleted_at_once() {
    let mut sqs = redriving(1);
    sqs.set_attributes(at(0), DEAD, &attributes(&[("MessageRetentionPeriod", "60")])).unwrap();
    send(&mut sqs, 0, "x");
    sqs.receive(at(0), QUEUE, 1, Some(0)).unwrap();
    assert!(sqs.receive(at(61), DEAD, 1, None).unwrap().is_empty());
    assert!(receive(&mut sqs, 61).is_empty());
    assert!(sqs.receive(at(61), DEAD, 1, None).unwrap().is_empty());
}

#[test]
fn without_its_dead_letter_queue_a_message_can_still_be_received() {
    let mut sqs = redriving(1);
    send(&mut sqs, 0, "x");
    sqs.delete_queue(at(0), DEAD).unwrap();
    for count in 1..4 {
        let received = sqs.receive(at(1), QUEUE, 1, Some(0)).unwrap();
        assert_eq!(received.iter().map(|it| it.receive_count).collect::<Vec<_>>(), [count]);
    }
}

#[test]
fn a_receive_returns_nothing_at_the_limit_of_messages_in_flight() {
    const MAX: usize = 3;
    let mut sqs = sqs(&[("VisibilityTimeout", "10")]);
    sqs.queue_mut(QUEUE).unwrap().in_flight_max = MAX;
    for _ in 0..=MAX {
        send(&mut sqs, 0, "x");
    }
    let all_but_one = sqs.receive(at(0), QUEUE, usize::MAX, None).unwrap();
    assert_eq!(all_but_one.len(), MAX);
    assert!(receive(&mut sqs, 1).is_empty());
    assert_eq!(sqs.next_visible_at(QUEUE, at(1)), Some(at(10)));
    sqs.delete(at(1), QUEUE, &all_but_one[0].receipt_handle).unwrap();
    assert_eq!(receive(&mut sqs, 1).len(), 1);
}

#[test]
fn the_time_of_the_next_visible_message_is_known_in_every_state() {
    let mut sqs = sqs(&[]);
    assert_eq!(sqs.next_visible_at(QUEUE, at(0)), None);
    assert_eq!(sqs.next_visible_at("nothing", at(0)), None);
    sqs.send(at(0), QUEUE, Outgoing { delay: Some(9), ..outgoing("delayed") }).unwrap();
    assert_eq!(sqs.next_visible_at(QUEUE, at(0)), Some(at(9)));
    send(&mut sqs, 1, "x");
    assert_eq!(sqs.next_visible_at(QUEUE, at(2)), Some(at(1)));
    sqs.receive(at(2), QUEUE, 1, Some(3)).unwrap();
    assert_eq!(sqs.next_visible_at(QUEUE, at(2)), Some(at(5)));
}

#[test]
fn a_purge_deletes_all_messages_and_cannot_be_repeated_within_a_minute() {
    let mut sqs = sqs(&[]);
    for delay in [None, None, Some(5)] {
        sqs.send(at(0), QUEUE, Outgoing { delay, ..outgoing("x") }).unwrap();
    }
    sqs.receive(at(0), QUEUE, 1, Some(5)).unwrap();
    sqs.purge_queue(at(1), QUEUE).unwrap();
    assert!(receive(&mut sqs, 30).is_empty());
    let refusal = SqsError::PurgeQueueInProgress { queue: QUEUE.to_owned() };
    assert_eq!(sqs.purge_queue(at(60), QUEUE), Err(refusal));
    assert_eq!(sqs.purge_queue(at(61), QUEUE), Ok(()));
}

#[test]
fn deleting_a_queue_deletes_its_messages_and_reserves_its_name_for_a_minute() {
    let (mut sqs, handle) = held(&[]);
    sqs.delete_queue(at(0), QUEUE).unwrap();
    assert_eq!(sqs.delete_queue(at(0), QUEUE), Err(SqsError::QueueDoesNotExist));
    assert_eq!(sqs.receive(at(0), QUEUE, 1, None).unwrap_err(), SqsError::QueueDoesNotExist);
    let create = |sqs: &mut Sqs, second| sqs.create_queue(at(second), QUEUE, &Attributes::new());
    assert_eq!(create(&mut sqs, 59), Err(SqsError::QueueDeletedRecently));
    create(&mut sqs, 60).unwrap();
    assert!(receive(&mut sqs, 100).is_empty());
    assert!(matches!(
        sqs.delete(at(60), QUEUE, &handle),
        Err(SqsError::ReceiptHandleIsInvalid { .. })
    ));
}

#[test]
fn attributes_include_the_times_of_creation_and_last_change() {
    let mut sqs = sqs(&[]);
    sqs.set_attributes(at(5), QUEUE, &attributes(&[("VisibilityTimeout", "7")])).unwrap();
    for (name, value) in [
        ("CreatedTimestamp", "1000000"),
        ("LastModifiedTimestamp", "1000005"),
        ("QueueArn", "arn:aws:sqs:us-east-1:000000000000:retries"),
        ("VisibilityTimeout", "7"),
    ] {
        assert_eq!(attribute(&mut sqs, 9, name), value, "{name}");
    }
}
