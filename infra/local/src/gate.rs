//! Who may come in, and to whom they are sent.
//!
//! Only this machine can reach the listener, but that includes every web page in its browser. So a
//! request must be addressed to a loopback name, which keeps out a page whose own name was turned to
//! this address; and one of AWS's must carry a signature, a header that a page can't send to another
//! origin. Any key is good.
//!
//! Beside AWS's services there is a side door for observers, without a signature, and closed to web
//! pages: `GET /_local/health` and `GET /_local/journal?after=N&wait=SECONDS`.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::api;
use crate::journal::Entry;
use crate::shared::Shared;

/// How long an observer may wait for news.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How many entries of the journal one answer has at most.
const ENTRIES_MAX: usize = 1_000;

/// Every request. One that waits is let go when the local cloud stops.
pub(crate) async fn enter(State(shared): State<Shared>, request: Request) -> Response {
    tokio::select! {
        response = answer(&shared, request) => response,
        () = shared.closing() => {
            (StatusCode::SERVICE_UNAVAILABLE, "the local cloud is stopping\n").into_response()
        }
    }
}

async fn answer(shared: &Shared, request: Request) -> Response {
    let headers = request.headers();
    if !is_to_loopback(headers) {
        return refuse("this local cloud answers only to loopback names, such as 127.0.0.1");
    }
    if let Some(door) = request.uri().path().strip_prefix("/_local/") {
        if headers.contains_key(header::ORIGIN) {
            return refuse("web pages may not look in here");
        }
        return observe(shared, door, request.uri().query().unwrap_or_default()).await;
    }
    if !is_signed(headers) {
        return (
            StatusCode::FORBIDDEN,
            [("x-amzn-errortype", "MissingAuthenticationTokenException")],
            r#"{"message":"Missing Authentication Token"}"#,
        )
            .into_response();
    }
    if api::sqs::is_meant(request.headers()) {
        return api::sqs::handle(shared, request).await;
    }
    let (head, body) = request.into_parts();
    if api::sqs::query::is_meant(&head) {
        return api::sqs::query::refuse();
    }
    let request = Request::from_parts(head, body);
    api::lambda::handle(shared, request).await
}

fn refuse(why: &str) -> Response {
    (StatusCode::FORBIDDEN, format!("{why}\n")).into_response()
}

/// Whether a request was addressed to this machine by a name that can't be anyone else's.
fn is_to_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
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
struct News {
    /// What to ask for next as `after`.
    next: u64,
    events: Vec<Entry>,
}

async fn observe(shared: &Shared, door: &str, query: &str) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    match door {
        "health" => (json, r#"{"status":"running"}"#).into_response(),
        "journal" => {
            let number = |wanted: &str| {
                let mut pairs = form_urlencoded::parse(query.as_bytes());
                let (_, value) = pairs.find(|(name, _)| name == wanted)?;
                value.parse::<u64>().ok()
            };
            let after = number("after").unwrap_or_default();
            let wait = Duration::from_secs(number("wait").unwrap_or_default()).min(WAIT_MAX);
            let news = shared.0.journal.wait_after(after, ENTRIES_MAX);
            // Without news in time there are none: an empty list.
            let events = tokio::time::timeout(wait, news).await.unwrap_or_default();
            let next = events.last().map_or(after, |entry| entry.n);
            let body = serde_json::to_string(&News { next, events }).unwrap_or_default();
            (json, body).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn only_loopback_names_are_answered_to() {
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
            assert_eq!(is_to_loopback(&headers(header::HOST, host)), good, "{host}");
        }
        assert!(!is_to_loopback(&HeaderMap::new()));
    }

    #[test]
    fn a_request_of_awss_is_signed() {
        let signed = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/sqs/aws4_request";
        assert!(is_signed(&headers(header::AUTHORIZATION, signed)));
        assert!(!is_signed(&headers(header::AUTHORIZATION, "Basic eDp5")));
        assert!(!is_signed(&HeaderMap::new()));
    }
}
