//! Judges HTTP statuses.

use std::error::Error;

use http::{HeaderMap, StatusCode};

use super::{Kind, Opinion, RetryHint, Verdict};

/// The error of a response with a failure status: its status, retry hint and body.
///
/// | status | verdict |
/// |---|---|
/// | 429, 509, 529 | retry: throttled |
/// | 408, 504, 522, 524 | retry: timed out |
/// | 409, 500, 502, 520 | retry: in doubt |
/// | 425, 503, 521, 523 | retry: unavailable |
/// | any other 4xx | never |
/// | all others | no opinion |
///
/// Services that accept an idempotency key return 409 while the first request with that key is still running, for
/// example after a timeout. If 409 is a permanent conflict in your case, put your own rule [over this
/// one](super::Rule::under).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the response has the status {status}{}", body_excerpt(body))]
pub struct HttpStatus {
    status: StatusCode,
    retry_after: Option<RetryHint>,
    body: String,
}

/// The number of bytes of a body that are kept.
const BODY_MAX: usize = 8 * 1024;

/// The number of bytes of the body in the error message. A dead letter has room for a message of 1,024 bytes.
const EXCERPT_MAX: usize = 512;

impl HttpStatus {
    /// Creates the error of a response with this status and these headers.
    pub fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let retry_after =
            RetryHint::among(|name| headers.get(name).and_then(|value| value.to_str().ok()));
        Self { status, retry_after, body: String::new() }
    }

    /// Adds the response's body, in which many services return the reason. The first 8 KiB are kept, and the error
    /// message contains the first 512 bytes, on one line.
    #[must_use]
    pub fn with_body(self, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(&body[..body.len().min(BODY_MAX)]).into_owned();
        Self { body, ..self }
    }

    /// Returns the response, or an error if its status is 4xx or 5xx. Unlike the error of `error_for_status`, this
    /// one keeps the retry hint and the body. Requires the feature `reqwest` or `reqwest-0-12`.
    ///
    /// Set a timeout on the client: nothing else limits the time to read the body.
    ///
    /// # Errors
    ///
    /// If the status is 4xx or 5xx.
    ///
    /// ```
    /// use comeback::transient::HttpStatus;
    ///
    /// async fn rates(client: &reqwest::Client) -> Result<String, Box<dyn std::error::Error>> {
    ///     let response = client.get("https://api.example.com/rates").send().await?;
    ///     Ok(HttpStatus::check(response).await?.text().await?)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), http::Error> {
    /// let busy = http::Response::builder().status(503).body("the rates are being computed")?;
    /// let error = HttpStatus::check(reqwest::Response::from(busy)).await.unwrap_err();
    /// assert_eq!((error.status().as_u16(), error.body()), (503, "the rates are being computed"));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(feature = "reqwest", feature = "reqwest-0-12"))]
    pub async fn check<R: Response>(mut response: R) -> Result<R, Self> {
        let status = response.status();
        if !status.is_client_error() && !status.is_server_error() {
            return Ok(response);
        }
        let error = Self::of(status, response.headers());
        let mut body = Vec::new();
        while body.len() < BODY_MAX
            && let Some(chunk) = response.chunk().await
        {
            body.extend_from_slice(chunk.as_ref());
        }
        Err(error.with_body(&body))
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The server's retry hint, if there is one.
    pub fn retry_after(&self) -> Option<RetryHint> {
        self.retry_after
    }

    pub(crate) fn verdict(&self) -> Verdict {
        of_status(self.status.as_u16()).with_hint(self.retry_after)
    }

    /// The first 8 KiB of the response's body, decoded as lossy UTF-8.
    pub fn body(&self) -> &str {
        &self.body
    }
}

#[cfg(any(feature = "reqwest", feature = "reqwest-0-12"))]
/// A response that [`HttpStatus::check`] accepts: one of reqwest 0.13 (feature
/// `reqwest`) or 0.12 (feature `reqwest-0-12`).
pub trait Response: sealed::Sealed + Send {
    #[doc(hidden)]
    fn status(&self) -> StatusCode;

    #[doc(hidden)]
    fn headers(&self) -> &HeaderMap;

    /// The next bytes of the body, or `None` at its end and after an error.
    #[doc(hidden)]
    fn chunk(&mut self) -> impl Future<Output = Option<impl AsRef<[u8]> + Send>> + Send;
}

