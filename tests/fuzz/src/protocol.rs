//! The answers of the local cloud to requests.
//!
//! The input is a sequence of requests, with a line `----` between them. Each has a line with its method and path, its
//! headers, an empty line and its body. A missing `Host` or `Authorization` gets the value that an SDK would send.
//! `$RECEIPT` and `$UUID` stand for the last receipt handle and the last mapping id in the answers.
//!
//! Every answer must be well formed and must not be a server error. The cloud runs with a concurrency of 0, so it never
//! starts a process.

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{HeaderMap, StatusCode, header},
};
use comeback_local::{Config, Server, start};
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

const SEPARATOR: &str = "\n----\n";

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().build().unwrap();
}

pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    RUNTIME.with(|runtime| runtime.block_on(ask_all(text)));
}

async fn ask_all(text: &str) {
    let server = start(Config { concurrency: 0, ..Config::default() }).await.unwrap();
    let mut known = Placeholders::default();
    for written in text.split(SEPARATOR) {
        let Some(request) = request(&known.fill_in(written)) else { continue };
        let path = request.uri().path().to_owned();
        if let Some(answer) = ask(&server, request).await {
            check_answer(&path, &answer);
            known.learn(&answer.body);
        }
        // Lets the server do the work that the request has caused.
        tokio::task::yield_now().await;
    }
    server.stop().await;
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// The answer, or None if it would have to wait.
async fn ask(server: &Server, request: Request) -> Option<Answer> {
    let (head, body) = server.answer(request).now_or_never()?.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Some(Answer { status: head.status, headers: head.headers, body })
}

/// Parses a request, or returns None if this text is not one.
fn request(text: &str) -> Option<Request> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let headers = request.headers_mut()?;
    for (name, value) in [
        (header::HOST, "127.0.0.1:4566"),
        (header::AUTHORIZATION, "AWS4-HMAC-SHA256 Credential=local"),
    ] {
        headers.entry(name).or_insert(value.parse().ok()?);
    }
    request.body(Body::from(body.to_owned())).ok()
}

fn check_answer(path: &str, answer: &Answer) {
    let Answer { status, headers, body } = answer;
    let told = || format!("{status} {headers:?} {}", String::from_utf8_lossy(body));
    assert!(!status.is_server_error() && !status.is_informational(), "{}", told());
    if path.starts_with("/_local/") || *status == StatusCode::FORBIDDEN {
        return;
    }
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("x-amzn-requestid").map_or(36, str::len), 36, "{}", told());
    if body.is_empty() {
        assert!([StatusCode::NO_CONTENT, StatusCode::ACCEPTED].contains(status), "{}", told());
        return;
    }
    if header("content-type") == Some("application/cbor") {
        assert!(is_cbor(body) && !status.is_redirection(), "{}", told());
        return;
    }
    let json: Value = serde_json::from_slice(body).unwrap();
    let is_sqs = header("content-type") == Some("application/x-amz-json-1.0");
    let is_rest = header("content-type") == Some("application/json");
    assert!(is_sqs || is_rest, "{}", told());
    if status.is_success() {
        return;
    }
    assert!(status.is_client_error() && header("x-amzn-requestid").is_some(), "{}", told());
    let named = if is_sqs {
        json["__type"].is_string() && header("x-amzn-query-error").is_some()
    } else {
        header("x-amzn-errortype").is_some()
    };
    let message = if json["message"].is_null() { &json["Message"] } else { &json["message"] };
    assert!(named && message.is_string(), "{}", told());
}

/// Whether these bytes are one CBOR value.
fn is_cbor(body: &[u8]) -> bool {
    let mut decoder = minicbor::Decoder::new(body);
    decoder.skip().is_ok() && decoder.position() == body.len()
}

/// Values from earlier answers that later requests may use.
#[derive(Default)]
struct Placeholders {
    receipt: String,
    uuid: String,
}

impl Placeholders {
    fn fill_in(&self, text: &str) -> String {
        text.replace("$RECEIPT", &self.receipt).replace("$UUID", &self.uuid)
    }

    fn learn(&mut self, body: &[u8]) {
        let Ok(body) = serde_json::from_slice::<Value>(body) else { return };
        if let Some(receipt) = body["Messages"][0]["ReceiptHandle"].as_str() {
            receipt.clone_into(&mut self.receipt);
        }
        if let Some(uuid) = body["UUID"].as_str() {
            uuid.clone_into(&mut self.uuid);
        }
    }
}
