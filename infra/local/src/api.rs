//! The services' APIs. They parse requests, make steps on the model, and write responses in AWS's format.

pub(crate) mod cloudwatch;
pub(crate) mod events;
pub(crate) mod kinesis;
pub(crate) mod lambda;
pub(crate) mod logs;
pub(crate) mod s3;
pub(crate) mod scheduler;
pub(crate) mod sqs;
pub(crate) mod sts;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

pub(crate) fn query_values<'a>(uri: &'a Uri, wanted: &'a str) -> impl Iterator<Item = String> {
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.filter(move |(name, _)| name == wanted).map(|(_, value)| value.into_owned())
}

pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The credential of a signed request: `KEY/DATE/REGION/SERVICE/aws4_request`.
pub(crate) struct Credential<'a> {
    key: &'a str,
    pub(crate) service: &'a str,
}

pub(crate) fn credential(headers: &HeaderMap) -> Option<Credential<'_>> {
    let (_, rest) = text(headers, "authorization")?.split_once("Credential=")?;
    let mut scope = rest.split([',', ' ']).next()?.rsplit('/');
    let service = scope.nth(1)?;
    Some(Credential { key: scope.nth(2)?, service })
}

/// An answer in the protocol AWS JSON 1.1, or the code and the message of a refusal, whose status is always 400.
fn json_1_1(answer: Result<Value, (&str, String)>) -> Response {
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err((code, message)) => {
            (StatusCode::BAD_REQUEST, json!({ "__type": code, "message": message }))
        }
    };
    (status, [(header::CONTENT_TYPE, "application/x-amz-json-1.1")], body.to_string())
        .into_response()
}

fn without_nulls(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}

enum BodyError {
    TooLong,
    Broken(String),
}

/// Reads a whole body of at most `bytes_max` bytes. A longer one is read to its end and discarded, because a client
/// that is still sending doesn't read the error response.
async fn read_body(body: Body, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut too_long = false;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| BodyError::Broken(error.to_string()))?;
        too_long |= bytes.len() + chunk.len() > bytes_max;
        if too_long {
            bytes = Vec::new();
        } else {
            bytes.extend_from_slice(&chunk);
        }
    }
    if too_long { Err(BodyError::TooLong) } else { Ok(bytes) }
}
