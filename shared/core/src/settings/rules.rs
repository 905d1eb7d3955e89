//! The rules of a retry handler: what it may retry, and by which policy.

use super::{
    bad_settings::Fault,
    policies::Policies,
    targets::{DlqTarget, QueueTargets, Targets, names_queue},
};
use crate::{arn::Home, target::Target};

/// The settings that a decision depends on.
#[derive(Clone, Debug)]
pub struct Rules {
    pub targets: Targets,
    /// The targets that messages from each queue may name, if queues are bound to targets.
    pub queue_targets: Option<QueueTargets>,
    /// The function that messages of a function's own dead-letter queue belong to.
    pub dlq_target: Option<DlqTarget>,
    pub policies: Policies,
}

impl Rules {
    /// Whether the queue is bound to exactly this target, so that nobody else's failures belong there.
    pub(crate) fn is_bound(&self, target: &Target, queue: Option<&str>, home: &Home) -> bool {
        let queues = self.queue_targets.as_ref();
        match queues.and_then(|queues| queues.of(queue)) {
            Some(targets @ Targets::Listed(list)) => {
                let is_exact = |listed: &str| !listed.contains('*');
                list.len() == 1
                    && list.iter().all(|listed| is_exact(listed))
                    && targets.allow(target, home)
            }
            Some(Targets::Home) | None => false,
        }
    }

    /// Whether a message from this queue may cause a retry of this target. A function must be allowed by all settings.
    /// A queue must be named: its own name in the binding of the retry queue is enough.
    pub fn allow(&self, target: &Target, queue: Option<&str>, home: &Home) -> bool {
        let by_queue = self.queue_targets.as_ref();
        match target {
            Target::Function(_) => {
                self.targets.allow(target, home)
                    && by_queue.is_none_or(|queues| queues.allow(target, queue, home))
            }
            Target::Queue(source) => {
                let name = Some(source.name());
                let is_retry_queue =
                    name == queue || by_queue.is_some_and(|it| it.of(name).is_some());
                !is_retry_queue && self.of(queue).is_some_and(|it| it.allow(target, home))
            }
        }
    }

    /// Whether a queue is a target of this retry queue, so that messages which SQS moved there are those of a consumer.
    pub(crate) fn bind_a_queue(&self, queue: Option<&str>) -> bool {
        match self.of(queue) {
            Some(Targets::Listed(list)) => list.iter().any(|listed| names_queue(listed)),
            Some(Targets::Home) | None => false,
        }
    }

    /// The targets of this retry queue: those that it is bound to, or all if no queue is bound.
    fn of(&self, queue: Option<&str>) -> Option<&Targets> {
        match &self.queue_targets {
            Some(queues) => queues.of(queue),
            None => Some(&self.targets),
        }
    }

    /// Reports each target that is a retry queue or the dead-letter queue: its messages would go round for ever.
    pub(crate) fn refuse_loops(&self, urls: [Option<&str>; 2], faults: &mut Vec<Fault>) {
        let queues = || self.queue_targets.iter().flat_map(QueueTargets::bindings);
        let is_ours = |name: &str| {
            let is_last = |url: &str| url.trim_end_matches('/').rsplit('/').next() == Some(name);
            queues().any(|(queue, _)| queue == name) || urls.into_iter().flatten().any(is_last)
        };
        let bound = queues().map(|(queue, list)| (format!("QUEUE_TARGETS.{queue}"), list));
        let all = std::iter::once(("TARGET_FUNCTIONS".to_owned(), &self.targets)).chain(bound);
        for (setting, targets) in all {
            let Targets::Listed(list) = targets else { continue };
            for listed in list.iter().filter(|it| names_queue(it)) {
                if listed.rsplit(':').next().is_some_and(is_ours) {
                    let expected = "another queue than the retry queues and the dead-letter queue";
                    faults.push(Fault::new(setting.clone(), expected, listed));
                }
            }
        }
    }
}
