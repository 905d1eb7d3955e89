//! Lambda's REST API.
//!
//! A request's path says which operation it is ([`route`]), its body has one of AWS's [`shapes`],
//! and one step on the model answers it. Only an invocation whose invoker waits takes longer: its
//! run is given to the host, and the answer is what comes of that. What a function's code is made of
//! is told in [`crate::host::code`].

mod invoke;
mod route;
mod shapes;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use comeback_core::Timestamp;
use futures_util::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::host::code::{self, CodeError};
use crate::model::Cloud;
use crate::model::lambda::error::LambdaError;
use crate::model::lambda::function::Code;
use crate::model::lambda::name::resolve;
use crate::model::lambda::recursion::RecursiveLoop;
use crate::server::Shared;
use route::Operation;
use shapes::{
    CodeRequest, Concurrency, EventInvokeRequest, EventInvokeResponse, FunctionConfiguration,
    FunctionRequest, FunctionResponse, ImageConfig, MappingRequest, MappingResponse, Recursion,
};

/// How large a request may be, in bytes: what AWS allows, so that a zip of 50 MB fits in base64.
const REQUEST_BYTES_MAX: usize = 69_905_067;

/// What names a folder of this machine in place of an S3 bucket.
const LOCAL_FOLDER: &str = "local-folder";

/// What names a command of this machine in place of an image.
const LOCAL_COMMAND: &str = "local-command";

