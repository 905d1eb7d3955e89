//! The facts about a function, the handler and its queues.

use crate::account::{
    fault::Answer,
    function::{Function, InvokeConfig},
    names::last,
    notifications::Notifications,
    queue::QueueAttributes,
    stream::Stream,
    tags::Tags,
};

#[derive(Clone, Debug)]
pub struct Facts {
    pub handler: Function,
    pub handler_tags: Tags,
    pub queues: Vec<RetryQueue>,
    /// The retry queues of other handlers: the name of the handler by the ARN of the queue.
    pub others: Tags,
    pub function: Function,
    pub tags: Tags,
    pub config: Option<InvokeConfig>,
    pub may_loop: Answer<bool>,
    pub send_policy: Answer<Option<String>>,
    /// The inline policy that lets the handler's role invoke the function.
    pub invoke_policy: Answer<Option<String>>,
    /// The bucket that the function's records go to, or will go to.
    pub records: Option<RecordBucket>,
    /// The mappings of streams that have the function, its aliases and versions process their batches.
    pub streams: Vec<Stream>,
}

#[derive(Clone, Debug)]
pub struct RecordBucket {
    pub name: String,
    pub arn: String,
    pub notifications: Notifications,
    /// The KMS key that encrypts new objects.
    pub key: Option<String>,
}

/// A warning if the tags say that a tool or a stack deploys the function or the queue.
pub fn managed(tags: &Tags, name: &str, undone: &str) -> Option<String> {
    let stack = tags.get("aws:cloudformation:stack-name");
    let is_terraform = |text: &String| text.to_lowercase().contains("terraform");
    let terraform = tags.iter().any(|(key, value)| is_terraform(key) || is_terraform(value));
    let terraform = terraform.then(|| "Terraform".to_owned());
    let manager = stack.map(|stack| format!("the stack {stack}")).or(terraform)?;
    Some(format!("{manager} manages {name}: its next deployment may undo {undone}"))
}

#[derive(Clone, Debug)]
pub struct RetryQueue {
    pub arn: String,
    pub url: String,
    pub attributes: QueueAttributes,
}

impl RetryQueue {
    pub fn name(&self) -> &str {
        last(&self.arn)
    }
}
