//! What a function posts as its response: whole, or as a stream.
//!
//! A stream may be far longer than what an invoker that waits for a whole response is given. It is
//! read to its end all the same, but no more of it is kept. A function that fails after it has begun
//! to stream says so in trailers.

use std::pin::Pin;

use axum::{
    body::{Body, Bytes, HttpBody},
    http::HeaderMap,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::json;

use crate::model::lambda::run::RESPONSE_BYTES_MAX;

/// How long a streamed response may be, in bytes: AWS's 200 MB.
const STREAM_BYTES_MAX: usize = 200 * 1024 * 1024;

const RESPONSE_MODE: &str = "lambda-runtime-function-response-mode";
const ERROR_TYPE: &str = "lambda-runtime-function-error-type";
const ERROR_BODY: &str = "lambda-runtime-function-error-body";

/// A body that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// All of it.
    Whole(Vec<u8>),
    /// A stream that ended with this error.
    Failed(Vec<u8>),
    /// A stream that may be so long, but is longer than a response that is kept.
    Long,
    /// It is longer than it may be.
    TooLarge,
    /// It ended too early.
    Broken,
}

/// Reads a body that comes with these headers.
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

/// Keeps what has come of a body as long as it is not too long.
fn keep(kept: &mut Vec<u8>, chunk: &Bytes, length: usize) {
    if length > RESPONSE_BYTES_MAX {
        *kept = Vec::new();
    } else {
        kept.extend_from_slice(chunk);
    }
}

/// The error that trailers tell of, in the form of one that was reported.
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
    async fn only_a_stream_may_be_longer_than_what_is_kept() {
        let whole = Read::Whole(vec![b'x'; RESPONSE_BYTES_MAX]);
        assert_eq!(length(RESPONSE_BYTES_MAX, "").await, whole);
        assert_eq!(length(RESPONSE_BYTES_MAX, "Streaming").await, whole);
        assert_eq!(length(RESPONSE_BYTES_MAX + 1, "").await, Read::TooLarge);
        assert_eq!(length(RESPONSE_BYTES_MAX + 1, "streaming").await, Read::Long);
        assert_eq!(length(STREAM_BYTES_MAX, "streaming").await, Read::Long);
        assert_eq!(length(STREAM_BYTES_MAX + 1, "streaming").await, Read::TooLarge);
    }

    #[test]
    fn of_a_long_stream_nothing_is_kept() {
        let mut kept = vec![b'x'; RESPONSE_BYTES_MAX];
        keep(&mut kept, &Bytes::from_static(b"x"), RESPONSE_BYTES_MAX + 1);
        assert_eq!(kept.capacity(), 0);
    }

    #[test]
    fn trailers_tell_of_an_error_by_its_body_or_else_by_its_type() {
        for (pairs, expected) in [
            (&[(ERROR_TYPE, "T"), (ERROR_BODY, "eyJhIjoxfQ==")][..], Some(r#"{"a":1}"#)),
            (&[(ERROR_BODY, "eyJhIjoxfQ==")], Some(r#"{"a":1}"#)),
            (&[(ERROR_TYPE, "T"), (ERROR_BODY, "no base64")], Some(r#"{"errorType":"T"}"#)),
            (&[(ERROR_TYPE, "T"), (ERROR_BODY, "")], Some(r#"{"errorType":"T"}"#)),
            (&[("x-checksum", "1")], None),
        ] {
            let told = error(&trailers(pairs)).map(|error| String::from_utf8(error).unwrap());
            assert_eq!(told.as_deref(), expected, "{pairs:?}");
        }
    }
}
