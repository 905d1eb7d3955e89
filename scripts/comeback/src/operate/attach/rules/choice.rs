//! Which retry queue an attachment uses: the one that was named, or the only one that it can be.

use crate::{
    account::function::Function,
    operate::attach::rules::{facts::RetryQueue, refusal::Refusal},
};

/// The handler's queue with this name, ARN or URL.
pub fn named<'a>(
    handler: &Function,
    queues: &'a [RetryQueue],
    wanted: &str,
) -> Result<&'a RetryQueue, Refusal> {
    let is_it = |queue: &&RetryQueue| [queue.name(), &queue.arn, &queue.url].contains(&wanted);
    queues.iter().find(is_it).ok_or_else(|| Refusal::NoSuchQueue {
        handler: handler.name().to_owned(),
        got: wanted.to_owned(),
        queues: names(queues.iter()),
    })
}

/// The only one of these queues.
pub fn only<'a>(shared: &[&'a RetryQueue]) -> Result<&'a RetryQueue, Refusal> {
    match shared {
        [queue] => Ok(queue),
        _ => Err(Refusal::ChooseQueue(names(shared.iter().copied()))),
    }
}

fn names<'a>(queues: impl Iterator<Item = &'a RetryQueue>) -> Vec<String> {
    queues.map(|it| it.name().to_owned()).collect()
}
