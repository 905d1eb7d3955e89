//! `Invoke`: runs a function now, or queues its event.

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::IntoResponse,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::{Answer, Function, with_request_id};
use crate::model::{
    Invocation, InvocationType, Invoked,
    lambda::{error::LambdaError, name::LATEST},
};

pub(super) async fn invoke(
    Function { shared, name }: Function,
    headers: HeaderMap,
    payload: Bytes,
) -> Answer {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let invocation_type = invocation_type(text("x-amz-invocation-type"))?;
    let client_context = client_context(text("x-amz-client-context"))?;
    let invocation = Invocation {
        function: &name,
        invocation_type,
        payload: &payload,
        trace_header: text("x-amzn-trace-id"),
        client_context: client_context.as_deref(),
    };
    match shared.step(|cloud, now| cloud.invoke(now, invocation))? {
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
    }
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

/// The client context, which is JSON in base64.
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
