//! Lambda's REST API.
//!
//! A request's path says which operation it is ([`route`]) and its body has one of AWS's [`shapes`].
//! Most operations are one step on the model ([`settings`]); those that change what is started
//! prepare it first and end old processes after ([`deployment`], [`layers`]); an invocation whose invoker waits
//! is given to the host ([`invoke`]).

mod deployment;
mod invoke;
mod layers;
mod route;
mod settings;
mod shapes;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::model::lambda::error::LambdaError;
use crate::model::lambda::name::resolve;
use crate::shared::Shared;
use route::Operation;

/// How large a request may be, in bytes: what AWS allows, so that a zip of 50 MB fits in base64.
const REQUEST_BYTES_MAX: usize = 69_905_067;

/// Answers a request for Lambda.
pub(crate) async fn handle(shared: &Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let answered = perform(shared, &parts, body).await;
    answered.unwrap_or_else(|error| refuse(shared, &error))
}

async fn perform(shared: &Shared, parts: &Parts, body: Body) -> Result<Response, LambdaError> {
    let operation = Operation::of(parts.method.as_str(), parts.uri.path()).ok_or_else(|| {
        LambdaError::UnknownOperation(format!("{} {}", parts.method, parts.uri.path()))
    })?;
    let query = Query(parts.uri.query().unwrap_or_default());
    let body = read(body).await?;
    match operation {
        Operation::Invoke(name) => {
            invoke::invoke(shared, &query.function(&name)?, &parts.headers, &body).await
        }
        Operation::CreateFunction => deployment::create(shared, &body).await,
        Operation::Change(name, change) => {
            deployment::change(shared, &query.function(&name)?, change, &body).await
        }
        Operation::PublishLayerVersion(name) => layers::publish(shared, &name, &body).await,
        Operation::GetLayerVersion(name, version) => layers::get(shared, &name, version),
        Operation::OnFunction(name, on) => {
            let name = query.function(&name)?;
            shared
                .step(|cloud, now| settings::on_function(&mut cloud.lambda, now, &name, on, &body))
        }
        Operation::OnMapping(uuid, on) => {
            shared.step(|cloud, now| settings::on_mapping(&mut cloud.lambda, now, &uuid, on, &body))
        }
        Operation::CreateEventSourceMapping => {
            shared.step(|cloud, now| settings::create_mapping(cloud, now, &body))
        }
        Operation::ListFunctions => {
            shared.look(|cloud, _| Ok(settings::list_functions(&cloud.lambda)))
        }
        Operation::ListEventSourceMappings => {
            shared.look(|cloud, now| settings::list_mappings(&cloud.lambda, now, query))
        }
    }
}

/// The query of a request.
#[derive(Clone, Copy)]
struct Query<'a>(&'a str);

impl Query<'_> {
    fn get(self, wanted: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.0.as_bytes());
        pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    }

    /// The name of the function that a path and this query mean.
    fn function(self, reference: &str) -> Result<String, LambdaError> {
        resolve(reference, self.get("Qualifier").as_deref())
    }
}

/// The body of a request. One that is too large is read to its end all the same, because a client
/// that is still writing would not read the refusal.
async fn read(body: Body) -> Result<Vec<u8>, LambdaError> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut too_large = false;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| LambdaError::InvalidRequestContent(error.to_string()))?;
        too_large |= bytes.len() + chunk.len() > REQUEST_BYTES_MAX;
        if !too_large {
            bytes.extend_from_slice(&chunk);
        }
    }
    if too_large {
        return Err(LambdaError::RequestEntityTooLarge { limit: REQUEST_BYTES_MAX });
    }
    Ok(bytes)
}

fn parse<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, LambdaError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| LambdaError::Serialization(error.to_string()))
}

fn answer<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    match serde_json::to_vec(body) {
        Ok(body) => (status, json, body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// An error in AWS's form. Throttling tells its reason, and writes `message` in small letters.
fn refuse(shared: &Shared, error: &LambdaError) -> Response {
    let message = error.to_string();
    let body = if let LambdaError::TooManyRequests(reason) = error {
        json!({ "Reason": reason.name(), "Type": "User", "message": message })
    } else {
        json!({ "Type": "User", "Message": message })
    };
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(status, &body);
    response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(error.code()));
    with_request_id(response, &shared.look(|cloud, _| cloud.lambda.ids.uuid()))
}

fn with_request_id(mut response: Response, request_id: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(HeaderName::from_static("x-amzn-requestid"), value);
    }
    response
}
