//! Lambda's REST API.
//!
//! Most operations are one step on the model ([`functions`], [`mappings`]). Those with code or layers unpack them first
//! and end old processes afterwards ([`deployment`]).

mod deployment;
mod functions;
mod mappings;
mod shapes;

use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRequestParts, Path, Request},
    http::{HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{BodyError, query_values, read_body};
use crate::{
    model::lambda::{
        error::LambdaError,
        function,
        name::{LATEST, resolve},
    },
    shared::Shared,
};

/// The largest request, in bytes: AWS's limit, so that a zip of 50 MB fits in base64.
const REQUEST_BYTES_MAX: usize = 69_905_067;

type Answer = Result<Response, Refusal>;

/// The operations, by AWS's methods and paths. The date in a path is the API version in which AWS added the operation.
pub(crate) fn router() -> Router<Shared> {
    let routes = [
        ("/2015-03-31/functions", post(deployment::create).get(functions::list)),
        ("/2015-03-31/functions/{name}", get(functions::get).delete(deployment::delete)),
        ("/2015-03-31/functions/{name}/code", put(deployment::update_code)),
        (
            "/2015-03-31/functions/{name}/configuration",
            get(functions::get_configuration).put(deployment::update_configuration),
        ),
        ("/2015-03-31/functions/{name}/invocations", post(functions::invoke)),
        ("/2015-03-31/event-source-mappings", post(mappings::create).get(mappings::list)),
        (
            "/2015-03-31/event-source-mappings/{uuid}",
            get(mappings::get).put(mappings::update).delete(mappings::delete),
        ),
        (
            "/2017-03-31/tags/{arn}",
            get(functions::list_tags).post(functions::tag).delete(functions::untag),
        ),
        (
            "/2017-10-31/functions/{name}/concurrency",
            put(functions::put_concurrency).delete(functions::delete_concurrency),
        ),
        ("/2018-10-31/layers/{name}/versions", post(deployment::publish_layer)),
        ("/2018-10-31/layers/{name}/versions/{version}", get(deployment::get_layer)),
        (
            "/2019-09-25/functions/{name}/event-invoke-config",
            put(|of, body| functions::set_event_invoke_config(of, body, false))
                .post(|of, body| functions::set_event_invoke_config(of, body, true))
                .get(functions::get_event_invoke_config)
                .delete(functions::delete_event_invoke_config),
        ),
        (
            "/2019-09-25/functions/{name}/event-invoke-config/list",
            get(functions::list_event_invoke_configs),
        ),
        ("/2019-09-30/functions/{name}/concurrency", get(functions::get_concurrency)),
        (
            "/2024-08-31/functions/{name}/recursion-config",
            put(functions::put_recursion_config).get(functions::get_recursion_config),
        ),
    ];
    // SDKs differ in whether a path ends with a slash.
    let router = routes.into_iter().fold(Router::new(), |router, (path, methods)| {
        router.route(&format!("{path}/"), methods.clone()).route(path, methods)
    });
    router.fallback(unknown).method_not_allowed_fallback(unknown).layer(DefaultBodyLimit::disable())
}

/// Reads the request's body, performs the operation, and adds a request id to an error response.
pub(crate) async fn handle(shared: &Shared, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let response = match read_body(body, REQUEST_BYTES_MAX).await {
        Ok(bytes) => next.run(Request::from_parts(head, bytes.into())).await,
        Err(BodyError::TooLong) => {
            Refusal(LambdaError::RequestEntityTooLarge { limit: REQUEST_BYTES_MAX }).into_response()
        }
        Err(BodyError::Broken(reason)) => {
            Refusal(LambdaError::InvalidRequestContent(reason)).into_response()
        }
    };
    if response.headers().contains_key("x-amzn-errortype") {
        let request_id = shared.look(|cloud, _| cloud.lambda.ids.uuid());
        return with_request_id(response, &request_id);
    }
    response
}

async fn unknown(method: Method, uri: Uri) -> Refusal {
    Refusal(LambdaError::UnknownOperation(format!("{method} {}", uri.path())))
}

/// The parameters in a path, decoded. If they have the wrong type, the operation is unknown.
struct Params<T>(T);

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, shared).await {
            Ok(Path(named)) => Ok(Self(named)),
            Err(_) => Err(unknown(parts.method.clone(), parts.uri.clone()).await),
        }
    }
}