#[cfg(any(feature = "reqwest", feature = "reqwest-0-12"))]
mod sealed {
    pub trait Sealed {}
}

#[cfg(any(feature = "reqwest", feature = "reqwest-0-12"))]
macro_rules! response {
    ($($feature:literal $response:ty;)*) => {$(
        #[cfg(feature = $feature)]
        impl sealed::Sealed for $response {}

        #[cfg(feature = $feature)]
        impl Response for $response {
            fn status(&self) -> StatusCode {
                self.status()
            }

            fn headers(&self) -> &HeaderMap {
                self.headers()
            }

            async fn chunk(&mut self) -> Option<impl AsRef<[u8]> + Send> {
                self.chunk().await.ok().flatten()
            }
        }
    )*};
}

#[cfg(any(feature = "reqwest", feature = "reqwest-0-12"))]
response! {
    "reqwest" reqwest::Response;
    "reqwest-0-12" reqwest_0_12::Response;
}

/// The part of the error message after the status: the start of the body, on one line.
fn body_excerpt(body: &str) -> String {
    let words = body.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.as_str() {
        "" => line,
        _ if line.len() <= EXCERPT_MAX => format!(": {line}"),
        _ => format!(": {}…", &line[..line.floor_char_boundary(EXCERPT_MAX)]),
    }
}

pub(super) fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    error.downcast_ref().map(|error: &HttpStatus| Opinion::Certain(error.verdict()))
}

pub(super) fn of_status(status: u16) -> Verdict {
    match status {
        // 520 to 524 are Cloudflare's: 522 and 524 are timeouts, 521 and 523 mean that it cannot reach the server.
        429 | 509 | 529 => Verdict::retry(Kind::Throttled),
        408 | 504 | 522 | 524 => Verdict::retry(Kind::TimedOut),
        409 | 500 | 502 | 520 => Verdict::retry(Kind::InDoubt),
        425 | 503 | 521 | 523 => Verdict::retry(Kind::Unavailable),
        400..500 => Verdict::Never,
        _ => Verdict::NoOpinion,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transient::judge;

    #[test]
    fn each_status_has_its_verdict() {
        for (statuses, verdict) in [
            (&[429, 509, 529][..], Verdict::retry(Kind::Throttled)),
            (&[408, 504, 522, 524], Verdict::retry(Kind::TimedOut)),
            (&[409, 500, 502, 520], Verdict::retry(Kind::InDoubt)),
            (&[425, 503, 521, 523], Verdict::retry(Kind::Unavailable)),
            (&[400, 401, 402, 403, 404, 405, 410, 413, 422, 424, 426, 451, 499], Verdict::Never),
            (&[200, 301, 304, 501, 505, 511, 519, 525, 600, 999], Verdict::NoOpinion),
        ] {
            for status in statuses {
                let status = StatusCode::from_u16(*status).unwrap();
                assert_eq!(judge(&HttpStatus::of(status, &HeaderMap::new())), verdict, "{status}");
            }
        }
    }

    #[test]
    fn its_message_has_the_status_and_the_start_of_the_body_on_one_line() {
        let long = "ü".repeat(BODY_MAX);
        for (body, excerpt) in [
            ("", String::new()),
            (" \r\n", String::new()),
            (
                "{\n  \"error\": \"card declined\"\n}\n",
                r#": { "error": "card declined" }"#.to_owned(),
            ),
            ("a\0b\u{7f}c\u{2028}d", ": a b c d".to_owned()),
            (&long[..EXCERPT_MAX], format!(": {}", &long[..EXCERPT_MAX])),
            (&long, format!(": {}…", &long[..EXCERPT_MAX])),
        ] {
            let error = HttpStatus::of(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new());
            let error = error.with_body(body.as_bytes());
            let expected = format!("the response has the status 503 Service Unavailable{excerpt}");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn the_start_of_any_body_is_kept() {
        let status = || HttpStatus::of(StatusCode::BAD_GATEWAY, &HeaderMap::new());
        assert_eq!(status().with_body(&[b'x'; BODY_MAX + 1]).body(), "x".repeat(BODY_MAX));
        assert_eq!(status().with_body(b"a\xffb").body(), "a\u{fffd}b");
    }
}
