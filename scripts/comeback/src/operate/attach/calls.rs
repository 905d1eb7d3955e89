//! The calls that only `comeback attach` and `comeback detach` make.

use aws_sdk_lambda::types::{
    DestinationConfig, FunctionConfiguration, FunctionEventInvokeConfig, OnFailure,
};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::{
    account::{
        fault::{Answer, Fault},
        function::{Function, InvokeConfig},
        names::role_name,
        sender::Sender,
        tags::Tags,
    },
    aws::{
        Aws,
        events::Events,
        existing, fault,
        reads::{self, function, invoke_config},
    },
    operate::attach::rules::sender::SenderArgs,
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

/// The ARN of a rule or a schedule, and the targets: of a schedule only one. `None` if it doesn't exist.
pub async fn sender(
    events: &Events<'_>,
    sender: &SenderArgs,
) -> Answer<Option<(String, Vec<Value>)>> {
    let SenderArgs { rule, bus, schedule, group, .. } = sender;
    let arn = |of: &Value| of["Arn"].as_str().unwrap_or_default().to_owned();
    if let Some(rule) = rule {
        let Some(described) = events.rule(bus, rule).await? else { return Ok(None) };
        return Ok(Some((arn(&described), events.targets(bus, rule).await?)));
    }
    let name = schedule.as_deref().unwrap_or_default();
    let found = events.schedule(group, name).await?;
    Ok(found.map(|mut it| (arn(&it), vec![it["Target"].take()])))
}

/// Gives the target of a rule or a schedule a dead-letter queue, or takes it off. Neither has a conditional write: it
/// is read just before, and all else in it is written back as it is.
pub async fn set_dead_letters(
    aws: &Aws,
    sender: &Sender,
    handler: &str,
    queue: &str,
    is_set: bool,
) -> Answer<()> {
    let gone = |action| Fault::of(action, &sender.to_string(), "ResourceNotFoundException", "");
    let Some(events) = Events::beside(aws, handler) else {
        return Err(gone("events:ListTargetsByRule"));
    };
    let change = |target: &mut Value| {
        let Some(members) = target.as_object_mut() else { return };
        if is_set {
            members.insert("DeadLetterConfig".to_owned(), json!({ "Arn": queue }));
        } else {
            members.remove("DeadLetterConfig");
        }
    };
    match sender {
        Sender::Rule { bus, name, target: id } => {
            let targets = events.targets(bus, name).await?;
            let target = targets.into_iter().find(|it| it["Id"].as_str() == Some(id));
            let mut target = target.ok_or_else(|| gone("events:ListTargetsByRule"))?;
            change(&mut target);
            events.set_target(bus, name, &target).await
        }
        Sender::Schedule { group, name } => {
            let schedule = events.schedule(group, name).await?;
            let mut schedule = schedule.ok_or_else(|| gone("scheduler:GetSchedule"))?;
            change(&mut schedule["Target"]);
            if let Some(members) = schedule.as_object_mut() {
                // What only Scheduler writes, and what is in the path.
                for name in ["Arn", "Name", "CreationDate", "LastModificationDate"] {
                    members.remove(name);
                }
            }
            events.set_schedule(name, &schedule).await
        }
    }
}

/// Sets what becomes of the batches that fail, in the mapping with this id of the stream with this name. An empty
/// destination takes the mapping's off.
pub async fn set_stream(
    aws: &Aws,
    (uuid, stream): (&str, &str),
    to: &str,
    retries: Option<i32>,
) -> Answer<()> {
    let on_failure = OnFailure::builder().destination(to).build();
    let destinations = DestinationConfig::builder().on_failure(on_failure).build();
    let call = aws.lambda.update_event_source_mapping().uuid(uuid);
    let call = call.destination_config(destinations).set_maximum_retry_attempts(retries);
    call.send().await.map(drop).map_err(fault("lambda:UpdateEventSourceMapping", stream))
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
