//! The calls that read the facts of an account. Each may fail independently of the others.

use std::time::Duration;

use aws_sdk_lambda::types::{
    Architecture, EventSourceMappingConfiguration, FunctionConfiguration,
    FunctionEventInvokeConfig, FunctionResponseType, RecursiveLoop,
};
use aws_sdk_sqs::types::QueueAttributeName;
use comeback_core::arn;

use crate::{
    account::{
        fault::Answer,
        function::{Function, InvokeConfig, Unsupported},
        mapping::Mapping,
        queue::{Queue, QueueAttributes},
        stream::Stream,
        tags::Tags,
    },
    aws::{Aws, existing, fault},
};

pub async fn functions(aws: &Aws) -> Answer<Vec<Function>> {
    let listed = aws.lambda.list_functions().into_paginator().items().send();
    let listed = listed.collect::<Result<Vec<_>, _>>().await;
    Ok(listed.map_err(fault("lambda:ListFunctions", "*"))?.into_iter().map(function).collect())
}

pub fn function(it: FunctionConfiguration) -> Function {
    let name = it.function_name.unwrap_or_default();
    let log_group = it.logging_config.and_then(|logging| logging.log_group);
    let variables = it.environment.and_then(|environment| environment.variables);
    let architecture = it.architectures.unwrap_or_default().into_iter().next();
    let seconds = it.timeout.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    let target = it.dead_letter_config.and_then(|config| config.target_arn);
    let subnets = it.vpc_config.and_then(|vpc| vpc.subnet_ids).unwrap_or_default();
    let tenancy = it.tenancy_config.map(|_| Unsupported::TenantIsolation);
    let unsupported = tenancy.or(it.durable_config.map(|_| Unsupported::Durable));
    Function {
        arn: it.function_arn.unwrap_or_default(),
        role: it.role.unwrap_or_default(),
        environment: variables.unwrap_or_default().into_iter().collect(),
        runtime: it.runtime.map(|runtime| runtime.as_str().to_owned()),
        architecture: architecture.unwrap_or(Architecture::X8664).as_str().to_owned(),
        timeout: Duration::from_secs(seconds),
        in_vpc: !subnets.is_empty(),
        code: it.code_sha256.unwrap_or_default(),
        dead_letter_target: target.filter(|arn| !arn.is_empty()),
        log_group: log_group.unwrap_or_else(|| format!("/aws/lambda/{name}")),
        revision: it.revision_id,
        unsupported,
    }
}

/// The mappings of queues.
pub async fn mappings(aws: &Aws) -> Answer<Vec<Mapping>> {
    Ok(mappings_and_streams(aws).await?.0)
}

/// The mappings of queues, and those of streams.
pub async fn mappings_and_streams(aws: &Aws) -> Answer<(Vec<Mapping>, Vec<Stream>)> {
    let listed = aws.lambda.list_event_source_mappings().into_paginator().items().send();
    let listed = aws.call(listed.collect::<Result<Vec<_>, _>>()).await;
    let listed = listed.map_err(fault("lambda:ListEventSourceMappings", "*"))?;
    let mut mappings: Vec<_> = listed.iter().map(mapping).collect();
    mappings.retain(|mapping| mapping.queue.contains(":sqs:"));
    mappings.sort_by(|one, other| one.queue.cmp(&other.queue));
    let is_stream = |it: &&EventSourceMappingConfiguration| {
        it.event_source_arn().is_some_and(Stream::is_source)
    };
    Ok((mappings, listed.iter().filter(is_stream).map(stream).collect()))
}

fn stream(it: &EventSourceMappingConfiguration) -> Stream {
    let on_failure = it.destination_config().and_then(|it| it.on_failure());
    let on_failure = on_failure.and_then(|it| it.destination()).filter(|arn| !arn.is_empty());
    // -1 stands for no limit, as does a missing value.
    let is_unlimited = |limit: Option<i32>| limit.is_none_or(|limit| limit < 0);
    Stream {
        uuid: it.uuid().unwrap_or_default().to_owned(),
        source: it.event_source_arn().unwrap_or_default().to_owned(),
        function: it.function_arn().unwrap_or_default().to_owned(),
        on_failure: on_failure.map(str::to_owned),
        is_endless: is_unlimited(it.maximum_retry_attempts())
            && is_unlimited(it.maximum_record_age_in_seconds()),
        is_split: it.bisect_batch_on_function_error() == Some(true),
        reports_failures: reports_failures(it),
    }
}

