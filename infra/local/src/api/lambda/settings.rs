//! The operations that are one step on the model: what is asked and set of functions and mappings.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use comeback_core::Timestamp;
use serde_json::json;

use super::route::{OnFunction, OnMapping};
use super::shapes::{
    Concurrency, EventInvokeRequest, EventInvokeResponse, FunctionConfiguration, FunctionResponse,
    MappingRequest, MappingResponse, Recursion,
};
use super::{Query, answer, parse};
use crate::model::Cloud;
use crate::model::lambda::Lambda;
use crate::model::lambda::error::LambdaError;
use crate::model::lambda::name::{latest_not_found, resolve};
use crate::model::lambda::recursion::RecursiveLoop;

const OK: StatusCode = StatusCode::OK;

/// Anything of one function that leaves its processes alone.
pub(super) fn on_function(
    lambda: &mut Lambda,
    now: Timestamp,
    name: &str,
    on: OnFunction,
    body: &[u8],
) -> Result<Response, LambdaError> {
    Ok(match on {
        OnFunction::Get => {
            let reserved = lambda.reserved_concurrency(name)?;
            answer(OK, &FunctionResponse::new(lambda.configuration(name)?, reserved))
        }
        OnFunction::GetConfiguration => {
            answer(OK, &FunctionConfiguration::new(lambda.configuration(name)?))
        }
        OnFunction::PutConcurrency => {
            // As on AWS, a function that doesn't exist is refused before a value that can't be.
            lambda.configuration(name).map_err(|_| latest_not_found(name))?;
            let reserved = reserved(&parse(body)?)?;
            lambda.set_reserved_concurrency(name, Some(reserved))?;
            answer(OK, &Concurrency { reserved_concurrent_executions: Some(reserved.into()) })
        }
        OnFunction::GetConcurrency => {
            let reserved = lambda.reserved_concurrency(name)?.map(i64::from);
            answer(OK, &Concurrency { reserved_concurrent_executions: reserved })
        }
        OnFunction::DeleteConcurrency => {
            lambda.set_reserved_concurrency(name, None)?;
            StatusCode::NO_CONTENT.into_response()
        }
        OnFunction::PutEventInvokeConfig | OnFunction::UpdateEventInvokeConfig => {
            let settings = parse::<EventInvokeRequest>(body)?.settings()?;
            let update = on == OnFunction::UpdateEventInvokeConfig;
            let config = lambda.set_event_invoke_config(now, name, &settings, update)?;
            answer(OK, &EventInvokeResponse::new(name, &config))
        }
        OnFunction::GetEventInvokeConfig => {
            answer(OK, &EventInvokeResponse::new(name, lambda.event_invoke_config(name)?))
        }
        OnFunction::DeleteEventInvokeConfig => {
            lambda.delete_event_invoke_config(name)?;
            StatusCode::NO_CONTENT.into_response()
        }
        OnFunction::ListEventInvokeConfigs => {
            let configs: Vec<_> = lambda
                .event_invoke_configs(name)?
                .map(|config| EventInvokeResponse::new(name, config))
                .into_iter()
                .collect();
            answer(OK, &json!({ "FunctionEventInvokeConfigs": configs }))
        }
        OnFunction::PutRecursionConfig => {
            let request: Recursion = parse(body)?;
            lambda.set_recursive_loop(name, recursive_loop(&request.recursive_loop)?)?;
            answer(OK, &request)
        }
        OnFunction::GetRecursionConfig => {
            let recursive_loop = match lambda.recursive_loop(name)? {
                RecursiveLoop::Allow => "Allow",
                RecursiveLoop::Terminate => "Terminate",
            };
            answer(OK, &Recursion { recursive_loop: recursive_loop.to_owned() })
        }
    })
}

pub(super) fn list_functions(lambda: &Lambda) -> Response {
    let functions: Vec<_> =
        lambda.functions().map(|function| FunctionConfiguration::new(function)).collect();
    answer(OK, &json!({ "Functions": functions }))
}

pub(super) fn create_mapping(
    cloud: &mut Cloud,
    now: Timestamp,
    body: &[u8],
) -> Result<Response, LambdaError> {
    let request: MappingRequest = parse(body)?;
    let function = resolve(request.function_name.as_deref().unwrap_or_default(), None)?;
    let arn = request.event_source_arn.as_deref().unwrap_or_default();
    let mapping = cloud.create_mapping(now, arn, &function, &request.settings()?)?;
    Ok(answer(StatusCode::ACCEPTED, &MappingResponse::new(mapping, now)))
}

/// Anything of one mapping.
pub(super) fn on_mapping(
    lambda: &mut Lambda,
    now: Timestamp,
    uuid: &str,
    on: OnMapping,
    body: &[u8],
) -> Result<Response, LambdaError> {
    Ok(match on {
        OnMapping::Get => answer(OK, &MappingResponse::new(lambda.mapping(uuid)?, now)),
        OnMapping::Update => {
            let request: MappingRequest = parse(body)?;
            let function = match &request.function_name {
                Some(name) => Some(resolve(name, None)?),
                None => None,
            };
            let settings = request.settings()?;
            let mapping = lambda.update_mapping(now, uuid, function.as_deref(), &settings)?;
            answer(StatusCode::ACCEPTED, &MappingResponse::new(mapping, now))
        }
        OnMapping::Delete => {
            let mapping = lambda.delete_mapping(uuid)?;
            answer(StatusCode::ACCEPTED, &MappingResponse::deleting(&mapping, now))
        }
    })
}

/// All mappings, or those of the queue and the function that the query names.
pub(super) fn list_mappings(
    lambda: &Lambda,
    now: Timestamp,
    query: Query<'_>,
) -> Result<Response, LambdaError> {
    let arn = query.get("EventSourceArn");
    let function = match query.get("FunctionName") {
        Some(name) => Some(resolve(&name, None)?),
        None => None,
    };
    let mappings: Vec<_> = lambda
        .mappings()
        .filter(|of| arn.as_ref().is_none_or(|arn| **arn == *of.event_source_arn))
        .filter(|of| function.as_ref().is_none_or(|name| **name == *of.function))
        .map(|mapping| MappingResponse::new(mapping, now))
        .collect();
    Ok(answer(OK, &json!({ "EventSourceMappings": mappings })))
}

fn reserved(request: &Concurrency) -> Result<u32, LambdaError> {
    let reserved = request.reserved_concurrent_executions.unwrap_or(-1);
    u32::try_from(reserved).map_err(|_| {
        LambdaError::Validation(vec![format!(
            "Value '{reserved}' at 'reservedConcurrentExecutions' failed to satisfy constraint: \
             Member must have value greater than or equal to 0"
        )])
    })
}

fn recursive_loop(value: &str) -> Result<RecursiveLoop, LambdaError> {
    match value {
        "Allow" => Ok(RecursiveLoop::Allow),
        "Terminate" => Ok(RecursiveLoop::Terminate),
        other => Err(LambdaError::Validation(vec![format!(
            "Value '{other}' at 'recursiveLoop' failed to satisfy constraint: Member must satisfy \
             enum value set: [Terminate, Allow]"
        )])),
    }
}
