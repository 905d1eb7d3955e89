//! The changes of an account that several commands make.

use aws_sdk_lambda::types::RecursiveLoop;
use aws_sdk_sqs::types::{ChangeMessageVisibilityBatchRequestEntry, QueueAttributeName};

use crate::{
    account::{fault::Answer, names::role_name},
    aws::{Aws, fault, of_each},
};

pub async fn set_queue_attribute(aws: &Aws, url: &str, attribute: &str, value: &str) -> Answer<()> {
    let call = aws.sqs.set_queue_attributes().queue_url(url);
    let call = call.attributes(QueueAttributeName::from(attribute), value);
    call.send().await.map(drop).map_err(fault("sqs:SetQueueAttributes", url))
}

pub async fn set_loop(aws: &Aws, function: &str, allow: bool) -> Answer<()> {
    let value = if allow { RecursiveLoop::Allow } else { RecursiveLoop::Terminate };
    let call = aws.lambda.put_function_recursion_config().function_name(function);
    let answer = call.recursive_loop(value).send().await;
    answer.map(drop).map_err(fault("lambda:PutFunctionRecursionConfig", function))
}

pub async fn put_role_policy(aws: &Aws, role: &str, policy: &str, document: &str) -> Answer<()> {
    let call = aws.iam.put_role_policy().role_name(role_name(role)).policy_name(policy);
    let call = call.policy_document(document);
    call.send().await.map(drop).map_err(fault("iam:PutRolePolicy", role))
}

/// Makes up to ten messages of a queue visible immediately, and returns a result for each. A message that is
/// already visible or deleted is a success.
pub async fn make_visible(
    aws: &Aws,
    queue_url: &str,
    resource: &str,
    receipt_handles: &[&str],
) -> Vec<Answer<()>> {
    const ACTION: &str = "sqs:ChangeMessageVisibility";
    const GONE: [&str; 3] = ["NotInflight", "ReceiptHandle", "InvalidParameterValue"];
    let entry = |(index, handle): (usize, &&str)| {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(index.to_string())
            .receipt_handle(*handle)
            .visibility_timeout(0)
            .build()
            // All required members are set.
            .ok()
    };
    let entries = receipt_handles.iter().enumerate().filter_map(entry).collect();
    let call = aws.sqs.change_message_visibility_batch().queue_url(queue_url);
    let answer = call.set_entries(Some(entries)).send().await;
    let failed = answer.map_err(fault(ACTION, resource)).map(|mut answer| {
        answer.failed.retain(|it| !GONE.iter().any(|code| it.code.contains(code)));
        answer.failed
    });
    of_each(ACTION, resource, receipt_handles.len(), failed)
}
