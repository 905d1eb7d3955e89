//! Carries out the fix for a finding.

use crate::operate::{
    doctor::rules::{BATCH_SIZE, EXPIRES_AT, Fix},
    rules::ports::Fault,
};
use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use aws_sdk_lambda::types::{FunctionResponseType, RecursiveLoop};
use aws_sdk_sqs::types::QueueAttributeName;

use crate::operate::aws::{Aws, fault};

/// Carries out an automatic fix. Does nothing for a fix that needs a decision by a person.
pub async fn carry_out(aws: &Aws, fix: &Fix) -> Result<(), Fault> {
    match fix {
        Fix::Mapping { uuid } => {
            let call = aws.lambda.update_event_source_mapping().uuid(uuid).enabled(true);
            let call = call.batch_size(i32::try_from(BATCH_SIZE).unwrap_or(i32::MAX));
            let call = call.maximum_batching_window_in_seconds(0);
            let call = call.function_response_types(FunctionResponseType::ReportBatchItemFailures);
            call.send().await.map(drop).map_err(fault("lambda:UpdateEventSourceMapping", uuid))
        }
        Fix::Queue { url, attribute, value } => {
            let call = aws.sqs.set_queue_attributes().queue_url(url);
            let call = call.attributes(QueueAttributeName::from(*attribute), value);
            call.send().await.map(drop).map_err(fault("sqs:SetQueueAttributes", url))
        }
        Fix::Retries { function, qualifier } => {
            let call = aws.lambda.update_function_event_invoke_config().function_name(function);
            let call = call.set_qualifier(qualifier.clone()).maximum_retry_attempts(0);
            let action = "lambda:UpdateFunctionEventInvokeConfig";
            call.send().await.map(drop).map_err(fault(action, function))
        }
        Fix::Loop { function } => {
            let call = aws.lambda.put_function_recursion_config().function_name(function);
            let call = call.recursive_loop(RecursiveLoop::Allow);
            call.send()
                .await
                .map(drop)
                .map_err(fault("lambda:PutFunctionRecursionConfig", function))
        }
        Fix::Permission { role, policy, document } => {
            let call = aws.iam.put_role_policy().role_name(role).policy_name(policy);
            let call = call.policy_document(document);
            call.send().await.map(drop).map_err(fault("iam:PutRolePolicy", role))
        }
        Fix::Expiry { table } => {
            let expiry =
                TimeToLiveSpecification::builder().enabled(true).attribute_name(EXPIRES_AT);
            let call = aws.dynamodb.update_time_to_live().table_name(table);
            // All required members are set.
            let call = call.set_time_to_live_specification(expiry.build().ok());
            call.send().await.map(drop).map_err(fault("dynamodb:UpdateTimeToLive", table))
        }
        Fix::ByHand(_) => Ok(()),
    }
}
