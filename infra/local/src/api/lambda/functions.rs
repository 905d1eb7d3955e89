//! The operations that change no processes: invocations, and settings of functions.

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::json;

use super::{
    Answer, Function, answer, parse,
    shapes::{Change, event_invoke_config, function, function_configuration},
    with_request_id,
};
use crate::{
    api::{query_values, text, without_nulls},
    model::{
        Invocation, InvocationType, Invoked,
        lambda::{
            error::LambdaError,
            name::{LATEST, latest_not_found},
            recursion::RecursiveLoop,
        },
    },
    shared::Shared,
};

const OK: StatusCode = StatusCode::OK;

/// Lambda's own words.
const UNQUALIFIED: &str = "You cannot invoke a durable function using an unqualified ARN.";

pub(super) async fn list(State(shared): State<Shared>) -> Response {
    shared.look(|cloud, _| {
        let functions = cloud.lambda.functions();
        let functions: Vec<_> = functions.map(|it| function_configuration(it)).collect();
        answer(OK, &json!({ "Functions": functions }))
    })
}

pub(super) async fn get(of: Function) -> Answer {
    of.tell(|it| function(&it.configuration, it.reserved_concurrency))
}

pub(super) async fn get_configuration(of: Function) -> Answer {
    of.tell(|it| function_configuration(&it.configuration))
}

pub(super) async fn put_concurrency(
    Function { shared, name, .. }: Function,
    body: Bytes,
) -> Answer {
    shared.step(|cloud, _| {
        // As on AWS, a missing function is refused before a bad value.
        cloud.lambda.configuration(&name).map_err(|_| latest_not_found(&name))?;
        let given = parse::<Change>(&body)?.reserved_concurrent_executions.unwrap_or(-1);
        let reserved = u32::try_from(given).map_err(|_| {
            let rule = "Member must have value greater than or equal to 0";
            LambdaError::constraint("reservedConcurrentExecutions", given, rule)
        })?;
        cloud.lambda.set_reserved_concurrency(&name, Some(reserved))?;
        Ok(answer(OK, &json!({ "ReservedConcurrentExecutions": reserved })))
    })
}

pub(super) async fn get_concurrency(of: Function) -> Answer {
    of.tell(|it| without_nulls(json!({ "ReservedConcurrentExecutions": it.reserved_concurrency })))
}