/// Answers a request for Lambda.
pub(crate) async fn handle(shared: &Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some(operation) = Operation::of(parts.method.as_str(), parts.uri.path()) else {
        let wanted = format!("{} {}", parts.method, parts.uri.path());
        return refuse(shared, &LambdaError::UnknownOperation(wanted));
    };
    let query = Query(parts.uri.query().unwrap_or_default());
    let answered = match operation {
        Operation::Invoke(name) => invoke::handle(shared, &name, query, &parts.headers, body).await,
        operation => administer(shared, operation, query, body).await,
    };
    answered.unwrap_or_else(|error| refuse(shared, &error))
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

/// Every operation but `Invoke`.
async fn administer(
    shared: &Shared,
    operation: Operation,
    query: Query<'_>,
    body: Body,
) -> Result<Response, LambdaError> {
    let Some(body) = read(body, REQUEST_BYTES_MAX).await? else {
        let operation = "CreateFunction or UpdateFunctionCode";
        return Err(LambdaError::RequestEntityTooLarge { limit: REQUEST_BYTES_MAX, operation });
    };
    match operation {
        Operation::CreateFunction => {
            let mut request: FunctionRequest = parse(&body)?;
            let name = resolve(request.function_name.as_deref().unwrap_or_default(), None)?;
            let image_config = request.image_config.take();
            let code = prepare(shared, std::mem::take(&mut request.code), image_config).await?;
            let settings = request.settings();
            let created = shared
                .step(|cloud, now| cloud.lambda.create_function(now, &name, code, settings))?;
            Ok(answer(StatusCode::CREATED, &FunctionConfiguration::new(&created)))
        }
        Operation::UpdateFunctionCode(name) => {
            let name = query.function(&name)?;
            let request: CodeRequest = parse(&body)?;
            // The command comes in the image config, which only a change of configuration can set.
            let code = prepare(shared, request, None).await?;
            let updated = shared.step(|cloud, now| cloud.lambda.update_code(now, &name, code))?;
            shared.host().retire(&name);
            Ok(answer(StatusCode::OK, &FunctionConfiguration::new(&updated)))
        }
        Operation::UpdateFunctionConfiguration(name) => {
            let name = query.function(&name)?;
            let settings = parse::<FunctionRequest>(&body)?.settings();
            let updated = shared
                .step(|cloud, now| cloud.lambda.update_configuration(now, &name, settings))?;
            shared.host().retire(&name);
            Ok(answer(StatusCode::OK, &FunctionConfiguration::new(&updated)))
        }
        Operation::DeleteFunction(name) => {
            let name = query.function(&name)?;
            shared.step(|cloud, _| cloud.lambda.delete_function(&name))?;
            shared.host().retire(&name);
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        other => shared.step(|cloud, now| on_model(cloud, now, other, query, &body)),
    }
}

/// The operations that are one step on the model.
#[allow(
    clippy::too_many_lines,
    reason = "one line or two for each of Lambda's operations; parts of it would not tell more"
)]
fn on_model(
    cloud: &mut Cloud,
    now: Timestamp,
    operation: Operation,
    query: Query<'_>,
    body: &[u8],
) -> Result<Response, LambdaError> {
    let lambda = &mut cloud.lambda;
    let ok = StatusCode::OK;
    Ok(match operation {
        Operation::ListFunctions => {
            let functions: Vec<_> =
                lambda.functions().map(|function| FunctionConfiguration::new(function)).collect();
            answer(ok, &json!({ "Functions": functions }))
        }
        Operation::GetFunction(name) => {
            let name = query.function(&name)?;
            let reserved = lambda.reserved_concurrency(&name)?;
            answer(ok, &FunctionResponse::new(lambda.configuration(&name)?, reserved))
        }
        Operation::GetFunctionConfiguration(name) => {
            let name = query.function(&name)?;
            answer(ok, &FunctionConfiguration::new(lambda.configuration(&name)?))
        }
        Operation::PutFunctionConcurrency(name) => {
            let name = resolve(&name, None)?;
            let request: Concurrency = parse(body)?;
            let reserved = request.reserved_concurrent_executions.unwrap_or(-1);
            let reserved = u32::try_from(reserved).map_err(|_| {
                LambdaError::Validation(vec![format!(
                    "Value '{reserved}' at 'reservedConcurrentExecutions' failed to satisfy \
                     constraint: Member must have value greater than or equal to 0"
                )])
            })?;
            lambda.set_reserved_concurrency(&name, Some(reserved))?;
            answer(ok, &Concurrency { reserved_concurrent_executions: Some(reserved.into()) })
        }
        Operation::GetFunctionConcurrency(name) => {
            let reserved = lambda.reserved_concurrency(&resolve(&name, None)?)?;
            let reserved_concurrent_executions = reserved.map(i64::from);
            answer(ok, &Concurrency { reserved_concurrent_executions })
        }
        Operation::DeleteFunctionConcurrency(name) => {
            lambda.set_reserved_concurrency(&resolve(&name, None)?, None)?;
            StatusCode::NO_CONTENT.into_response()
        }
        Operation::PutFunctionEventInvokeConfig(name) => {
            let name = query.function(&name)?;
            let settings = parse::<EventInvokeRequest>(body)?.settings();
            let config = lambda.set_event_invoke_config(now, &name, &settings, false)?;
            answer(ok, &EventInvokeResponse::new(&name, &config))
        }
        Operation::UpdateFunctionEventInvokeConfig(name) => {
            let name = query.function(&name)?;
            let settings = parse::<EventInvokeRequest>(body)?.settings();
            let config = lambda.set_event_invoke_config(now, &name, &settings, true)?;
            answer(ok, &EventInvokeResponse::new(&name, &config))
        }
        Operation::GetFunctionEventInvokeConfig(name) => {
            let name = query.function(&name)?;
            answer(ok, &EventInvokeResponse::new(&name, lambda.event_invoke_config(&name)?))
        }
        Operation::DeleteFunctionEventInvokeConfig(name) => {
            lambda.delete_event_invoke_config(&query.function(&name)?)?;
            StatusCode::NO_CONTENT.into_response()
        }
        Operation::ListFunctionEventInvokeConfigs(name) => {
            let name = resolve(&name, None)?;
            lambda.configuration(&name)?;
            let config = lambda.event_invoke_config(&name).ok();
            let configs: Vec<_> =
                config.map(|config| EventInvokeResponse::new(&name, config)).into_iter().collect();
            answer(ok, &json!({ "FunctionEventInvokeConfigs": configs }))
        }
        Operation::CreateEventSourceMapping => {
            let request: MappingRequest = parse(body)?;
            let function = resolve(request.function_name.as_deref().unwrap_or_default(), None)?;
            let arn = request.event_source_arn.as_deref().unwrap_or_default();
            let mapping = cloud.create_mapping(now, arn, &function, &request.settings()?)?;
            answer(StatusCode::ACCEPTED, &MappingResponse::new(mapping))
        }
        Operation::ListEventSourceMappings => {
            let arn = query.get("EventSourceArn");
            let function = match query.get("FunctionName") {
                Some(name) => Some(resolve(&name, None)?),
                None => None,
            };
            let mappings: Vec<_> = lambda
                .mappings()
                .filter(|of| arn.as_ref().is_none_or(|arn| **arn == *of.event_source_arn))
                .filter(|of| function.as_ref().is_none_or(|name| **name == *of.function))
                .map(MappingResponse::new)
                .collect();
            answer(ok, &json!({ "EventSourceMappings": mappings }))
        }
        Operation::GetEventSourceMapping(uuid) => {
            answer(ok, &MappingResponse::new(lambda.mapping(&uuid)?))
        }
        Operation::UpdateEventSourceMapping(uuid) => {
            let request: MappingRequest = parse(body)?;
            let function = match &request.function_name {
                Some(name) => Some(resolve(name, None)?),
                None => None,
            };
            let settings = request.settings()?;
            let mapping = lambda.update_mapping(now, &uuid, function.as_deref(), &settings)?;
            answer(StatusCode::ACCEPTED, &MappingResponse::new(mapping))
        }
        Operation::DeleteEventSourceMapping(uuid) => {
            let mapping = lambda.delete_mapping(&uuid)?;
            answer(StatusCode::ACCEPTED, &MappingResponse::deleting(&mapping))
        }
        Operation::PutFunctionRecursionConfig(name) => {
            let request: Recursion = parse(body)?;
            let recursive_loop = recursive_loop(&request.recursive_loop)?;
            lambda.set_recursive_loop(&resolve(&name, None)?, recursive_loop)?;
            answer(ok, &request)
        }
        Operation::GetFunctionRecursionConfig(name) => {
            let recursive_loop = match lambda.recursive_loop(&resolve(&name, None)?)? {
                RecursiveLoop::Allow => "Allow",
                RecursiveLoop::Terminate => "Terminate",
            };
            answer(ok, &Recursion { recursive_loop: recursive_loop.to_owned() })
        }
        Operation::CreateFunction
        | Operation::UpdateFunctionCode(_)
        | Operation::UpdateFunctionConfiguration(_)
        | Operation::DeleteFunction(_)
        | Operation::Invoke(_) => StatusCode::NOT_FOUND.into_response(),
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

/// A function's code, ready to be started.
async fn prepare(
    shared: &Shared,
    code: CodeRequest,
    image_config: Option<ImageConfig>,
) -> Result<Code, LambdaError> {
    let prepared = match code {
        CodeRequest { zip_file: Some(zip), .. } => {
            let bytes = BASE64.decode(zip).map_err(|error| {
                LambdaError::Serialization(format!("ZipFile must be base64: {error}"))
            })?;
            let shared = shared.clone();
            let unpacking =
                tokio::task::spawn_blocking(move || shared.unpacked().zip(&bytes)).await;
            unpacking.map_err(|error| LambdaError::InvalidParameterValue(error.to_string()))?
        }
        CodeRequest { s3_bucket: Some(bucket), s3_key, .. } if bucket == LOCAL_FOLDER => {
            code::folder(s3_key.as_deref().unwrap_or_default())
        }
        CodeRequest { image_uri: Some(image), .. } if image == LOCAL_COMMAND => {
            let config = image_config.unwrap_or_default();
            let mut command = config.entry_point.unwrap_or_default();
            command.extend(config.command.unwrap_or_default());
            code::command(
                command,
                config.working_directory.as_deref(),
                shared.host().common().path(),
            )
        }
        _ => {
            return Err(LambdaError::InvalidParameterValue(format!(
                "code must be a ZipFile, a folder (S3Bucket={LOCAL_FOLDER}, S3Key=the folder) or a \
                 command (ImageUri={LOCAL_COMMAND}, with the command in ImageConfig)"
            )));
        }
    };
    prepared.map_err(|error: CodeError| LambdaError::InvalidParameterValue(error.to_string()))
}

/// The body of a request, if it is not over `max` bytes. One that is too large is read to its end
/// all the same, because a client that is still writing would not read the refusal.
async fn read(body: Body, max: usize) -> Result<Option<Vec<u8>>, LambdaError> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut total: usize = 0;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| LambdaError::InvalidRequestContent(error.to_string()))?;
        total = total.saturating_add(chunk.len());
        if total <= max {
            bytes.extend_from_slice(&chunk);
        } else if total > REQUEST_BYTES_MAX.saturating_mul(2) {
            break;
        }
    }
    Ok((total <= max).then_some(bytes))
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

/// An error in AWS's form. Throttling tells its reason, and `message` in small letters.
fn refuse(shared: &Shared, error: &LambdaError) -> Response {
    let body = match error {
        LambdaError::TooManyRequests(reason) => json!({
            "Reason": reason.name(), "Type": "User", "message": error.to_string(),
        }),
        _ => json!({ "Type": "User", "Message": error.to_string() }),
    };
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(status, &body);
    let headers = response.headers_mut();
    headers.insert("x-amzn-errortype", HeaderValue::from_static(error.code()));
    let request_id = shared.look(|cloud, _| cloud.lambda.ids.uuid());
    if let Ok(request_id) = HeaderValue::from_str(&request_id) {
        headers.insert(HeaderName::from_static("x-amzn-requestid"), request_id);
    }
    response
}
