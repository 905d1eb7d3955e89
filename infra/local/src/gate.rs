//! Checks whether requests are allowed, and routes them to their service.
//!
//! Only this machine can reach the listener, but that includes every web page in its browser. So a request must be
//! addressed to a loopback name, which prevents DNS rebinding. A request to AWS's services must also have a signature,
//! because a page can't send that header to another origin. The signature may have any key.
//!
//! A request without a signature is taken for a browser's. It goes to the page, if there is one, which has checks of
//! its own.
//!
//! Besides AWS's services, there are routes for observers, which need no signature and refuse web pages:
//! `GET /_local/health` and `GET /_local/journal?after=N&wait=SECONDS`.

use std::time::Duration;

use axum::{
    Router, ServiceExt,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;

use crate::{api, journal::Entry, shared::Shared};

const WAIT_MAX: Duration = Duration::from_secs(60);

const ENTRIES_MAX: usize = 1_000;

/// The routers that are not part of the local cloud.
#[derive(Clone)]
pub(crate) struct Others {
    pub(crate) page: Option<Router>,
    pub(crate) dynamodb: Option<Router>,
}

pub(crate) fn router(shared: Shared, others: Others) -> Router {
    let json = [(header::CONTENT_TYPE, "application/json")];
    api::lambda::router()
        .route("/_local/health", get(async move || (json, r#"{"status":"running"}"#)))
        .route("/_local/journal", get(journal))
        .layer(middleware::from_fn_with_state((shared.clone(), others), enter))
        .with_state(shared)
}

/// Every request passes here. A waiting request is ended when the local cloud stops.
async fn enter(
    State((shared, others)): State<(Shared, Others)>,
    request: Request,
    next: Next,
) -> Response {
    tokio::select! {
        response = answer(&shared, others, request, next) => response,
        () = shared.closing() => {
            (StatusCode::SERVICE_UNAVAILABLE, "the local cloud is stopping\n").into_response()
        }
    }
}

async fn answer(shared: &Shared, others: Others, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !is_to_loopback(headers) {
        return refuse("this local cloud answers only to loopback names, such as 127.0.0.1");
    }
    if request.uri().path().starts_with("/_local/") {
        if headers.contains_key(header::ORIGIN) {
            return refuse("requests from web pages are refused");
        }
        return next.run(request).await;
    }
    if !is_signed(headers) {
        if let Some(page) = others.page {
            let Ok(response) = call(page, request).await;
            return response;
        }
        return (
            StatusCode::FORBIDDEN,
            [("x-amzn-errortype", "MissingAuthenticationTokenException")],
            r#"{"message":"Missing Authentication Token"}"#,
        )
            .into_response();
    }
    // The path of a request for S3 may look like that of any service, and one for STS like one for SQS.
    match api::credential(headers).map(|it| it.service) {
        Some(api::s3::SERVICE) => return api::s3::handle(shared, request).await,
        Some(api::sts::SERVICE) => return api::sts::handle(request).await,
        _ => {}
    }
    let target = api::text(headers, "x-amz-target").unwrap_or_default().to_owned();
    if let Some(action) = target.strip_prefix("AmazonSQS.") {
        return api::sqs::handle(shared, request, action).await;
    }
    if let Some(action) = target.strip_prefix("Logs_20140328.") {
        return api::logs::handle(shared, request, action).await;
    }
    if let Some(action) = target.strip_prefix("Kinesis_20131202.") {
        return api::kinesis::handle(shared, request, action).await;
    }
    if let Some(action) = target.strip_prefix("AWSEvents.") {
        return api::events::handle(shared, request, action).await;
    }
    if target.starts_with("DynamoDB_")
        && let Some(dynamodb) = others.dynamodb
    {
        let Ok(response) = call(dynamodb, request).await;
        return response;
    }
    if api::cloudwatch::is_cloudwatch_request(request.uri()) {
        return api::cloudwatch::handle(shared, request).await;
    }
    if api::scheduler::is_scheduler_request(request.uri()) {
        return api::scheduler::handle(shared, request).await;
    }
    if api::sqs::is_query_request(&request) {
        return api::sqs::refuse_query();
    }
    api::lambda::handle(shared, request, next).await
}

fn refuse(why: &str) -> Response {
    (StatusCode::FORBIDDEN, format!("{why}\n")).into_response()
}

pub fn is_to_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = api::text(headers, "host") else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "127.0.0.1" | "localhost" | "[::1]") || name.ends_with(".localhost")
}

fn is_signed(headers: &HeaderMap) -> bool {
    headers
        .get(header::AUTHORIZATION)
        .is_some_and(|value| value.as_bytes().starts_with(b"AWS4-HMAC-SHA256 "))
}

#[derive(Serialize)]
struct Entries {
    /// The next request's `after`.
    next: u64,
    events: Vec<Entry>,
}

async fn journal(State(shared): State<Shared>, uri: Uri) -> Response {
    let number = |wanted| api::query_values(&uri, wanted).next()?.parse::<u64>().ok();
    let after = number("after").unwrap_or_default();
    let wait = Duration::from_secs(number("wait").unwrap_or_default()).min(WAIT_MAX);
    let entries = shared.0.journal.wait_after(after, ENTRIES_MAX);
    // The list is empty if there are no new entries in time.
    let events = tokio::time::timeout(wait, entries).await.unwrap_or_default();
    let next = events.last().map_or(after, |entry| entry.n);
    let body = serde_json::to_string(&Entries { next, events }).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Calls a service once. Its trait is only available here through axum's.
pub(crate) fn call<S: ServiceExt<Request>>(mut service: S, request: Request) -> S::Future {
    service.call(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_accepted() {
        for (host, good) in [
            ("127.0.0.1:4566", true),
            ("127.0.0.1", true),
            ("localhost:4566", true),
            ("sqs.localhost:4566", true),
            ("[::1]:4566", true),
            ("evil.example:4566", false),
            ("127.0.0.1.evil.example", false),
            ("notlocalhost", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            assert_eq!(is_to_loopback(&headers), good, "{host}");
        }
        assert!(!is_to_loopback(&HeaderMap::new()));
    }
}
