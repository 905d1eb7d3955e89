//! What a queue that the handler receives from is.

use comeback_core::{
    arn::{FunctionArn, QueueArn},
    target::Target,
};

use crate::{
    account::{
        function::Function,
        handlers::{named_queues, queue_targets},
        names::last,
    },
    operate::doctor::rules::facts::Facts,
};

/// What a queue that the handler receives from is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    Retry,
    DeadLetters,
    /// A queue whose consumer should receive from it, and not the handler.
    Source,
    /// No setting names it, although settings name others.
    Unbound,
}

impl Role {
    pub fn of(facts: &Facts, queue_arn: &str) -> Self {
        let bound = queue_targets(&facts.handler.environment);
        // SQS moves a retry queue's messages to the dead-letter queue only.
        let moves_to_another = || {
            let queue = facts.queues.iter().find(|it| it.queue.arn == queue_arn)?;
            let to = &queue.queue.attributes.as_ref().ok()?.as_ref()?.redrive.as_ref()?.queue;
            Some(to != queue_arn && facts.queues.iter().any(|it| it.queue.arn == *to))
        };
        if queue_arn == facts.dead_letters.arn {
            Self::DeadLetters
        } else if bound.contains_key(last(queue_arn)) {
            Self::Retry
        } else if is_named(&facts.handler, queue_arn) || moves_to_another().unwrap_or_default() {
            Self::Source
        } else if bound.is_empty() {
            Self::Retry
        } else {
            Self::Unbound
        }
    }
}

/// Whether the handler's settings name a queue as one whose messages are retried.
pub fn is_named(handler: &Function, queue_arn: &str) -> bool {
    let matches = || {
        let queue = Target::Queue(QueueArn::parse(queue_arn)?);
        let home = FunctionArn::parse(&handler.arn)?.home();
        Some(handler.settings().ok()?.rules.targets.allow(&queue, &home))
    };
    named_queues(handler).contains_key(queue_arn) || matches().unwrap_or_default()
}
