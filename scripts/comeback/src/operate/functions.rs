//! The functions of an account and a region.

use std::{collections::BTreeSet, sync::Arc};

use aws_sdk_lambda::types::FunctionConfiguration;
use comeback_core::arn::FunctionArn;
use comeback_operate::{
    ports::Fault,
    systems::{Function, System},
};
use tokio::{sync::Semaphore, task::JoinSet};

use super::aws::{Aws, fault};

/// How many functions are asked about at the same time.
const CALLS_MAX: usize = 8;

/// All functions, with their environment variables.
///
/// # Errors
///
/// If they can't be listed.
pub async fn functions(aws: &Aws) -> Result<Vec<Function>, Fault> {
    Ok(configurations(aws).await?.into_iter().map(function).collect())
}

/// The configurations of all functions.
///
/// # Errors
///
/// If they can't be listed.
pub async fn configurations(aws: &Aws) -> Result<Vec<FunctionConfiguration>, Fault> {
    let mut functions = Vec::new();
    let mut pages = aws.lambda.list_functions().into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(fault("lambda:ListFunctions", "*"))?;
        functions.extend(page.functions.unwrap_or_default());
    }
    Ok(functions)
}

/// What of a configuration all commands need.
pub fn function(found: FunctionConfiguration) -> Function {
    let name = found.function_name.unwrap_or_default();
    let log_group = found.logging_config.and_then(|logging| logging.log_group);
    let variables = found.environment.and_then(|environment| environment.variables);
    Function {
        arn: found.function_arn.unwrap_or_default(),
        environment: variables.unwrap_or_default().into_iter().collect(),
        log_group: log_group.unwrap_or_else(|| format!("/aws/lambda/{name}")),
        name,
    }
}

/// A function that sends its failures to a retry queue.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Attached {
    /// Its ARN with the qualifier, as failure records name it.
    pub arn: String,
    /// The ARN of the queue.
    pub queue_arn: String,
}

/// The functions that send their failures to a queue of this retry system.
///
/// # Errors
///
/// If a call fails.
pub async fn attached(
    aws: &Aws,
    system: &System,
    functions: &[Function],
) -> Result<Vec<Attached>, Fault> {
    let mut queues = BTreeSet::new();
    // All mappings, because those of an alias of the handler are not listed by its name.
    let mut pages = aws.lambda.list_event_source_mappings().into_paginator().send();
    let is_handler = |arn: &str| {
        FunctionArn::parse(arn).is_some_and(|function| function.unqualified() == system.arn)
    };
    while let Some(page) = pages.next().await {
        let page = page.map_err(fault("lambda:ListEventSourceMappings", "*"))?;
        let mappings = page.event_source_mappings.unwrap_or_default().into_iter();
        let of_handler =
            mappings.filter(|mapping| mapping.function_arn.as_deref().is_some_and(is_handler));
        queues.extend(of_handler.filter_map(|mapping| mapping.event_source_arn));
    }
    let others = functions.iter().filter(|function| function.arn != system.arn);
    let mut calls = JoinSet::new();
    let permits = Arc::new(Semaphore::new(CALLS_MAX));
    for function in others {
        let (aws, arn, permits) = (aws.clone(), function.arn.clone(), Arc::clone(&permits));
        calls.spawn(async move {
            let _permit = permits.acquire().await;
            destinations(&aws, &arn).await
        });
    }
    let mut attached = Vec::new();
    while let Some(Ok(found)) = calls.join_next().await {
        attached.extend(found?.into_iter().filter(|it| queues.contains(&it.queue_arn)));
    }
    attached.sort_unstable();
    Ok(attached)
}

/// Where this function sends its failures, by its qualifiers.
async fn destinations(aws: &Aws, arn: &str) -> Result<Vec<Attached>, Fault> {
    let mut found = Vec::new();
    let pages = aws.lambda.list_function_event_invoke_configs().function_name(arn);
    let mut pages = pages.into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = match page {
            // The function was deleted since it was listed. Its events may still wait.
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|it| it.is_resource_not_found_exception()) =>
            {
                break;
            }
            page => page.map_err(fault("lambda:ListFunctionEventInvokeConfigs", arn))?,
        };
        let configs = page.function_event_invoke_configs.unwrap_or_default();
        found.extend(configs.into_iter().filter_map(|config| {
            let destination = config.destination_config?.on_failure?.destination?;
            Some(Attached { arn: config.function_arn?, queue_arn: destination })
        }));
    }
    Ok(found)
}

/// The ARNs by which failure records may name this function: of the qualifier that it has, or else of `$LATEST` and of
/// every qualifier with a destination of its own.
///
/// # Errors
///
/// If they can't be listed.
pub async fn qualified(aws: &Aws, arn: &str) -> Result<Vec<String>, Fault> {
    let is_qualified =
        FunctionArn::parse(arn).is_none_or(|function| function.as_str() != function.unqualified());
    if is_qualified {
        return Ok(vec![arn.to_owned()]);
    }
    let found = destinations(aws, arn).await?.into_iter().map(|attached| attached.arn);
    let arns: BTreeSet<_> = found.chain([format!("{arn}:$LATEST")]).collect();
    Ok(arns.into_iter().collect())
}
