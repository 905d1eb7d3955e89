//! The functions and queues that events are sent to on the page of the local cloud.

use aws_sdk_lambda::{primitives::Blob, types::InvocationType};
use comeback_core::{arn::QUEUE_PREFIX, json::Pointer};
use serde_json::{Value, json};

use super::{
    html::Params,
    live::{Live, Seen},
};

use crate::{
    account::{
        function::Unsupported,
        names::{is_queue, target_name},
    },
    aws::{fault, reads},
    failure::Failure,
    functions::TARGET,
};

/// The tenant of events for functions with tenant isolation, unless another one is typed.
pub const TENANT: &str = "tenant-1";

pub fn targets(seen: &Seen) -> Vec<String> {
    seen.snapshot.functions.iter().map(|it| target_name(&it.function).into_owned()).collect()
}

/// The function or queue that was chosen. Before a choice, it is the example function, or else one without tenants.
pub fn choice(seen: &Seen, params: &Params) -> Option<String> {
    let all = targets(seen);
    let chosen = params.get("function").filter(|it| all.iter().any(|name| name == it));
    let is_simple = |name: &&String| !is_queue(name) && !seen.tenants.contains(*name);
    let first = || {
        let example = all.iter().find(|name| *name == TARGET);
        example.or_else(|| all.iter().find(is_simple)).or(all.first())
    };
    chosen.map(str::to_owned).or_else(|| first().cloned())
}

/// An event to send.
pub struct Sent {
    pub payload: String,
    pub tenant: Option<String>,
}

impl Sent {
    /// An event with this payload. If the function has tenant isolation, the event has a tenant, which the payload
    /// names at the place where the handler looks for it.
    pub fn of(seen: &Seen, target: &str, payload: &str) -> Result<Self, Failure> {
        if !seen.tenants.contains(target) {
            return Ok(Self { payload: payload.to_owned(), tenant: None });
        }
        let pointer = seen.policy(target).and_then(|policy| policy.tenant_id);
        let pointer = pointer.ok_or_else(|| {
            format!("{target} can't be retried: {}", Unsupported::TenantIsolation)
        })?;
        let mut payload: Value = serde_json::from_str(payload).unwrap_or_default();
        *place(&mut payload, &pointer) = json!(TENANT);
        Ok(Self { payload: payload.to_string(), tenant: Some(TENANT.to_owned()) })
    }
}

/// The place in a payload that a pointer means. What is missing on the way to it is added.
fn place<'a>(payload: &'a mut Value, pointer: &Pointer) -> &'a mut Value {
    let Some((parent, name)) = pointer.split() else { return payload };
    let parent = place(payload, &parent);
    if !parent.is_object() {
        *parent = json!({});
    }
    &mut parent[name]
}

/// Invokes a function, or sends a message to a queue.
pub async fn send_one(live: &Live, target: &str, event: &Sent) -> Result<(), Failure> {
    let aws = &live.cloud()?.aws;
    let Sent { payload, tenant } = event;
    if let Some(queue) = target.strip_prefix(QUEUE_PREFIX) {
        let url = aws.sqs.get_queue_url().queue_name(queue).send().await;
        let url = url.map_err(fault("sqs:GetQueueUrl", queue))?.queue_url.unwrap_or_default();
        let call = aws.sqs.send_message().queue_url(url).message_body(payload);
        call.send().await.map_err(fault("sqs:SendMessage", queue))?;
        return Ok(());
    }
    let call = aws.lambda.invoke().function_name(target).set_tenant_id(tenant.clone());
    let call = call.invocation_type(InvocationType::Event).payload(Blob::new(payload.as_bytes()));
    call.send().await.map_err(fault("lambda:InvokeFunction", target))?;
    Ok(())
}

/// The function that fails in an outage of a target: the target, or the consumer of a queue.
pub async fn failing(live: &Live, target: &str) -> Result<String, Failure> {
    let Some(queue) = target.strip_prefix(QUEUE_PREFIX) else { return Ok(target.to_owned()) };
    let mappings = reads::mappings(&live.cloud()?.aws).await?;
    let mapping = mappings.iter().find(|it| it.queue.rsplit(':').next() == Some(queue));
    let mapping = mapping.ok_or_else(|| {
        format!(
            "the consumer of {queue} is a program of your own: end it, and it is down until you start it again"
        )
    });
    Ok(target_name(&mapping?.function).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::status::rules::Facts;

    #[test]
    fn a_tenant_is_put_where_the_handler_looks_for_it() {
        for (pointer, expected) in [
            ("/tenant", r#"{"id":"a","tenant":"t"}"#),
            ("/of/a~1b", r#"{"id":"a","of":{"a/b":"t"}}"#),
            ("/id/x", r#"{"id":{"x":"t"}}"#),
        ] {
            let mut payload = json!({ "id": "a" });
            *place(&mut payload, &Pointer::parse(pointer).unwrap()) = json!("t");
            assert_eq!(payload.to_string(), expected, "{pointer}");
        }
    }

    #[test]
    fn the_first_choice_is_a_function_that_needs_no_tenant() {
        let facts = |name: &str| Facts {
            function: match name.strip_prefix(QUEUE_PREFIX) {
                Some(queue) => format!("arn:aws:sqs:us-east-1:123456789012:{queue}"),
                None => format!("arn:aws:lambda:us-east-1:123456789012:function:{name}:$LATEST"),
            },
            ..Facts::default()
        };
        for (names, expected) in [
            ("", None),
            ("a-tenants b example-target", Some("example-target")),
            ("a-tenants b sqs:mails", Some("b")),
            ("sqs:mails z", Some("z")),
            ("a-tenants", Some("a-tenants")),
        ] {
            let mut seen = Seen::default();
            seen.tenants.insert("a-tenants".to_owned());
            let names = names.split(' ').filter(|it| !it.is_empty());
            seen.snapshot.functions = names.map(facts).collect();
            let found = choice(&seen, &Params::default());
            assert_eq!(found.as_deref(), expected);
        }
    }
}
