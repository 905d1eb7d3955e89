//! What is expected of a retry queue and of the dead-letter queue alike.

use comeback_core::attribute::SIZE_MAX;

use crate::{
    account::{
        policy::closed_to_everyone,
        queue::{Queue, QueueAttributes},
        setup::ACTIONS_ON_RETRY_QUEUE,
    },
    operate::doctor::rules::{
        finding::Examined,
        fix::set,
        kinds::{self, Kind},
    },
};

pub fn existing<'a>(
    it: &mut Examined,
    queue: &'a Queue,
    missing: Kind,
) -> Option<&'a QueueAttributes> {
    let attributes = it.known(&queue.attributes)?;
    if attributes.is_none() {
        it.found(missing, format!("there is no queue {}", queue.url));
    }
    attributes.as_ref()
}

/// Reports a queue that everyone may send to or receive from.
pub fn public(it: &mut Examined, queue: &Queue, attributes: &QueueAttributes) {
    let policy = attributes.policy.as_deref().unwrap_or_default();
    let Some(closed) = closed_to_everyone(policy, &ACTIONS_ON_RETRY_QUEUE) else { return };
    it.found(kinds::QUEUE_PUBLIC, "its policy lets everyone use it, in every account")
        .by_hand(set(queue, "Policy", closed).command());
}

pub fn size(it: &mut Examined, queue: &Queue, attributes: &QueueAttributes) {
    let Some(max) = attributes.size_max.filter(|max| *max < SIZE_MAX as u64) else { return };
    it.found(
        kinds::MESSAGES_SMALL,
        format!("it takes messages of {max} bytes, and not of {SIZE_MAX}"),
    )
    .fix(set(queue, "MaximumMessageSize", SIZE_MAX));
}
