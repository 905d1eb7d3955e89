//! The functions of an account and a region.

use aws_sdk_lambda::types::FunctionConfiguration;
use comeback_operate::{
    ports::Fault,
    systems::{Function, System, only},
};

use super::{
    aws::{Aws, fault},
    options::Which,
};
use crate::shell::Failure;

/// All functions, with their environment variables.
///
/// # Errors
///
/// If they can't be listed.
pub async fn functions(aws: &Aws) -> Result<Vec<Function>, Fault> {
    Ok(configurations(aws).await?.into_iter().map(function).collect())
}

/// Finds the retry system that is meant.
///
/// # Errors
///
/// If no single one can be chosen.
pub async fn find(which: &Which) -> Result<(Aws, System), Failure> {
    let aws = Aws::connect(&which.connection).await?;
    let system = only(&functions(&aws).await?, which.handler.as_deref())?;
    Ok((aws, system))
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
