//! Tests that create, list, change, purge and delete queues.

use super::*;

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
fn creating_a_queue_again_with_the_same_attributes_succeeds() {
    let mut sqs = sqs(&[("DelaySeconds", "1"), ("VisibilityTimeout", "5")]);
    for given in [
        &[][..],
        &[("DelaySeconds", "1")],
        &[("DelaySeconds", "01"), ("MaximumMessageSize", "1048576")],
    ] {
        assert_eq!(sqs.create_queue(at(9), QUEUE, &attributes(given)).unwrap().as_str(), QUEUE);
    }
    let differs = attributes(&[("DelaySeconds", "1"), ("VisibilityTimeout", "6")]);
    let refusal = SqsError::QueueNameExists { attribute: "VisibilityTimeout".to_owned() };
    assert_eq!(sqs.create_queue(at(9), QUEUE, &differs), Err(refusal));
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

#[test]
fn an_invalid_attribute_leaves_all_attributes_unchanged() {
    let mut sqs = sqs(&[]);
    let given = attributes(&[("DelaySeconds", "7"), ("VisibilityTimeout", "x")]);
    assert!(sqs.set_attributes(at(0), QUEUE, &given).is_err());
    assert_eq!(attribute(&mut sqs, 0, "DelaySeconds"), "0");
}
