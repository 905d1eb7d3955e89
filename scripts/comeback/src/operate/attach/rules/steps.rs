//! The steps of a plan.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::account::{
    function::InvokeConfig,
    names::{last, role_name},
    sender::Sender,
};

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    Tag {
        resource: String,
        tags: BTreeMap<String, String>,
    },
    Untag {
        resource: String,
        keys: Vec<String>,
    },
    Allow {
        role: String,
        policy: String,
        document: String,
    },
    Disallow {
        role: String,
        policy: String,
    },
    QueuePolicy {
        url: String,
        policy: String,
    },
    QueueAttribute {
        url: String,
        attribute: &'static str,
        value: String,
    },
    Create {
        queue: String,
        attributes: BTreeMap<&'static str, String>,
    },
    Map {
        function: String,
        queue: String,
    },
    Unmap {
        uuid: String,
        queue: String,
    },
    /// Set the variables of a function. If there is a revision, the function must still have it, so that no concurrent
    /// change is overwritten.
    Configure {
        function: String,
        environment: BTreeMap<String, String>,
        revision: Option<String>,
    },
    Loop {
        function: String,
        allow: bool,
    },
    /// Give the target of a rule or a schedule this dead-letter queue, or take it off.
    DeadLetters {
        sender: Sender,
        /// The ARN of the handler, which is in the same account and region.
        handler: String,
        queue: String,
        is_set: bool,
    },
    /// Have a bucket notify a queue of the records below a prefix, or no longer if there is no prefix.
    Notify {
        bucket: String,
        id: String,
        queue: String,
        prefix: Option<String>,
    },
    /// Change what becomes of a stream's batches that fail.
    Stream {
        uuid: String,
        /// The name of the stream.
        stream: String,
        /// The on-failure destination, or an empty text for none.
        to: String,
        /// How often a batch is tried again; -1 is until its records expire. `None` leaves that unchanged.
        retries: Option<i32>,
    },
    /// Set the event invoke config of a function, an alias or a version, or delete it if there is none.
    Invocations {
        function: String,
        qualifier: Option<String>,
        config: Option<InvokeConfig>,
    },
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Planned {
    #[serde(skip)]
    pub step: Step,
    /// What the step changes: `orders: tags`.
    pub what: String,
    pub is: String,
    pub becomes: String,
}

impl Planned {
    pub fn new(step: Step, is: impl Into<String>, becomes: impl Into<String>) -> Self {
        let what = match &step {
            Step::Tag { resource, .. } | Step::Untag { resource, .. } => {
                format!("{}: tags", last(resource))
            }
            Step::QueueAttribute { url, attribute, .. } => {
                format!("queue {}: {attribute}", url.rsplit('/').next().unwrap_or(url))
            }
            Step::Create { queue, .. } => format!("queue {queue}"),
            Step::Map { queue, .. } | Step::Unmap { queue, .. } => {
                format!("mapping of {}", last(queue))
            }
            Step::Stream { stream, .. } => format!("mapping of {stream}"),
            Step::Allow { role, policy, .. } | Step::Disallow { role, policy } => {
                format!("role {}: policy {policy}", role_name(role))
            }
            Step::QueuePolicy { url, .. } => {
                format!("queue {}: policy", url.rsplit('/').next().unwrap_or(url))
            }
            Step::Configure { function, .. } => format!("{function}: variables"),
            Step::Loop { function, .. } => format!("{function}: RecursiveLoop"),
            Step::DeadLetters { sender, .. } => format!("{sender}: dead-letter queue"),
            Step::Notify { bucket, .. } => format!("bucket {bucket}: notifications"),
            Step::Invocations { function, qualifier, .. } => {
                let of = qualifier.as_ref().map(|it| format!(":{it}")).unwrap_or_default();
                format!("{function}{of}: asynchronous invocations")
            }
        };
        Self { step, what, is: is.into(), becomes: becomes.into() }
    }
}
