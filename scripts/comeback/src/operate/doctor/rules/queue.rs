//! What is expected of a retry queue and of the dead-letter queue alike.

use comeback_core::attribute::SIZE_MAX;

use crate::{
    account::{
        policy::closed_to_everyone,
        queue::{Queue, QueueAttributes},
        setup::ACTIONS_ON_RETRY_QUEUE,
    },
    operate::doctor::rules::{finding::Examined, fix::set},
};

pub fn existing<'a>(
    it: &mut Examined,
    queue: &'a Queue,
    missing: &'static str,
) -> Option<&'a QueueAttributes> {
    let attributes = it.known(&queue.attributes)?;
    if attributes.is_none() {
        it.bad(missing, format!("there is no queue {}", queue.url))
            .why("Failed events have nowhere to go, and are lost or stuck.");
    }
    attributes.as_ref()
}

/// Reports a queue that everyone may send to or receive from.
pub fn public(it: &mut Examined, queue: &Queue, attributes: &QueueAttributes) {
    let policy = attributes.policy.as_deref().unwrap_or_default();
    let Some(closed) = closed_to_everyone(policy, &ACTIONS_ON_RETRY_QUEUE) else { return };
    it.bad("queue_public", "its policy lets everyone use it, in every account")
        .why("Anybody may forge failures and letters, read payloads, or delete events.")
        .by_hand(set(queue, "Policy", closed).command());
}

pub fn size(it: &mut Examined, queue: &Queue, attributes: &QueueAttributes) {
    let Some(max) = attributes.size_max.filter(|max| *max < SIZE_MAX as u64) else { return };
    it.bad("messages_small", format!("it takes messages of {max} bytes, and not of {SIZE_MAX}"))
        .why("Larger failures and letters are refused. Lambda drops a failure that it can't send.")
        .fix(set(queue, "MaximumMessageSize", SIZE_MAX));
}