pub(super) async fn delete_concurrency(Function { shared, name, .. }: Function) -> Answer {
    shared.step(|cloud, _| cloud.lambda.set_reserved_concurrency(&name, None))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn set_event_invoke_config(
    Function { shared, name, .. }: Function,
    body: Bytes,
    update: bool,
) -> Answer {
    let settings = parse(&body)?;
    shared.step(|cloud, now| {
        let config = cloud.lambda.set_event_invoke_config(now, &name, &settings, update)?;
        Ok(answer(OK, &event_invoke_config(&name, &config)))
    })
}

pub(super) async fn get_event_invoke_config(Function { shared, name, .. }: Function) -> Answer {
    shared.look(|cloud, _| {
        let config = cloud.lambda.event_invoke_config(&name)?;
        Ok(answer(OK, &event_invoke_config(&name, config)))
    })
}

pub(super) async fn delete_event_invoke_config(Function { shared, name, .. }: Function) -> Answer {
    shared.step(|cloud, _| cloud.lambda.delete_event_invoke_config(&name))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn list_event_invoke_configs(Function { shared, name, .. }: Function) -> Answer {
    shared.look(|cloud, _| {
        // A function has at most one here.
        let configs = cloud.lambda.configured_function(&name)?.event_invoke_config.iter();
        let configs: Vec<_> = configs.map(|it| event_invoke_config(&name, it)).collect();
        Ok(answer(OK, &json!({ "FunctionEventInvokeConfigs": configs })))
    })
}

pub(super) async fn put_recursion_config(
    Function { shared, name, .. }: Function,
    body: Bytes,
) -> Answer {
    let recursive_loop = match parse::<Change>(&body)?.recursive_loop.as_str() {
        "Allow" => RecursiveLoop::Allow,
        "Terminate" => RecursiveLoop::Terminate,
        other => {
            let rule = "Member must satisfy enum value set: [Terminate, Allow]";
            return Err(LambdaError::constraint("recursiveLoop", other, rule).into());
        }
    };
    shared.step(|cloud, _| {
        cloud.lambda.function_mut(&name)?.recursive_loop = recursive_loop;
        Ok(answer(OK, &json!({ "RecursiveLoop": recursive_loop })))
    })
}

pub(super) async fn get_recursion_config(of: Function) -> Answer {
    of.tell(|it| json!({ "RecursiveLoop": it.recursive_loop }))
}

pub(super) async fn list_tags(of: Function) -> Answer {
    of.tell(|it| json!({ "Tags": it.tags }))
}

pub(super) async fn tag(of: Function, body: Bytes) -> Answer {
    let Change { tags, .. } = parse(&body)?;
    of.change(|it| it.tags.extend(tags))
}

pub(super) async fn untag(of: Function, uri: Uri) -> Answer {
    let keys: Vec<_> = query_values(&uri, "tagKeys").collect();
    of.change(|it| it.tags.retain(|key, _| !keys.contains(key)))
}

pub(super) async fn invoke(
    Function { shared, name, is_qualified }: Function,
    headers: HeaderMap,
    payload: Bytes,
) -> Answer {
    let text = |name| text(&headers, name);
    let invocation_type = invocation_type(text("x-amz-invocation-type"))?;
    let client_context = client_context(text("x-amz-client-context"))?;
    let (invoked, execution) = shared.step(|cloud, now| {
        let configuration = cloud.lambda.configuration(&name);
        let is_durable = configuration.is_ok_and(|it| it.durable.is_some());
        if is_durable && !is_qualified {
            return Err(LambdaError::invalid(UNQUALIFIED));
        }
        let own = is_durable.then(|| cloud.lambda.ids.uuid());
        let execution_name = text("x-amz-durable-execution-name").or(own.as_deref());
        let invocation = Invocation {
            function: &name,
            invocation_type,
            payload: &payload,
            trace_header: text("x-amzn-trace-id"),
            client_context: client_context.as_deref(),
            tenant_id: text("x-amz-tenant-id"),
            execution_name,
            // The session token in the environment of a function of this cloud is its name.
            by: text("x-amz-security-token").filter(|by| cloud.lambda.function(by).is_ok()),
        };
        let invoked = cloud.invoke(now, invocation)?;
        let key = (name.as_str().into(), execution_name.unwrap_or_default().into());
        let execution = cloud.lambda.executions.get(&key);
        Ok((invoked, execution.map(|execution| execution.arn.to_string())))
    })?;
    let execution = execution.map(|arn| [("x-amz-durable-execution-arn", arn)]);
    let answer = match invoked {
        Invoked::Possible => Ok(StatusCode::NO_CONTENT.into_response()),
        Invoked::Accepted(request_id) => {
            Ok(with_request_id(StatusCode::ACCEPTED.into_response(), &request_id))
        }
        Invoked::Running(run) => {
            let request_id = run.request_id.clone();
            // The run continues even if the invoker goes away.
            let response = shared.start(*run).await.ok().flatten();
            let Some(response) = response else {
                return Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
            };
            let json = [(header::CONTENT_TYPE, "application/json")];
            let is_error = response.is_error();
            let mut answer = (json, response.payload).into_response();
            let headers = answer.headers_mut();
            headers.insert("x-amz-executed-version", HeaderValue::from_static(LATEST));
            if is_error {
                headers.insert("x-amz-function-error", HeaderValue::from_static("Unhandled"));
            }
            Ok(with_request_id(answer, &request_id))
        }
    };
    answer.map(|answer| (execution, answer).into_response())
}

fn invocation_type(value: Option<&str>) -> Result<InvocationType, LambdaError> {
    match value {
        None | Some("RequestResponse") => Ok(InvocationType::RequestResponse),
        Some("Event") => Ok(InvocationType::Event),
        Some("DryRun") => Ok(InvocationType::DryRun),
        Some(other) => {
            let rule = "Member must satisfy enum value set: [Event, RequestResponse, DryRun]";
            Err(LambdaError::constraint("invocationType", other, rule))
        }
    }
}

fn client_context(value: Option<&str>) -> Result<Option<String>, LambdaError> {
    let Some(value) = value else {
        return Ok(None);
    };
    let decoded = BASE64.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.map(Some).ok_or_else(|| {
        LambdaError::InvalidRequestContent(
            "Client context must be valid Base64-encoded JSON object".to_owned(),
        )
    })
}