fn reports_failures(it: &EventSourceMappingConfiguration) -> bool {
    it.function_response_types().contains(&FunctionResponseType::ReportBatchItemFailures)
}

fn mapping(it: &EventSourceMappingConfiguration) -> Mapping {
    let number =
        |number: Option<i32>| number.and_then(|it| u32::try_from(it).ok()).unwrap_or_default();
    Mapping {
        uuid: it.uuid().unwrap_or_default().to_owned(),
        queue: it.event_source_arn().unwrap_or_default().to_owned(),
        function: it.function_arn().unwrap_or_default().to_owned(),
        state: it.state().unwrap_or_default().to_owned(),
        last_result: it.last_processing_result().map(str::to_owned),
        batch_size: number(it.batch_size()),
        window: Duration::from_secs(number(it.maximum_batching_window_in_seconds()).into()),
        reports_failures: reports_failures(it),
        is_filtered: it.filter_criteria().is_some_and(|filters| !filters.filters().is_empty()),
    }
}

pub async fn invoke_configs(aws: &Aws, name: &str) -> Answer<Vec<InvokeConfig>> {
    let call = aws.lambda.list_function_event_invoke_configs().function_name(name);
    let listed = call.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
    let listed = aws.call(listed).await;
    let listed = listed.map_err(fault("lambda:ListFunctionEventInvokeConfigs", name))?;
    Ok(listed.iter().map(invoke_config).collect())
}

pub fn invoke_config(it: &FunctionEventInvokeConfig) -> InvokeConfig {
    let qualifier = it.function_arn().unwrap_or_default().split(':').nth(7);
    let number = |number: Option<i32>| number.and_then(|it| u32::try_from(it).ok());
    let destinations = it.destination_config();
    let on_failure = destinations.and_then(|it| it.on_failure()).and_then(|it| it.destination());
    let on_success = destinations.and_then(|it| it.on_success()).and_then(|it| it.destination());
    let arn = |arn: Option<&str>| arn.filter(|arn| !arn.is_empty()).map(str::to_owned);
    InvokeConfig {
        qualifier: qualifier.filter(|it| *it != "$LATEST").map(str::to_owned),
        retries: number(it.maximum_retry_attempts()),
        age_max: number(it.maximum_event_age_in_seconds()).map(|it| Duration::from_secs(it.into())),
        on_failure: arn(on_failure),
        on_success: arn(on_success),
    }
}

pub async fn queue(aws: &Aws, arn: &str) -> Queue {
    queue_at(aws, arn, arn::queue_url(arn).unwrap_or_default()).await
}

pub async fn queue_at(aws: &Aws, arn: &str, url: String) -> Queue {
    let call = aws.sqs.get_queue_attributes().queue_url(&url);
    let answer = aws.call(call.attribute_names(QueueAttributeName::All).send()).await;
    let answer = answer.map_err(fault("sqs:GetQueueAttributes", arn)).map(|answer| {
        let attributes = answer.attributes.unwrap_or_default().into_iter();
        let attributes = attributes.map(|(name, value)| (name.as_str().to_owned(), value));
        QueueAttributes::read(&attributes.collect())
    });
    Queue { arn: arn.to_owned(), url, attributes: existing(answer) }
}

pub async fn tags(aws: &Aws, arn: &str) -> Answer<Tags> {
    let tags = aws.lambda.list_tags().resource(arn).send().await;
    let tags = tags.map_err(fault("lambda:ListTags", arn))?.tags.unwrap_or_default();
    Ok(tags.into_iter().collect())
}

pub async fn may_loop(aws: &Aws, name: &str) -> Answer<bool> {
    let call = aws.lambda.get_function_recursion_config().function_name(name).send();
    let answer = call.await.map_err(fault("lambda:GetFunctionRecursionConfig", name))?;
    Ok(answer.recursive_loop == Some(RecursiveLoop::Allow))
}
