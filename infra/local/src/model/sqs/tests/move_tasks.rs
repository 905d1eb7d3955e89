//! Tests of message move tasks, which move messages from a dead-letter queue to their source queue or to a named
//! one.

use super::*;

const OTHER: &str = "other";

/// A queue that moves messages to its dead-letter queue after one receive, and another queue.
fn world() -> Sqs {
    let mut sqs = redriving(1);
    sqs.create_queue(at(0), OTHER, &Attributes::new()).unwrap();
    sqs
}

/// Sends messages with these bodies and receives them until the queue moves them to its dead-letter queue.
fn give_up(sqs: &mut Sqs, second: u64, queue: &str, bodies: &[&str]) {
    for body in bodies {
        sqs.send(at(second), queue, outgoing(body)).unwrap();
    }
    for _ in 0..2 {
        sqs.receive(at(second), queue, 10, Some(0)).unwrap();
    }
}

fn start(
    sqs: &mut Sqs,
    second: u64,
    destination: Option<&str>,
    per_second: Option<i64>,
) -> Result<String, SqsError> {
    let (source, destination) = (queue_arn(DEAD), destination.map(queue_arn));
    sqs.start_move_task(at(second), &source, destination.as_deref(), per_second)
}

/// The latest task's status, how many messages it has moved, and how many it has to move.
fn latest_task(sqs: &Sqs) -> (MoveStatus, usize, usize) {
    let task = sqs.move_tasks(&queue_arn(DEAD)).unwrap().next().unwrap();
    (task.status, task.moved, task.to_move)
}

fn take(sqs: &mut Sqs, second: u64, queue: &str) -> Vec<Received> {
    sqs.move_due(at(second));
    sqs.receive(at(second), queue, 10, None).unwrap()
}

#[test]
fn a_moved_message_is_a_new_message_with_the_old_body_and_attributes() {
    let mut sqs = world();
    let attributes = [("a".to_owned(), MessageAttribute::string("b"))];
    let message = Outgoing {
        attributes: attributes.into(),
        trace_header: Some("Root=1".into()),
        group_id: Some("tenant".into()),
        ..outgoing("x")
    };
    let sent = sqs.send(at(1), QUEUE, message.clone()).cloned().unwrap();
    (0..2).for_each(|_| drop(sqs.receive(at(2), QUEUE, 1, Some(0)).unwrap()));
    start(&mut sqs, 50, Some(OTHER), None).unwrap();
    let moved = take(&mut sqs, 60, OTHER).remove(0);
    assert_ne!(moved.message_id, sent.message_id);
    assert_eq!((moved.sent_at, moved.first_received_at), (at(50), at(60)));
    assert_eq!(moved.receive_count, 1);
    assert_eq!(moved.dead_letter_source, None);
    assert_eq!(moved.body, message.body);
    assert!(moved.attributes.iter().cloned().eq(message.attributes));
    assert_eq!(moved.md5_of_body(), sent.md5_of_body());
    assert_eq!(moved.trace_header.as_deref(), Some("Root=1"));
    assert_eq!(moved.group_id.as_deref(), Some("tenant"));
}

#[test]
fn the_retention_period_of_a_moved_message_counts_from_the_move() {
    let mut sqs = world();
    sqs.set_attributes(at(0), QUEUE, &attributes(&[("MessageRetentionPeriod", "60")])).unwrap();
    give_up(&mut sqs, 1, QUEUE, &["x"]);
    start(&mut sqs, 100, None, None).unwrap();
    assert_eq!(take(&mut sqs, 159, QUEUE).len(), 1);
    give_up(&mut sqs, 200, QUEUE, &["y"]);
    start(&mut sqs, 300, None, None).unwrap();
    assert!(take(&mut sqs, 360, QUEUE).is_empty());
}

