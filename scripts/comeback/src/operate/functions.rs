//! The Lambda functions of the account and region.

use std::time::Duration;

use crate::operate::{
    rules::ports::Fault,
    rules::systems::{Function, Unsupported, only},
};
use aws_sdk_lambda::types::{Architecture, FunctionConfiguration};
use comeback_core::Timestamp;

use super::{
    aws::{Aws, fault},
    options::SystemOptions,
};
use crate::shell::Failure;

pub async fn functions(aws: &Aws) -> Result<Vec<Function>, Fault> {
    let mut functions = Vec::new();
    let mut pages = aws.lambda.list_functions().into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(fault("lambda:ListFunctions", "*"))?;
        functions.extend(page.functions.unwrap_or_default().into_iter().map(function));
    }
    Ok(functions)
}

/// Connects to AWS, and resolves the retry handler from the options.
pub async fn find(
    options: &SystemOptions,
    now: fn() -> Timestamp,
) -> Result<(Aws, Function), Failure> {
    let aws = Aws::connect(&options.connection, now).await?;
    let handler = only(&functions(&aws).await?, options.handler.as_deref())?;
    Ok((aws, handler))
}

pub fn function(it: FunctionConfiguration) -> Function {
    let name = it.function_name.unwrap_or_default();
    let log_group = it.logging_config.and_then(|logging| logging.log_group);
    let variables = it.environment.and_then(|environment| environment.variables);
    let architecture = it.architectures.unwrap_or_default().into_iter().next();
    let seconds = it.timeout.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    let layers = it.layers.unwrap_or_default().into_iter().filter_map(|layer| layer.arn);
    let target = it.dead_letter_config.and_then(|config| config.target_arn);
    let tenancy = it.tenancy_config.map(|_| Unsupported::TenantIsolation);
    let unsupported = tenancy.or(it.durable_config.map(|_| Unsupported::Durable));
    Function {
        arn: it.function_arn.unwrap_or_default(),
        role: it.role.unwrap_or_default(),
        environment: variables.unwrap_or_default().into_iter().collect(),
        runtime: it.runtime.map(|runtime| runtime.as_str().to_owned()),
        architecture: architecture.unwrap_or(Architecture::X8664).as_str().to_owned(),
        timeout: Duration::from_secs(seconds),
        layers: layers.collect(),
        code: it.code_sha256.unwrap_or_default(),
        dead_letter_target: target.filter(|arn| !arn.is_empty()),
        log_group: log_group.unwrap_or_else(|| format!("/aws/lambda/{name}")),
        revision: it.revision_id,
        unsupported,
    }
}
