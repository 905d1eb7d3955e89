//! The steps of a plan, and how they are carried out one after the other.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    doctor::InvokeConfig,
    ports::{Clock, Fault},
    systems::{last, role_name},
};

/// A change, which is idempotent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Give a function tags.
    Tag {
        /// The ARN of the function.
        function: String,
        /// The tags.
        tags: BTreeMap<String, String>,
    },
    /// Take tags from a function.
    Untag {
        /// The ARN of the function.
        function: String,
        /// Their keys.
        keys: Vec<String>,
    },
    /// Give a role an inline policy.
    Allow {
        /// The ARN of the role.
        role: String,
        /// The name of the policy.
        policy: String,
        /// The policy.
        document: String,
    },
    /// Take an inline policy from a role.
    Disallow {
        /// The ARN of the role.
        role: String,
        /// The name of the policy.
        policy: String,
    },
    /// Set the policy of a queue.
    QueuePolicy {
        /// The URL of the queue.
        url: String,
        /// The policy.
        policy: String,
    },
    /// Set the variables of a function, and its layers.
    Configure {
        /// The name of the function.
        function: String,
        /// All of its variables.
        environment: BTreeMap<String, String>,
        /// All of its layers, if they change.
        layers: Option<Vec<String>>,
        /// What the function's revision has to be.
        revision: Option<String>,
    },
    /// Let a function be part of a loop, or don't.
    Loop {
        /// The name of the function.
        function: String,
        /// Whether it may.
        allow: bool,
    },
    /// Set the event invoke config of a function, an alias or a version. None deletes it.
    Invocations {
        /// The name of the function.
        function: String,
        /// The alias or version.
        qualifier: Option<String>,
        /// The config.
        config: Option<InvokeConfig>,
    },
}

/// A step, and what it changes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Planned {
    /// The step.
    pub step: Step,
    /// The part that it changes.
    pub what: String,
    /// What is.
    pub is: String,
    /// What will be.
    pub becomes: String,
}

impl Planned {
    pub(super) fn new(step: Step, is: impl Into<String>, becomes: impl Into<String>) -> Self {
        let what = match &step {
            Step::Tag { function, .. } | Step::Untag { function, .. } => {
                format!("{}: tags", last(function))
            }
            Step::Allow { role, policy, .. } | Step::Disallow { role, policy } => {
                format!("role {}: policy {policy}", role_name(role))
            }
            Step::QueuePolicy { url, .. } => {
                format!("queue {}: policy", url.rsplit('/').next().unwrap_or(url))
            }
            Step::Configure { function, layers: None, .. } => format!("{function}: variables"),
            Step::Configure { function, .. } => format!("{function}: layers and variables"),
            Step::Loop { function, .. } => format!("{function}: RecursiveLoop"),
            Step::Invocations { function, qualifier, .. } => {
                let of = qualifier.as_ref().map(|it| format!(":{it}")).unwrap_or_default();
                format!("{function}{of}: asynchronous invocations")
            }
        };
        Self { step, what, is: is.into(), becomes: becomes.into() }
    }
}

/// The account in which steps are carried out.
pub trait Account: Clock {
    /// Makes a change.
    fn carry_out(&self, step: &Step) -> impl Future<Output = Result<(), Fault>>;
}

/// A step that failed. The steps before it stand.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}: {fault}")]
pub struct Stopped {
    /// How many steps were carried out.
    pub done: usize,
    /// The part that it was to change.
    pub what: String,
    /// The error.
    pub fault: Fault,
}

/// IAM is eventually consistent: new permissions usually take effect within seconds.
const SETTLE_MAX: Duration = Duration::from_mins(1);
/// How long to wait for that between two tries.
const SETTLE_WAIT: Duration = Duration::from_secs(3);

/// Carries out the steps in order, and stops at the first that fails.
///
/// # Errors
///
/// If a step fails.
pub async fn carry_out<A: Account>(
    account: &A,
    plan: &[Planned],
    mut done: impl FnMut(&Planned),
) -> Result<(), Stopped> {
    for (index, planned) in plan.iter().enumerate() {
        let mut waited = Duration::ZERO;
        loop {
            match account.carry_out(&planned.step).await {
                Ok(()) => break,
                Err(fault) if waited < SETTLE_MAX && settles(&fault) => {
                    account.sleep(SETTLE_WAIT).await;
                    waited += SETTLE_WAIT;
                }
                Err(fault) => {
                    return Err(Stopped { done: index, what: planned.what.clone(), fault });
                }
            }
        }
        done(planned);
    }
    Ok(())
}

/// Whether a fault passes once an earlier change has taken effect: a new permission, or an update of the function
/// that is still in progress.
fn settles(fault: &Fault) -> bool {
    let code = fault.code.as_deref().unwrap_or_default();
    let is_permission =
        code == "InvalidParameterValueException" && fault.message.contains("permission");
    is_permission || code == "ResourceConflictException"
}
