//! Reads the response of a function.
//!
//! A response is whole or streamed. A stream may be much longer than the largest response to a synchronous invoker. It
//! is read to its end, but a stream beyond that size isn't kept. A function that fails while it streams reports the
//! error in trailers.

use std::pin::Pin;

use axum::{
    body::{Body, Bytes, HttpBody},
    http::HeaderMap,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::json;

use crate::model::lambda::run::RESPONSE_BYTES_MAX;

/// The longest streamed response, in bytes: AWS's 200 MB.
const STREAM_BYTES_MAX: usize = 200 * 1024 * 1024;

const RESPONSE_MODE: &str = "lambda-runtime-function-response-mode";
const ERROR_TYPE: &str = "lambda-runtime-function-error-type";
const ERROR_BODY: &str = "lambda-runtime-function-error-body";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Whole(Vec<u8>),
    Failed(Vec<u8>),
    /// A stream within its own limit that is longer than the largest response.
    Long,
    /// The body exceeds the limit of its mode.
    TooLarge,
    /// The connection was closed before the end of the body.
    Broken,
}

pub(super) async fn read(headers: &HeaderMap, mut body: Body) -> Read {
    let mode = headers.get(RESPONSE_MODE).map(|mode| mode.as_bytes());
    let streams = mode.is_some_and(|mode| mode.eq_ignore_ascii_case(b"streaming"));
    let limit = if streams { STREAM_BYTES_MAX } else { RESPONSE_BYTES_MAX };
    let mut kept = Vec::new();
    let mut length = 0;
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(frame) = frame else {
            return Read::Broken;
        };
        match frame.into_data() {
            Ok(chunk) => {
                length += chunk.len();
                if length > limit {
                    return Read::TooLarge;
                }
                keep(&mut kept, &chunk, length);
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                if let Some(error) = error(&trailers).filter(|_| streams) {
                    return Read::Failed(error);
                }
            }
        }
    }
    if length > RESPONSE_BYTES_MAX { Read::Long } else { Read::Whole(kept) }
}

/// Appends a chunk to the kept bytes, or discards them if the body is too long.
fn keep(kept: &mut Vec<u8>, chunk: &Bytes, length: usize) {
    if length > RESPONSE_BYTES_MAX {
        *kept = Vec::new();
    } else {
        kept.extend_from_slice(chunk);
    }
}

/// The error in trailers, in the format of an error report.
fn error(trailers: &HeaderMap) -> Option<Vec<u8>> {
    let body = trailers.get(ERROR_BODY).and_then(|body| BASE64.decode(body).ok());
    let named = trailers.get(ERROR_TYPE).and_then(|error_type| error_type.to_str().ok());
    let of_type = named.map(|error_type| json!({ "errorType": error_type }).to_string());
    body.filter(|body| !body.is_empty()).or(of_type.map(String::into_bytes))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn trailers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    async fn length(bytes: usize, mode: &'static str) -> Read {
        read(&trailers(&[(RESPONSE_MODE, mode)]), Body::from(vec![b'x'; bytes])).await
    }

    #[tokio::test]
    async fn only_a_stream_may_be_longer_than_the_largest_response() {
        let whole = Read::Whole(vec![b'x'; RESPONSE_BYTES_MAX]);
        assert_eq!(length(RESPONSE_BYTES_MAX, "").await, whole);
        assert_eq!(length(RESPONSE_BYTES_MAX, "Streaming").await, whole);
        assert_eq!(length(RESPONSE_BYTES_MAX + 1, "").await, Read::TooLarge);
        assert_eq!(length(RESPONSE_BYTES_MAX + 1, "streaming").await, Read::Long);
        assert_eq!(length(STREAM_BYTES_MAX, "streaming").await, Read::Long);
        assert_eq!(length(STREAM_BYTES_MAX + 1, "streaming").await, Read::TooLarge);
    }

    #[test]
    fn a_long_stream_is_not_kept() {
        let mut kept = vec![b'x'; RESPONSE_BYTES_MAX];
        keep(&mut kept, &Bytes::from_static(b"x"), RESPONSE_BYTES_MAX + 1);
        assert_eq!(kept.capacity(), 0);
    }

    #[test]
    fn an_error_in_trailers_has_a_body_or_else_a_type() {
        for (pairs, expected) in [
            (&[(ERROR_TYPE, "T"), (ERROR_BODY, "eyJhIjoxfQ==")][..], Some(r#"{"a":1}"#)),
            (&[(ERROR_BODY, "eyJhIjoxfQ==")], Some(r#"{"a":1}"#)),
            (&[(ERROR_TYPE, "T"), (ERROR_BODY, "no base64")], Some(r#"{"errorType":"T"}"#)),
            (&[(ERROR_TYPE, "T"), (ERROR_BODY, "")], Some(r#"{"errorType":"T"}"#)),
            (&[("x-checksum", "1")], None),
        ] {
            let actual = error(&trailers(pairs)).map(|error| String::from_utf8(error).unwrap());
            assert_eq!(actual.as_deref(), expected, "{pairs:?}");
        }
    }
}