/// The function that a path names. The query may have a qualifier.
struct Function {
    shared: Shared,
    name: String,
    is_qualified: bool,
}

impl FromRequestParts<Shared> for Function {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refusal> {
        let Params(reference) = Params::<String>::from_request_parts(parts, shared).await?;
        let qualifier = query_values(&parts.uri, "Qualifier").next();
        let name = resolve(&reference, qualifier.as_deref())?;
        let is_qualified = qualifier.is_some() || reference.ends_with(LATEST);
        Ok(Self { name, is_qualified, shared: shared.clone() })
    }
}

impl Function {
    fn tell(&self, tell: impl FnOnce(&function::Function) -> Value) -> Answer {
        let Self { shared, name, .. } = self;
        shared.look(|cloud, _| Ok(answer(StatusCode::OK, &tell(cloud.lambda.function(name)?))))
    }

    fn change(&self, change: impl FnOnce(&mut function::Function)) -> Answer {
        self.shared.step(|cloud, _| {
            change(cloud.lambda.function_mut(&self.name)?);
            Ok(StatusCode::NO_CONTENT.into_response())
        })
    }
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

/// An error in AWS's format. A throttling error has a reason, and its member `message` is in lower case.
struct Refusal(LambdaError);

impl From<LambdaError> for Refusal {
    fn from(error: LambdaError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let message = error.to_string();
        let body = if let LambdaError::TooManyRequests(reason) = error {
            json!({ "Reason": reason, "Type": "User", "message": message })
        } else {
            json!({ "Type": "User", "Message": message })
        };
        let status = StatusCode::from_u16(error.status());
        let response = answer(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &body);
        ([("x-amzn-errortype", error.code())], response).into_response()
    }
}

fn with_request_id(mut response: Response, request_id: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert("x-amzn-requestid", value);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;
    use crate::{Config, start};

    #[tokio::test]
    async fn operations_have_awss_paths_and_anything_else_is_unknown() {
        let server = start(Config::default()).await.unwrap();
        let (unknown, missing) = ("UnknownOperationException", "ResourceNotFoundException");
        let arn = "arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3Af%3A%24LATEST";
        for (method, path, status, error_type) in [
            ("GET", "/2015-03-31/functions/", 200, ""),
            ("GET", "/2015-03-31/event-source-mappings/", 200, ""),
            ("GET", &format!("/2015-03-31/functions/{arn}"), 404, missing),
            ("GET", &format!("/2017-03-31/tags/{arn}"), 404, missing),
            ("GET", "/", 404, unknown),
            ("PATCH", "/2015-03-31/functions", 404, unknown),
            ("GET", "/2015-03-31/functions/%ff", 404, unknown),
            ("GET", "/2015-03-31/functions/f/versions", 404, unknown),
            ("GET", "/2015-03-31/functions/f/concurrency", 404, unknown),
            ("GET", "/2014-11-13/functions/f", 404, unknown),
            ("GET", "/2018-10-31/layers/l/versions/last", 404, unknown),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request = request.header("host", "localhost");
            let request = request.header("authorization", "AWS4-HMAC-SHA256 Credential=x");
            let answer = server.answer(request.body(Body::empty()).unwrap()).await;
            let header = |name| answer.headers().get(name).map_or("", |it| it.to_str().unwrap());
            assert_eq!(answer.status(), status, "{method} {path}");
            assert_eq!(header("x-amzn-errortype"), error_type, "{method} {path}");
            assert_eq!(header("x-amzn-requestid").is_empty(), status == 200, "{method} {path}");
        }
    }
}