#[test]
fn a_task_with_a_rate_limit_moves_the_first_message_at_once_and_the_others_at_intervals() {
    let mut sqs = world();
    give_up(&mut sqs, 0, QUEUE, &["a", "b", "c"]);
    start(&mut sqs, 10, Some(OTHER), Some(1)).unwrap();
    assert_eq!(latest_task(&sqs), (MoveStatus::Running, 1, 3));
    assert_eq!(sqs.next_move_at(), Some(at(11)));
    assert_eq!(bodies(&take(&mut sqs, 10, OTHER)), ["a"]);
    assert_eq!(bodies(&take(&mut sqs, 11, OTHER)), ["b"]);
    // A late call moves all messages that became due in the meantime.
    assert_eq!(bodies(&take(&mut sqs, 20, OTHER)), ["c"]);
    assert_eq!(latest_task(&sqs), (MoveStatus::Completed, 3, 3));
    assert_eq!(sqs.next_move_at(), None);
}

#[test]
fn a_rate_limit_is_between_one_and_five_hundred_messages_a_second() {
    for (per_second, taken) in
        [(1, true), (500, true), (501, false), (0, false), (-1, false), (i64::MAX, false)]
    {
        let started = start(&mut world(), 0, None, Some(per_second));
        assert_eq!(started.is_ok(), taken, "{per_second}: {started:?}");
    }
}

#[test]
fn a_task_ends_even_if_every_moved_message_fails_again() {
    let mut sqs = world();
    give_up(&mut sqs, 0, QUEUE, &["a", "b"]);
    start(&mut sqs, 0, None, Some(1)).unwrap();
    for second in 0..5 {
        sqs.move_due(at(second));
        (0..2).for_each(|_| drop(sqs.receive(at(second), QUEUE, 10, Some(0)).unwrap()));
    }
    assert_eq!(latest_task(&sqs), (MoveStatus::Completed, 2, 2));
    assert_eq!(take(&mut sqs, 5, DEAD).len(), 2);
}

#[test]
fn messages_in_flight_are_not_moved() {
    let mut sqs = world();
    give_up(&mut sqs, 0, QUEUE, &["held", "free"]);
    sqs.receive(at(0), DEAD, 1, Some(30)).unwrap();
    start(&mut sqs, 1, Some(OTHER), None).unwrap();
    assert_eq!(latest_task(&sqs), (MoveStatus::Completed, 1, 1));
    assert_eq!(bodies(&take(&mut sqs, 1, OTHER)), ["free"]);
    assert_eq!(bodies(&take(&mut sqs, 30, DEAD)), ["held"]);
}

#[test]
fn a_message_that_was_sent_to_the_dead_letter_queue_needs_a_named_destination() {
    let mut sqs = world();
    sqs.send(at(0), DEAD, outgoing("sent")).unwrap();
    start(&mut sqs, 0, None, None).unwrap();
    assert_eq!(latest_task(&sqs), (MoveStatus::Failed("CouldNotDetermineMessageSource"), 0, 1));
    start(&mut sqs, 0, Some(QUEUE), None).unwrap();
    assert_eq!(bodies(&take(&mut sqs, 0, QUEUE)), ["sent"]);
}

#[test]
fn a_queue_has_at_most_one_running_task_and_lists_the_last_ten() {
    let mut sqs = world();
    give_up(&mut sqs, 0, QUEUE, &["a", "b"]);
    for _ in 0..11 {
        let handle = start(&mut sqs, 0, Some(OTHER), Some(1)).unwrap();
        let second = start(&mut sqs, 0, Some(OTHER), None).unwrap_err().to_string();
        assert!(second.starts_with("There is already a task running."), "{second}");
        sqs.cancel_move_task(&handle).unwrap();
        sqs.send(at(0), DEAD, outgoing("more")).unwrap();
    }
    assert_eq!(sqs.move_tasks(&queue_arn(DEAD)).unwrap().count(), 10);
    sqs.delete_queue(at(0), DEAD).unwrap();
    sqs.create_queue(at(60), DEAD, &Attributes::new()).unwrap();
    assert_eq!(sqs.move_tasks(&queue_arn(DEAD)).unwrap().count(), 0);
}
