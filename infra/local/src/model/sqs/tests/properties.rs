//! Properties that hold for every sequence of steps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

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

/// Receives and deletes messages until `queue` is empty. By then every message is visible.
fn drain(sqs: &mut Sqs, queue: &str) -> Vec<Arc<str>> {
    let mut ids = Vec::new();
    while let received = sqs.receive(at(100_000), queue, 10, None).unwrap()
        && !received.is_empty()
    {
        for message in received {
            sqs.delete(at(100_000), queue, &message.receipt_handle).unwrap();
            ids.push(message.message_id);
        }
    }
    ids
}

proptest! {
    #[test]
    fn no_message_is_lost_or_held_by_two_receivers_at_once(steps in prop::collection::vec(step(), 0..200)) {
        let mut sqs = sqs(&[]);
        let known = live(&mut sqs, &steps);
        let left: BTreeSet<_> = known.iter().filter(|(_, it)| !it.deleted).map(|(id, _)| id.clone()).collect();
        let drained = drain(&mut sqs, QUEUE);
        prop_assert_eq!(drained.len(), left.len());
        prop_assert_eq!(drained.into_iter().collect::<BTreeSet<_>>(), left);
    }

    #[test]
    fn every_message_is_once_in_its_queue_or_in_the_dead_letter_queue(
        count in 1..4_u32,
        steps in prop::collection::vec(
            prop_oneof![
                Just(Step::Send { delay: 0 }),
                (1..5_usize, 0..20_u32).prop_map(|(max, visibility)| Step::Receive { max, visibility }),
                (0..30_u64).prop_map(|seconds| Step::Advance { seconds }),
            ],
            0..200,
        ),
    ) {
        let mut sqs = redriving(count);
        let known = live(&mut sqs, &steps);
        let mut drained = drain(&mut sqs, QUEUE);
        drained.extend(drain(&mut sqs, DEAD));
        prop_assert_eq!(drained.len(), known.len());
        prop_assert!(drained.iter().all(|id| known.contains_key(id)));
    }

    #[test]
    fn counts_add_up_to_all_remaining_messages(steps in prop::collection::vec(step(), 0..100)) {
        let mut sqs = sqs(&[]);
        let known = live(&mut sqs, &steps);
        let counted: usize = ["", "Delayed", "NotVisible"]
            .into_iter()
            .map(|place| attribute(&mut sqs, 5000, &format!("ApproximateNumberOfMessages{place}")))
            .map(|count| count.parse::<usize>().unwrap())
            .sum();
        prop_assert_eq!(counted, known.values().filter(|it| !it.deleted).count());
    }
}
