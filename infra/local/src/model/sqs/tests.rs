//! Tests of single messages. The submodules test queues, move tasks and the properties of random sequences of
//! steps.

mod move_tasks;
mod properties;
mod queues;

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
fn a_receive_returns_the_sender_the_times_and_the_receive_count() {
    let mut sqs = sqs(&[]);
    let message = Outgoing {
        attributes: [("a".to_owned(), MessageAttribute::string("b"))].into(),
        trace_header: Some("Root=1".into()),
        group_id: Some("tenant".into()),
        ..outgoing("test")
    };
    let sent = sqs.send(at(1), QUEUE, message.clone()).cloned().unwrap();
    let first = receive_one(&mut sqs, 2);
    let second = receive_one(&mut sqs, 40);
    assert_eq!(first.message_id, sent.message_id);
    assert_eq!(second.message_id, sent.message_id);
    assert_ne!(first.receipt_handle, second.receipt_handle);
    assert_eq!((first.receive_count, second.receive_count), (1, 2));
    assert_eq!((second.sent_at, second.first_received_at), (at(1), at(2)));
    assert_eq!(second.body, message.body);
    assert!(second.attributes.iter().cloned().eq(message.attributes));
    assert_eq!(second.md5_of_body(), sent.md5_of_body());
    assert_eq!(&*second.sender_id, "000000000000");
    assert_eq!(second.trace_header.as_deref(), Some("Root=1"));
    assert_eq!(second.group_id.as_deref(), Some("tenant"));
    assert_eq!(second.dead_letter_source, None);
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
fn a_deleted_message_does_not_come_back_and_can_be_deleted_again() {
    let (mut sqs, handle) = held(&[]);
    for _ in 0..2 {
        sqs.delete(at(1), QUEUE, &handle).unwrap();
    }
    assert!(receive(&mut sqs, 100).is_empty());
}

#[test]
fn a_handle_can_delete_after_its_visibility_timeout_unless_the_message_was_received_again() {
    for (received_again, left) in [(false, 0), (true, 1)] {
        let (mut sqs, handle) = held(&[("VisibilityTimeout", "10")]);
        if received_again {
            receive_one(&mut sqs, 10);
        }
        sqs.delete(at(15), QUEUE, &handle).unwrap();
        assert_eq!(receive(&mut sqs, 100).len(), left, "received again: {received_again}");
    }
}

#[test]
fn a_changed_visibility_timeout_counts_from_the_change_and_only_for_this_receive() {
    let (mut sqs, handle) = held(&[("VisibilityTimeout", "10")]);
    sqs.change_visibility(at(5), QUEUE, &handle, 60).unwrap();
    assert!(receive(&mut sqs, 64).is_empty());
    let handle = receive_one(&mut sqs, 65).receipt_handle;
    sqs.change_visibility(at(66), QUEUE, &handle, 0).unwrap();
    receive_one(&mut sqs, 66);
    assert!(receive(&mut sqs, 75).is_empty());
    receive_one(&mut sqs, 76);
}

#[test]
fn a_message_stays_in_flight_for_at_most_twelve_hours_after_its_receive() {
    for (second, seconds, taken) in
        [(0, 43_200, true), (1, 43_200, false), (1, 43_199, true), (0, 43_201, false)]
    {
        let (mut sqs, handle) = held(&[]);
        let changed = sqs.change_visibility(at(second), QUEUE, &handle, seconds);
        assert_eq!(changed.is_ok(), taken, "{seconds} at second {second}: {changed:?}");
    }
    let mut sqs = sqs(&[]);
    send(&mut sqs, 0, "x");
    assert!(sqs.receive(at(0), QUEUE, 1, Some(43_201)).is_err());
    assert_eq!(sqs.receive(at(0), QUEUE, 1, Some(43_200)).unwrap().len(), 1);
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
fn a_handle_can_hide_its_message_again_after_the_visibility_timeout() {
    let (mut sqs, handle) = held(&[("VisibilityTimeout", "10")]);
    sqs.change_visibility(at(12), QUEUE, &handle, 5).unwrap();
    assert!(receive(&mut sqs, 16).is_empty());
    receive_one(&mut sqs, 17);
}

#[test]
fn the_visibility_of_a_deleted_message_cannot_be_changed() {
    let (mut sqs, handle) = held(&[]);
    sqs.delete(at(1), QUEUE, &handle).unwrap();
    let refusal = sqs.change_visibility(at(1), QUEUE, &handle, 5).unwrap_err();
    assert!(matches!(refusal, SqsError::InvalidParameterValue { name: "ReceiptHandle", .. }));
}

#[test]
fn the_handle_of_an_earlier_receive_can_still_change_the_visibility() {
    let (mut sqs, handle) = held(&[("VisibilityTimeout", "10")]);
    receive_one(&mut sqs, 10);
    sqs.change_visibility(at(11), QUEUE, &handle, 0).unwrap();
    receive_one(&mut sqs, 11);
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
fn a_receive_skips_messages_that_it_moves_and_returns_the_next_ones() {
    let mut sqs = redriving(1);
    send(&mut sqs, 0, "worn out");
    sqs.receive(at(0), QUEUE, 1, Some(0)).unwrap();
    send(&mut sqs, 1, "fresh");
    assert_eq!(bodies(&sqs.receive(at(1), QUEUE, 1, None).unwrap()), ["fresh"]);
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
fn a_redrive_policy_needs_a_dead_letter_queue_that_exists() {
    for arn in
        ["dead", "arn:aws:sqs:us-east-1:000000000000:x", "arn:aws:sqs:eu-west-1:000000000000:dead"]
    {
        let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}"#);
        let given = attributes(&[("RedrivePolicy", &policy)]);
        let mut sqs = sqs(&[]);
        for refusal in [
            sqs.set_attributes(at(0), QUEUE, &given).unwrap_err(),
            sqs.create_queue(at(0), "other", &given).unwrap_err(),
        ] {
            assert!(refusal.to_string().ends_with("Dead letter target does not exist."), "{arn}");
        }
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
fn visible_delayed_and_in_flight_messages_are_counted() {
    let mut sqs = sqs(&[]);
    for _ in 0..3 {
        send(&mut sqs, 0, "x");
    }
    sqs.send(at(0), QUEUE, Outgoing { delay: Some(9), ..outgoing("x") }).unwrap();
    sqs.receive(at(0), QUEUE, 1, Some(5)).unwrap();
    for (second, visible, delayed, in_flight) in
        [(0, "2", "1", "1"), (5, "3", "1", "0"), (9, "4", "0", "0")]
    {
        assert_eq!(attribute(&mut sqs, second, "ApproximateNumberOfMessages"), visible);
        assert_eq!(attribute(&mut sqs, second, "ApproximateNumberOfMessagesDelayed"), delayed);
        assert_eq!(attribute(&mut sqs, second, "ApproximateNumberOfMessagesNotVisible"), in_flight);
    }
}
