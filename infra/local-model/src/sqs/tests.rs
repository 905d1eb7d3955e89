//! Tests of what depends on the time, and of message move tasks. The conformance tests check everything else against
//! AWS.

use std::collections::BTreeSet;

use proptest::prelude::*;

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
    sqs.send(at(second), QUEUE, outgoing(body)).unwrap()
}

fn receive(sqs: &mut Sqs, second: u64) -> Vec<Received> {
    sqs.receive(at(second), QUEUE, 10, None).unwrap()
}

fn receive_one(sqs: &mut Sqs, second: u64) -> Received {
    let mut received = receive(sqs, second);
    assert_eq!(received.len(), 1);
    received.remove(0)
}

fn bodies(received: &[Received]) -> Vec<&str> {
    received.iter().map(|message| &*message.body).collect()
}

fn attribute(sqs: &mut Sqs, second: u64, name: &str) -> String {
    sqs.attributes(at(second), QUEUE).unwrap().remove(name).unwrap_or_default()
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
fn a_retention_period_applies_to_existing_messages_and_counts_from_the_original_send() {
    let minute = attributes(&[("MessageRetentionPeriod", "60")]);
    let mut sqs = redriving(1);
    sqs.set_attributes(at(0), DEAD, &minute).unwrap();
    for _ in 0..2 {
        send(&mut sqs, 0, "x");
    }
    sqs.receive(at(0), QUEUE, 10, Some(0)).unwrap();
    assert!(sqs.receive(at(50), QUEUE, 1, None).unwrap().is_empty());
    assert_eq!(sqs.receive(at(59), DEAD, 10, Some(0)).unwrap().len(), 2);
    assert!(sqs.receive(at(60), DEAD, 10, Some(0)).unwrap().is_empty());

    send(&mut sqs, 100, "too old when it moves");
    assert_eq!(sqs.receive(at(100), QUEUE, 1, Some(0)).unwrap().len(), 1);
    assert!(sqs.receive(at(161), DEAD, 1, None).unwrap().is_empty());
    assert!(receive(&mut sqs, 161).is_empty());
    assert!(sqs.receive(at(161), DEAD, 1, None).unwrap().is_empty());

    send(&mut sqs, 200, "changed");
    sqs.set_attributes(at(261), QUEUE, &minute).unwrap();
    assert_eq!(attribute(&mut sqs, 261, "LastModifiedTimestamp"), "1000261");
    assert_eq!(attribute(&mut sqs, 261, "CreatedTimestamp"), "1000000");
    assert!(receive(&mut sqs, 261).is_empty());
}

#[test]
fn without_its_dead_letter_queue_a_message_can_still_be_received() {
    let mut sqs = redriving(1);
    send(&mut sqs, 0, "x");
    sqs.delete_queue(at(0), DEAD).unwrap();
    for count in 1..4 {
        assert_eq!(sqs.receive(at(1), QUEUE, 1, Some(0)).unwrap()[0].receive_count, count);
    }
}

#[test]
fn the_next_purge_and_a_deleted_queues_name_are_refused_for_a_minute_and_old_handles_for_ever() {
    let mut sqs = sqs(&[]);
    sqs.purge_queue(at(1), QUEUE).unwrap();
    let refusal = SqsError::PurgeQueueInProgress { queue: QUEUE.to_owned() };
    assert_eq!(sqs.purge_queue(at(60), QUEUE), Err(refusal));
    for delay in [None, None, Some(5)] {
        sqs.send(at(60), QUEUE, Outgoing { delay, ..outgoing("x") }).unwrap();
    }
    sqs.receive(at(60), QUEUE, 1, Some(5)).unwrap();
    sqs.purge_queue(at(61), QUEUE).unwrap();
    assert!(receive(&mut sqs, 90).is_empty());

    send(&mut sqs, 90, "x");
    let handle = receive_one(&mut sqs, 90).receipt_handle;
    sqs.delete_queue(at(100), QUEUE).unwrap();
    let create = |sqs: &mut Sqs, second| sqs.create_queue(at(second), QUEUE, &Attributes::new());
    assert_eq!(create(&mut sqs, 159), Err(SqsError::QueueDeletedRecently));
    create(&mut sqs, 160).unwrap();
    assert!(receive(&mut sqs, 200).is_empty());
    let mut next_start = Sqs::new(8);
    create(&mut next_start, 0).unwrap();
    for sqs in [&mut sqs, &mut next_start] {
        let expected = SqsError::ReceiptHandleIsInvalid { handle: handle.clone() };
        assert_eq!(sqs.delete(at(200), QUEUE, &handle), Err(expected));
    }
}

const OTHER: &str = "other";

/// A queue that moves messages to its dead-letter queue after one receive, and another queue.
fn with_other() -> Sqs {
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

fn moved(sqs: &mut Sqs, second: u64, queue: &str) -> Vec<Received> {
    sqs.move_due(at(second));
    sqs.receive(at(second), queue, 10, None).unwrap()
}

#[test]
fn a_moved_message_is_a_new_message_with_the_old_body_and_attributes() {
    let mut sqs = with_other();
    let attributes = [("a".to_owned(), MessageAttribute::string("b"))];
    let message = Outgoing {
        attributes: attributes.into(),
        trace_header: Some("Root=1".into()),
        group_id: Some("tenant".into()),
        ..outgoing("x")
    };
    let sent = sqs.send(at(1), QUEUE, message.clone()).unwrap();
    (0..2).for_each(|_| drop(sqs.receive(at(2), QUEUE, 1, Some(0)).unwrap()));
    start(&mut sqs, 50, Some(OTHER), None).unwrap();
    let new = moved(&mut sqs, 60, OTHER).remove(0);
    assert_ne!(new.message_id, sent.message_id);
    assert_eq!((new.sent_at, new.first_received_at), (at(50), at(60)));
    assert_eq!(new.receive_count, 1);
    assert_eq!(new.dead_letter_source, None);
    assert_eq!(new.body, message.body);
    assert!(new.attributes.iter().cloned().eq(message.attributes));
    assert_eq!(new.md5_of_body(), sent.md5_of_body());
    assert_eq!(new.trace_header.as_deref(), Some("Root=1"));
    assert_eq!(new.group_id.as_deref(), Some("tenant"));
}

#[test]
fn the_retention_period_of_a_moved_message_counts_from_the_move() {
    let mut sqs = with_other();
    sqs.set_attributes(at(0), QUEUE, &attributes(&[("MessageRetentionPeriod", "60")])).unwrap();
    give_up(&mut sqs, 1, QUEUE, &["x"]);
    start(&mut sqs, 100, None, None).unwrap();
    assert_eq!(moved(&mut sqs, 159, QUEUE).len(), 1);
    give_up(&mut sqs, 200, QUEUE, &["y"]);
    start(&mut sqs, 300, None, None).unwrap();
    assert!(moved(&mut sqs, 360, QUEUE).is_empty());
}

#[test]
fn a_task_with_a_rate_limit_moves_the_first_message_at_once_and_the_others_at_intervals() {
    let mut sqs = with_other();
    give_up(&mut sqs, 0, QUEUE, &["a", "b", "c"]);
    start(&mut sqs, 10, Some(OTHER), Some(1)).unwrap();
    assert_eq!(latest_task(&sqs), (MoveStatus::Running, 1, 3));
    assert_eq!(sqs.next_move_at(), Some(at(11)));
    assert_eq!(bodies(&moved(&mut sqs, 10, OTHER)), ["a"]);
    assert_eq!(bodies(&moved(&mut sqs, 11, OTHER)), ["b"]);
    // A late call moves all messages that became due in the meantime.
    assert_eq!(bodies(&moved(&mut sqs, 20, OTHER)), ["c"]);
    assert_eq!(latest_task(&sqs), (MoveStatus::Completed, 3, 3));
    assert_eq!(sqs.next_move_at(), None);
}

#[test]
fn a_task_moves_what_was_visible_at_its_start_and_ends_even_if_it_fails_again() {
    let mut sqs = with_other();
    give_up(&mut sqs, 0, QUEUE, &["held", "a", "b"]);
    sqs.receive(at(0), DEAD, 1, Some(60)).unwrap();
    start(&mut sqs, 0, None, Some(1)).unwrap();
    for second in 0..5 {
        sqs.move_due(at(second));
        (0..2).for_each(|_| drop(sqs.receive(at(second), QUEUE, 10, Some(0)).unwrap()));
    }
    assert_eq!(latest_task(&sqs), (MoveStatus::Completed, 2, 2));
    assert_eq!(moved(&mut sqs, 5, DEAD).len(), 2);
}

#[test]
fn a_queue_has_at_most_one_running_task_and_lists_the_last_ten() {
    let mut sqs = with_other();
    sqs.send(at(0), DEAD, outgoing("sent here, so it has no source")).unwrap();
    start(&mut sqs, 0, None, None).unwrap();
    assert_eq!(latest_task(&sqs), (MoveStatus::Failed("CouldNotDetermineMessageSource"), 0, 1));
    give_up(&mut sqs, 0, QUEUE, &["a", "b"]);
    for _ in 0..11 {
        let handle = start(&mut sqs, 0, Some(OTHER), Some(1)).unwrap();
        let second = start(&mut sqs, 0, Some(OTHER), None).unwrap_err().to_string();
        assert!(second.starts_with("There is already a task running."), "{second}");
        sqs.cancel_move_task(&handle).unwrap();
        sqs.send(at(0), DEAD, outgoing("more")).unwrap();
    }
    assert_eq!(sqs.move_tasks(&queue_arn(DEAD)).unwrap().count(), 10);
    for per_second in [501, 0, -1, i64::MAX] {
        assert!(start(&mut sqs, 0, None, Some(per_second)).is_err(), "{per_second}");
    }
    start(&mut sqs, 0, Some(OTHER), Some(500)).unwrap();
    sqs.delete_queue(at(0), DEAD).unwrap();
    sqs.create_queue(at(60), DEAD, &Attributes::new()).unwrap();
    assert_eq!(sqs.move_tasks(&queue_arn(DEAD)).unwrap().count(), 0);
}

// Properties that hold for every sequence of steps.

/// A call by any client, or the passing of time. Handles are chosen by an index into those received so far.
#[derive(Clone, Debug)]
enum Step {
    Send { delay: u32 },
    Receive { max: usize, visibility: u32 },
    Delete { handle: prop::sample::Index },
    Change { handle: prop::sample::Index, seconds: u32 },
    Advance { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..20_u32).prop_map(|delay| Step::Send { delay }),
        (1..5_usize, 0..20_u32).prop_map(|(max, visibility)| Step::Receive { max, visibility }),
        any::<prop::sample::Index>().prop_map(|handle| Step::Delete { handle }),
        (any::<prop::sample::Index>(), prop_oneof![0..40_u32, 43_190..43_210_u32])
            .prop_map(|(handle, seconds)| Step::Change { handle, seconds }),
        (0..30_u64).prop_map(|seconds| Step::Advance { seconds }),
    ]
}

/// The reference model's state of a message. It is enough to predict the result of every step.
#[derive(Default)]
struct Known {
    hidden_until: u64,
    received_at: u64,
    latest_handle: String,
    deleted: bool,
}

/// Takes `steps` and checks the result of each against the reference model. Returns the model's final state.
fn live(sqs: &mut Sqs, steps: &[Step]) -> BTreeMap<Arc<str>, Known> {
    let mut now = 0;
    let mut known: BTreeMap<Arc<str>, Known> = BTreeMap::new();
    let mut handles: Vec<(Arc<str>, String)> = Vec::new();
    for step in steps {
        match step {
            Step::Send { delay } => {
                let message = Outgoing { delay: Some(*delay), ..outgoing("x") };
                let id = sqs.send(at(now), QUEUE, message).unwrap().message_id.clone();
                let hidden_until = now + u64::from(*delay);
                known.insert(id, Known { hidden_until, ..Known::default() });
            }
            Step::Receive { max, visibility } => {
                let received = sqs.receive(at(now), QUEUE, *max, Some(*visibility)).unwrap();
                assert!(received.len() <= *max);
                let ids: BTreeSet<_> = received.iter().map(|it| &it.message_id).collect();
                assert_eq!(ids.len(), received.len(), "twice in one receive");
                for message in received {
                    let it = known.get_mut(&message.message_id).unwrap();
                    assert!(!it.deleted, "received after it was deleted");
                    assert!(it.hidden_until <= now, "received while another holds it");
                    it.hidden_until = now + u64::from(*visibility);
                    it.received_at = now;
                    it.latest_handle.clone_from(&message.receipt_handle);
                    handles.push((message.message_id, message.receipt_handle));
                }
            }
            Step::Delete { handle } if !handles.is_empty() => {
                let (id, handle) = handle.get(&handles);
                sqs.delete(at(now), QUEUE, handle).unwrap();
                let it = known.get_mut(id).unwrap();
                it.deleted |= it.latest_handle == *handle;
            }
            Step::Change { handle, seconds } if !handles.is_empty() => {
                let (id, handle) = handle.get(&handles);
                let changed = sqs.change_visibility(at(now), QUEUE, handle, *seconds);
                let it = known.get_mut(id).unwrap();
                let until = now + u64::from(*seconds);
                let allowed = *seconds <= 43_200 && until <= it.received_at + 43_200;
                assert_eq!(changed.is_ok(), !it.deleted && allowed, "{changed:?}");
                if changed.is_ok() {
                    it.hidden_until = until;
                }
            }
            Step::Advance { seconds } => now += seconds,
            Step::Delete { .. } | Step::Change { .. } => {}
        }
    }
    known
}

/// Receives and deletes messages until the queue is empty. By then every message is visible.
fn drain(sqs: &mut Sqs) -> Vec<Arc<str>> {
    let mut ids = Vec::new();
    while let received = sqs.receive(at(100_000), QUEUE, 10, None).unwrap()
        && !received.is_empty()
    {
        for message in received {
            sqs.delete(at(100_000), QUEUE, &message.receipt_handle).unwrap();
            ids.push(message.message_id);
        }
    }
    ids
}

proptest! {
    #[test]
    fn no_message_is_lost_held_by_two_receivers_at_once_or_counted_twice(steps in prop::collection::vec(step(), 0..200)) {
        let mut sqs = sqs(&[]);
        let known = live(&mut sqs, &steps);
        let left: BTreeSet<_> = known.iter().filter(|(_, it)| !it.deleted).map(|(id, _)| id.clone()).collect();
        let counts = ["", "Delayed", "NotVisible"]
            .map(|place| attribute(&mut sqs, 5000, &format!("ApproximateNumberOfMessages{place}")));
        prop_assert_eq!(counts.iter().map(|count| count.parse::<usize>().unwrap()).sum::<usize>(), left.len());
        let drained = drain(&mut sqs);
        prop_assert_eq!(drained.len(), left.len());
        prop_assert_eq!(drained.into_iter().collect::<BTreeSet<_>>(), left);
    }
}
