//! What lets a role send to a queue, and the names of the policies that do.

use serde_json::{Value, json};

use crate::{
    account::policy::{Effect, ask, exempt},
    operate::attach::rules::{facts::RetryQueue, refusal::Refusal},
};

/// The queue's policy with an exemption for this role, if the current policy denies it sending.
pub fn admission(role: &str, queue: &RetryQueue) -> Result<Option<String>, Refusal> {
    const SEND: &str = "sqs:SendMessage";
    if queue.attributes.effect(role, SEND) != Effect::Deny {
        return Ok(None);
    }
    let policy = queue.attributes.policy.as_deref().unwrap_or_default();
    let open = exempt(policy, role, SEND);
    let open = open.filter(|policy| ask(policy, role, SEND) != Effect::Deny);
    let closed = || Refusal::ClosedQueue { queue: queue.name().to_owned(), role: role.to_owned() };
    open.map(Some).ok_or_else(closed)
}

/// What lets a role send to the queue and use its key, in the region and account of `near`, a function.
pub fn send_statements(near: &str, queue: &RetryQueue) -> Vec<Value> {
    let send = json!({ "Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": [queue.arn] });
    let key = queue.attributes.key_arn(near).map(|key| {
        let actions = ["kms:Decrypt", "kms:GenerateDataKey"];
        json!({ "Effect": "Allow", "Action": actions, "Resource": key })
    });
    [send].into_iter().chain(key).collect()
}

/// The name of an inline policy. Functions may share a role, so the name contains the function and its qualifier.
pub fn policy_name(purpose: &str, function: &str, qualifier: Option<&str>) -> String {
    let qualifier = qualifier.map(|it| format!(".{it}")).unwrap_or_default();
    format!("comeback-{purpose}-{function}{qualifier}")
}
