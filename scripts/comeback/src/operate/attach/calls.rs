//! The calls that only `comeback attach` and `comeback detach` make.

use aws_sdk_lambda::types::{FunctionConfiguration, FunctionEventInvokeConfig};
use percent_encoding::percent_decode_str;

use crate::{
    account::{
        fault::Answer,
        function::{Function, InvokeConfig},
        names::role_name,
        tags::Tags,
    },
    aws::{
        Aws, existing, fault,
        reads::{self, function, invoke_config},
    },
};

pub async fn configured(aws: &Aws, name: &str) -> Answer<(Function, Tags)> {
    let call = aws.lambda.get_function_configuration().function_name(name).send();
    let it = call.await.map_err(fault("lambda:GetFunctionConfiguration", name))?;
    let configuration = FunctionConfiguration::builder()
        .set_function_arn(it.function_arn)
        .set_role(it.role)
        .set_environment(it.environment)
        .set_runtime(it.runtime)
        .set_architectures(it.architectures)
        .set_tenancy_config(it.tenancy_config)
        .set_durable_config(it.durable_config)
        .set_timeout(it.timeout)
        .set_dead_letter_config(it.dead_letter_config)
        .set_revision_id(it.revision_id);
    let function = function(configuration.build());
    let tags = reads::tags(aws, &function.arn).await?;
    Ok((function, tags))
}

pub async fn configured_invocations(
    aws: &Aws,
    name: &str,
    qualifier: Option<&str>,
) -> Answer<Option<InvokeConfig>> {
    let call = aws.lambda.get_function_event_invoke_config().function_name(name);
    let answer = call.set_qualifier(qualifier.map(str::to_owned)).send().await;
    existing(answer.map_err(fault("lambda:GetFunctionEventInvokeConfig", name)).map(|it| {
        let config = FunctionEventInvokeConfig::builder()
            .set_function_arn(it.function_arn)
            .set_maximum_retry_attempts(it.maximum_retry_attempts)
            .set_maximum_event_age_in_seconds(it.maximum_event_age_in_seconds)
            .set_destination_config(it.destination_config);
        invoke_config(&config.build())
    }))
}

pub async fn inline_policy(aws: &Aws, role: &str, policy: &str) -> Answer<Option<String>> {
    let call = aws.iam.get_role_policy().role_name(role_name(role)).policy_name(policy);
    let answer = call.send().await.map_err(fault("iam:GetRolePolicy", role));
    existing(
        answer.map(|answer| {
            percent_decode_str(&answer.policy_document).decode_utf8_lossy().into_owned()
        }),
    )
}
