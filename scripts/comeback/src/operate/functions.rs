//! The functions of an account and a region.

use comeback_operate::{ports::Fault, systems::Function};

use super::aws::{Aws, fault};

/// All functions, with their environment variables.
///
/// # Errors
///
/// If they can't be listed.
pub async fn functions(aws: &Aws) -> Result<Vec<Function>, Fault> {
    let mut functions = Vec::new();
    let mut pages = aws.lambda.list_functions().into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(fault("lambda:ListFunctions", "*"))?;
        functions.extend(page.functions.unwrap_or_default().into_iter().map(|function| {
            Function {
                name: function.function_name.unwrap_or_default(),
                environment: function
                    .environment
                    .and_then(|environment| environment.variables)
                    .unwrap_or_default()
                    .into_iter()
                    .collect(),
            }
        }));
    }
    Ok(functions)
}
