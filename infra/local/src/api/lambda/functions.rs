//! The operations on functions that don't change their processes.

use axum::{
    body::Bytes,
    extract::State,
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{
    Answer, Function, answer, parse,
    shapes::{
        Concurrency, EventInvokeRequest, Recursion, Tags, event_invoke_config, function,
        function_configuration,
    },
};
use crate::{
    api::query_values,
    model::lambda::{error::LambdaError, name::latest_not_found, recursion::RecursiveLoop},
    shared::Shared,
};

const OK: StatusCode = StatusCode::OK;

pub(super) async fn list(State(shared): State<Shared>) -> Response {
    shared.look(|cloud, _| {
        let functions = cloud.lambda.functions();
        let functions: Vec<_> = functions.map(|it| function_configuration(it)).collect();
        answer(OK, &json!({ "Functions": functions }))
    })
}

pub(super) async fn get(Function { shared, name }: Function) -> Answer {
    shared.look(|cloud, _| {
        let it = cloud.lambda.function(&name)?;
        Ok(answer(OK, &function(&it.configuration, it.reserved_concurrency)))
    })
}

pub(super) async fn get_configuration(Function { shared, name }: Function) -> Answer {
    shared.look(|cloud, _| {
        Ok(answer(OK, &function_configuration(cloud.lambda.configuration(&name)?)))
    })
}

pub(super) async fn put_concurrency(Function { shared, name }: Function, body: Bytes) -> Answer {
    shared.step(|cloud, _| {
        // As on AWS, a missing function is refused before a bad value.
        cloud.lambda.configuration(&name).map_err(|_| latest_not_found(&name))?;
        let request: Concurrency = parse(&body)?;
        let reserved = reserved(&request)?;
        cloud.lambda.set_reserved_concurrency(&name, Some(reserved))?;
        Ok(answer(OK, &request))
    })
}

pub(super) async fn get_concurrency(Function { shared, name }: Function) -> Answer {
    shared.look(|cloud, _| {
        let reserved = cloud.lambda.function(&name)?.reserved_concurrency;
        Ok(answer(OK, &Concurrency { reserved_concurrent_executions: reserved.map(i64::from) }))
    })
}

pub(super) async fn delete_concurrency(Function { shared, name }: Function) -> Answer {
    shared.step(|cloud, _| cloud.lambda.set_reserved_concurrency(&name, None))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn set_event_invoke_config(
    Function { shared, name }: Function,
    body: Bytes,
    update: bool,
) -> Answer {
    let settings = parse::<EventInvokeRequest>(&body)?.settings()?;
    shared.step(|cloud, now| {
        let config = cloud.lambda.set_event_invoke_config(now, &name, &settings, update)?;
        Ok(answer(OK, &event_invoke_config(&name, &config)))
    })
}

pub(super) async fn get_event_invoke_config(Function { shared, name }: Function) -> Answer {
    shared.look(|cloud, _| {
        let config = cloud.lambda.event_invoke_config(&name)?;
        Ok(answer(OK, &event_invoke_config(&name, config)))
    })
}

pub(super) async fn delete_event_invoke_config(Function { shared, name }: Function) -> Answer {
    shared.step(|cloud, _| cloud.lambda.delete_event_invoke_config(&name))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn list_event_invoke_configs(Function { shared, name }: Function) -> Answer {
    shared.look(|cloud, _| {
        let configs = cloud.lambda.event_invoke_configs(&name)?.into_iter();
        let configs: Vec<_> = configs.map(|it| event_invoke_config(&name, it)).collect();
        Ok(answer(OK, &json!({ "FunctionEventInvokeConfigs": configs })))
    })
}

pub(super) async fn put_recursion_config(
    Function { shared, name }: Function,
    body: Bytes,
) -> Answer {
    let request: Recursion = parse(&body)?;
    let recursive_loop = recursive_loop(&request.recursive_loop)?;
    shared.step(|cloud, _| cloud.lambda.set_recursive_loop(&name, recursive_loop))?;
    Ok(answer(OK, &json!({ "RecursiveLoop": recursive_loop })))
}

pub(super) async fn get_recursion_config(Function { shared, name }: Function) -> Answer {
    shared.look(|cloud, _| {
        let recursive_loop = cloud.lambda.function(&name)?.recursive_loop;
        Ok(answer(OK, &json!({ "RecursiveLoop": recursive_loop })))
    })
}

pub(super) async fn list_tags(Function { shared, name }: Function) -> Answer {
    shared.look(|cloud, _| Ok(answer(OK, &json!({ "Tags": cloud.lambda.function(&name)?.tags }))))
}

pub(super) async fn tag(Function { shared, name }: Function, body: Bytes) -> Answer {
    let request: Tags = parse(&body)?;
    shared.step(|cloud, _| {
        cloud.lambda.function_mut(&name)?.tags.extend(request.tags);
        Ok(StatusCode::NO_CONTENT.into_response())
    })
}

pub(super) async fn untag(Function { shared, name }: Function, uri: Uri) -> Answer {
    let keys: Vec<_> = query_values(&uri, "tagKeys").collect();
    shared.step(|cloud, _| {
        cloud.lambda.function_mut(&name)?.tags.retain(|key, _| !keys.contains(key));
        Ok(StatusCode::NO_CONTENT.into_response())
    })
}

fn reserved(request: &Concurrency) -> Result<u32, LambdaError> {
    let reserved = request.reserved_concurrent_executions.unwrap_or(-1);
    u32::try_from(reserved).map_err(|_| {
        let rule = "Member must have value greater than or equal to 0";
        LambdaError::constraint("reservedConcurrentExecutions", reserved, rule)
    })
}

fn recursive_loop(value: &str) -> Result<RecursiveLoop, LambdaError> {
    match value {
        "Allow" => Ok(RecursiveLoop::Allow),
        "Terminate" => Ok(RecursiveLoop::Terminate),
        other => {
            let rule = "Member must satisfy enum value set: [Terminate, Allow]";
            Err(LambdaError::constraint("recursiveLoop", other, rule))
        }
    }
}
