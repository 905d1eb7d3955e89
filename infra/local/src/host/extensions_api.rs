//! The Lambda Extensions API of one execution environment. It shares a listener with the Runtime API.

use std::{fmt::Display, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    extensions::{Extensions, Refusal},
    runtime_api::{accepted, refusal},
};
use crate::{
    api,
    model::{
        ACCOUNT,
        lambda::{function::Configuration, name::LATEST, run::ExtensionFault},
    },
};

const REQUEST_BYTES_MAX: usize = 256 * 1024;

const NAME: &str = "lambda-extension-name";
const ACCEPT_FEATURE: &str = "lambda-extension-accept-feature";
const IDENTIFIER: &str = "lambda-extension-identifier";
const EVENT_IDENTIFIER: &str = "lambda-extension-event-identifier";
const ERROR_TYPE: &str = "lambda-extension-function-error-type";

/// The routes' state: the extensions, and the configuration of the function that they extend.
type Shared = State<(Arc<Extensions>, Arc<Configuration>)>;

pub(super) fn router(extensions: Arc<Extensions>, configuration: Arc<Configuration>) -> Router {
    Router::new()
        .route("/2020-01-01/extension/register", post(register))
        .route("/2020-01-01/extension/event/next", get(next))
        .route(
            "/2020-01-01/extension/init/error",
            post(|of, headers, body| report(of, headers, body, ExtensionFault::InitError)),
        )
        .route(
            "/2020-01-01/extension/exit/error",
            post(|of, headers, body| report(of, headers, body, ExtensionFault::ExitError)),
        )
        .with_state((extensions, configuration))
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        refusal(StatusCode::FORBIDDEN, self.error_type(), &self.to_string())
    }
}

#[derive(Deserialize)]
struct Registration {
    #[serde(default)]
    events: Vec<String>,
}

async fn register(
    State((extensions, configuration)): Shared,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let registration: Registration = parse(body).await?;
    let identifier = extensions.register(text(&headers, NAME), registration.events)?;
    let mut content = json!({
        "functionName": configuration.name,
        "functionVersion": LATEST,
        "handler": configuration.handler.as_deref().unwrap_or_default(),
    });
    if text(&headers, ACCEPT_FEATURE).split(',').any(|name| name.trim() == "accountId") {
        content["accountId"] = ACCOUNT.into();
    }
    Ok(answer([(IDENTIFIER, identifier)], content.to_string()))
}

async fn next(State((extensions, _)): Shared, headers: HeaderMap) -> Result<Response, Refusal> {
    let (event_identifier, event) = extensions.next(identifier(&headers)?).await?;
    Ok(answer([(EVENT_IDENTIFIER, event_identifier)], event))
}

async fn report(
    State((extensions, _)): Shared,
    headers: HeaderMap,
    body: Body,
    fault: fn(String) -> ExtensionFault,
) -> Result<Response, Refusal> {
    let identifier = identifier(&headers)?;
    extensions.report(identifier, fault(reported(&headers, body).await?))?;
    Ok(accepted())
}

/// Reads an extension's error report: the error type, and the message if there is one.
async fn reported(headers: &HeaderMap, body: Body) -> Result<String, Refusal> {
    let error_type = text(headers, ERROR_TYPE);
    if error_type.is_empty() {
        return Err(Refusal::MissingHeader(ERROR_TYPE));
    }
    // The body is optional and may have any format.
    let content: Value = parse(body).await.unwrap_or_default();
    Ok(match content["errorMessage"].as_str() {
        Some(message) => format!("{error_type}: {message}"),
        None => error_type.to_owned(),
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    api::text(headers, name).unwrap_or_default()
}

/// The extension identifier, which every request after the registration must have.
fn identifier(headers: &HeaderMap) -> Result<&str, Refusal> {
    let identifier = text(headers, IDENTIFIER);
    if identifier.is_empty() { Err(Refusal::MissingExtensionIdentifier) } else { Ok(identifier) }
}

async fn parse<T: DeserializeOwned>(body: Body) -> Result<T, Refusal> {
    let refuse = |error: &dyn Display| Refusal::InvalidRequestFormat(error.to_string());
    let bytes = to_bytes(body, REQUEST_BYTES_MAX).await.map_err(|error| refuse(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| refuse(&error))
}

fn answer(identifier: [(&'static str, String); 1], body: String) -> Response {
    (identifier, [(header::CONTENT_TYPE.as_str(), "application/json")], body).into_response()
}
