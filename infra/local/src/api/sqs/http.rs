//! SQS's side of HTTP: headers in, status and headers out, and receives that wait.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use futures_util::StreamExt as _;
use serde::Serialize;

use super::fault::SqsFault;
use super::receive::ReceiveMessage;
use super::{Caller, answer, read, write};
use crate::clock;
use crate::model::Cloud;
use crate::model::sqs::{MESSAGE_BYTES_MAX, SqsError};
use crate::server::Shared;

/// What names the operation of a request, behind `X-Amz-Target: `.
const TARGET_PREFIX: &str = "AmazonSQS.";

/// JSON can be much longer than the message that it tells: an escape takes six bytes for one.
const BODY_BYTES_MAX: usize = 8 * MESSAGE_BYTES_MAX as usize;

/// Whether a request is one to SQS.
pub(crate) fn is_meant(headers: &HeaderMap) -> bool {
    let target = headers.get("x-amz-target").map(HeaderValue::as_bytes);
    target.is_some_and(|target| target.starts_with(TARGET_PREFIX.as_bytes()))
}

/// Answers a request to SQS.
pub(crate) async fn handle(shared: &Shared, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let action = text("x-amz-target").and_then(|target| target.strip_prefix(TARGET_PREFIX));
    let action = action.unwrap_or_default();
    let caller = Caller {
        host: text(header::HOST.as_str()).unwrap_or_default(),
        trace_header: text("x-amzn-trace-id"),
    };
    let body = collect(body).await;
    let done = match (action, body) {
        ("ReceiveMessage", Ok(body)) => receive(shared, &body).await,
        (action, body) => {
            let step = |cloud: &mut Cloud, now| Done {
                request_id: cloud.sqs.request_id(),
                answer: body.and_then(|body| answer(action, &body, &caller, &mut cloud.sqs, now)),
            };
            if is_reading(action) { shared.look(step) } else { shared.step(step) }
        }
    };
    done.respond()
}

/// The whole body. One that is too long is taken in to its end too, and forgotten on the way: who is
/// still sending doesn't listen to a refusal.
async fn collect(body: Body) -> Result<Vec<u8>, SqsFault> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut too_long = false;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| SqsFault::Serialization(error.to_string()))?;
        too_long |= bytes.len() + chunk.len() > BODY_BYTES_MAX;
        if too_long {
            bytes.clear();
        } else {
            bytes.extend_from_slice(&chunk);
        }
    }
    if too_long { Err(SqsError::too_long(MESSAGE_BYTES_MAX).into()) } else { Ok(bytes) }
}

/// What a request came to.
struct Done {
    answer: Result<Vec<u8>, SqsFault>,
    request_id: String,
}

/// Whether an operation changes nothing that another could wait for.
fn is_reading(action: &str) -> bool {
    action.starts_with("Get") || action.starts_with("List")
}

/// Receives what is there, and where that is nothing, waits for it: until the caller's patience is
/// at its end, until a message becomes visible, or until anything changes.
async fn receive(shared: &Shared, body: &[u8]) -> Done {
    let request = read::<ReceiveMessage>(body);
    let mut patience = None;
    loop {
        // Before the look: what changes between the two must not be missed.
        let changed = shared.changed();
        let (look, request_id) = shared.look(|cloud, now| {
            let request = request.as_ref().map_err(Clone::clone);
            let look = request.and_then(|request| request.look(&mut cloud.sqs, now));
            (look, cloud.sqs.request_id())
        });
        let look = match look {
            Ok(look) => look,
            Err(fault) => return Done { answer: Err(fault), request_id },
        };
        if look.redriven {
            shared.step(|_, _| ());
        }
        if !look.found_nothing() || look.wait.is_zero() {
            return Done { answer: write(&look.answer), request_id };
        }
        let patience = patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(look.wait)));
        let visible = async {
            match look.next_visible_at {
                Some(at) => tokio::time::sleep(clock::until(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = visible => {}
            () = patience => return Done { answer: write(&look.answer), request_id },
        }
    }
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "__type")]
    shape: &'a str,
    message: String,
}

impl Done {
    fn respond(self) -> Response<Body> {
        let (status, code, body) = match self.answer {
            Ok(body) => (StatusCode::OK, None, body),
            Err(fault) => {
                let name = fault.name();
                let told = Told { shape: name.shape, message: fault.to_string() };
                let status = StatusCode::from_u16(name.status).unwrap_or(StatusCode::BAD_REQUEST);
                let code = HeaderValue::from_str(&format!("{};Sender", name.code)).ok();
                (status, code, write(&told).unwrap_or_default())
            }
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/x-amz-json-1.0");
        let request_id = HeaderValue::from_str(&self.request_id).ok();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, json);
        headers.extend(request_id.map(|id| (HeaderName::from_static("x-amzn-requestid"), id)));
        headers.extend(code.map(|code| (HeaderName::from_static("x-amzn-query-error"), code)));
        response
    }
}
