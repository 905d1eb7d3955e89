//! Carries out one step of a plan.

use aws_sdk_lambda::types::{
    DestinationConfig, Environment, FunctionResponseType, OnFailure, OnSuccess,
};
use comeback_core::arn;

use crate::{
    account::{
        fault::{Answer, Fault},
        function::InvokeConfig,
        names::role_name,
        notifications::Notifications,
        setup::BATCH_SIZE,
    },
    aws::{Aws, buckets::Buckets, changes, fault},
    operate::attach::{calls, rules::steps::Step},
};

pub async fn change(aws: &Aws, step: &Step) -> Answer<()> {
    let Aws { lambda, iam, sqs, .. } = aws;
    match step {
        Step::Tag { resource, tags } => {
            let tags = Some(tags.clone().into_iter().collect());
            if let Some(url) = arn::queue_url(resource) {
                let call = sqs.tag_queue().queue_url(url).set_tags(tags).send();
                return call.await.map(drop).map_err(fault("sqs:TagQueue", resource));
            }
            let call = lambda.tag_resource().resource(resource).set_tags(tags);
            call.send().await.map(drop).map_err(fault("lambda:TagResource", resource))
        }
        Step::Untag { resource, keys } => {
            let keys = Some(keys.clone());
            if let Some(url) = arn::queue_url(resource) {
                let call = sqs.untag_queue().queue_url(url).set_tag_keys(keys).send();
                return call.await.map(drop).map_err(fault("sqs:UntagQueue", resource));
            }
            let call = lambda.untag_resource().resource(resource).set_tag_keys(keys);
            call.send().await.map(drop).map_err(fault("lambda:UntagResource", resource))
        }
        Step::QueueAttribute { url, attribute, value } => {
            changes::set_queue_attribute(aws, url, attribute, value).await
        }
        Step::Create { queue, attributes } => {
            let attributes = attributes.iter();
            let attributes = attributes.map(|(name, it)| ((*name).into(), it.clone())).collect();
            let call = sqs.create_queue().queue_name(queue).set_attributes(Some(attributes));
            call.send().await.map(drop).map_err(fault("sqs:CreateQueue", queue))
        }
        Step::Map { function, queue } => {
            let call = lambda.create_event_source_mapping().function_name(function);
            let call = call.event_source_arn(queue);
            let call = call.batch_size(i32::try_from(BATCH_SIZE).unwrap_or(i32::MAX));
            let call = call.function_response_types(FunctionResponseType::ReportBatchItemFailures);
            call.send().await.map(drop).map_err(fault("lambda:CreateEventSourceMapping", queue))
        }
        Step::Unmap { uuid, queue } => {
            let call = lambda.delete_event_source_mapping().uuid(uuid).send();
            call.await.map(drop).map_err(fault("lambda:DeleteEventSourceMapping", queue))
        }
        Step::Allow { role, policy, document } => {
            changes::put_role_policy(aws, role, policy, document).await
        }
        Step::Disallow { role, policy } => {
            let call = iam.delete_role_policy().role_name(role_name(role)).policy_name(policy);
            call.send().await.map(drop).map_err(fault("iam:DeleteRolePolicy", role))
        }
        Step::QueuePolicy { url, policy } => {
            changes::set_queue_attribute(aws, url, "Policy", policy).await
        }
        Step::Configure { function, environment, revision } => {
            let variables = Some(environment.clone().into_iter().collect());
            let variables = Environment::builder().set_variables(variables).build();
            let call = lambda.update_function_configuration().function_name(function);
            let call = call.environment(variables).set_revision_id(revision.clone());
            let answer = call.send().await;
            answer.map(drop).map_err(fault("lambda:UpdateFunctionConfiguration", function))
        }
        Step::Loop { function, allow } => changes::set_loop(aws, function, *allow).await,
        Step::DeadLetters { sender, handler, queue, is_set } => {
            calls::set_dead_letters(aws, sender, handler, queue, *is_set).await
        }
        Step::Notify { bucket, id, queue, prefix } => {
            let no_queue = || Fault::of("s3:PutBucketNotification", bucket, "InvalidQueue", queue);
            let buckets = Buckets::beside(aws, queue).ok_or_else(no_queue)?;
            let change = |is: &Notifications| match prefix {
                Some(prefix) => is.with(id, queue, prefix),
                None => is.without(id),
            };
            buckets.change_notifications(bucket, change).await
        }
        Step::Stream { uuid, stream, to, retries } => {
            calls::set_stream(aws, (uuid, stream), to, *retries).await
        }
        Step::Invocations { function, qualifier, config: Some(config) } => {
            let InvokeConfig { retries, age_max, on_failure, on_success, .. } = config;
            let number = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
            let on_failure =
                on_failure.as_ref().map(|arn| OnFailure::builder().destination(arn).build());
            let on_success =
                on_success.as_ref().map(|arn| OnSuccess::builder().destination(arn).build());
            let destinations =
                DestinationConfig::builder().set_on_failure(on_failure).set_on_success(on_success);
            let call = lambda.put_function_event_invoke_config().function_name(function);
            let call = call
                .set_qualifier(qualifier.clone())
                .set_maximum_retry_attempts(retries.map(|it| number(it.into())))
                .set_maximum_event_age_in_seconds(age_max.map(|it| number(it.as_secs())))
                .destination_config(destinations.build());
            let answer = call.send().await;
            answer.map(drop).map_err(fault("lambda:PutFunctionEventInvokeConfig", function))
        }
        Step::Invocations { function, qualifier, config: None } => {
            let call = lambda.delete_function_event_invoke_config().function_name(function);
            let answer = call.set_qualifier(qualifier.clone()).send().await;
            answer.map(drop).map_err(fault("lambda:DeleteFunctionEventInvokeConfig", function))
        }
    }
}
