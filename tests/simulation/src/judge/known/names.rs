//! How failure records, handlers and ledgers name targets.

use comeback_core::lineage::Key;
use comeback_local_model::{
    lambda::name::{arn, qualified_arn},
    queue_arn,
};

use super::Case;
use crate::plan::{Form, Plan, TargetPlan};

impl Case {
    /// The function that failed, as named in its message or, if the message names none, as the handler names it.
    pub fn arn<'a>(&self, plan: &'a Plan) -> &'a str {
        let target = &plan.targets[self.of.target];
        let arns = target.arns.get_or_init(|| Arns::of(target));
        match self.undelivered() {
            // A handler names its function with a version, also if the message doesn't.
            Some(it) if it.letter_of.is_none() && !it.is_of_queue => &arns.qualified,
            Some(it) if it.is_plain => &arns.claimed,
            Some(_) => &arns.named,
            None if self.strange && !self.is_bare => &arns.qualified,
            None => &arns.named,
        }
    }

    /// The target by which its claim is known, whatever version or alias has failed.
    pub fn claimed_as<'a>(&self, plan: &'a Plan) -> &'a str {
        let target = &plan.targets[self.of.target];
        &target.arns.get_or_init(|| Arns::of(target)).claimed
    }

    /// Whether this is the key of its run, whatever the payload.
    pub fn has_key(&self, key: &Key, plan: &Plan) -> bool {
        let target = || key.id.rsplit_once('/').map(|(target, _)| target);
        self.request_id == *key.run && target() == Some(self.claimed_as(plan))
    }
}

/// How a failure record names a target: as its handlers do, and by its qualified ARN.
#[derive(Clone)]
pub struct Arns {
    named: String,
    qualified: String,
    claimed: String,
}

impl Arns {
    fn of(target: &TargetPlan) -> Self {
        let claimed = if target.is_queue() { queue_arn(&target.name) } else { arn(&target.name) };
        Self { named: named(target), qualified: qualified_arn(&target.name), claimed }
    }
}

pub fn named(target: &TargetPlan) -> String {
    match target.form {
        Form::Queue { .. } => queue_arn(&target.name),
        Form::Bare => arn(&target.name),
        Form::Record | Form::Notification | Form::EventBridge | Form::Bucket(_) => {
            qualified_arn(&target.name)
        }
    }
}
