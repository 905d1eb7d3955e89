//! What the status of a response says.

use std::error::Error;

use http::{HeaderMap, StatusCode};

use super::{Kind, RetryHint, Verdict, standard::Opinion};

/// A response that tells of a failure, as an error that keeps what a retry is to know of it.
///
/// | status | verdict |
/// |---|---|
/// | 429, 509 | retry: throttled |
/// | 408, 504 | retry: timed out |
/// | 500, 502, 503 | retry: unavailable |
/// | any other 4xx | never |
/// | the rest | no opinion |
///
/// ```
/// use std::time::Duration;
/// use comeback::transient::{HttpStatus, Kind, Rule, Standard, Transient, Verdict, RetryHint};
/// use http::{HeaderMap, HeaderValue, StatusCode};
///
/// let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, HeaderValue::from(3))]);
/// let error = HttpStatus::of(StatusCode::TOO_MANY_REQUESTS, &headers);
/// let hint = RetryHint::In(Duration::from_secs(3));
/// assert_eq!(error.status(), StatusCode::TOO_MANY_REQUESTS);
/// assert_eq!(error.retry_after(), Some(hint));
/// let throttled = Transient::new(Kind::Throttled).with_hint(hint);
/// assert_eq!(Standard.judge(&error), Verdict::Retry(throttled));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the response has the status {status}")]
pub struct HttpStatus {
    status: StatusCode,
    retry_after: Option<RetryHint>,
}

impl HttpStatus {
    /// Of a response with this status and these headers.
    pub fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let retry_after =
            RetryHint::among(|name| headers.get(name).and_then(|value| value.to_str().ok()));
        Self { status, retry_after }
    }

    /// Passes a response on, but one with a status of 4xx or 5xx. Unlike `error_for_status` it does not lose
    /// when the server wants to be asked again. With the feature `reqwest`.
    ///
    /// # Errors
    ///
    /// A status of 4xx or 5xx.
    ///
    /// ```
    /// use comeback::transient::HttpStatus;
    ///
    /// async fn rates(client: &reqwest::Client) -> Result<String, Box<dyn std::error::Error>> {
    ///     let response = client.get("https://api.example.com/rates").send().await?;
    ///     Ok(HttpStatus::check(response)?.text().await?)
    /// }
    ///
    /// # fn main() -> Result<(), http::Error> {
    /// let busy = http::Response::builder().status(503).body("")?;
    /// assert_eq!(HttpStatus::check(busy.into()).unwrap_err().status(), 503);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "reqwest")]
    pub fn check(response: reqwest::Response) -> Result<reqwest::Response, Self> {
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            return Err(Self::of(status, response.headers()));
        }
        Ok(response)
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// When the server wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<RetryHint> {
        self.retry_after
    }
}

pub(super) fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    let error = error.downcast_ref::<HttpStatus>()?;
    Some(Opinion::Certain(of_status(error.status.as_u16()).with_hint(error.retry_after)))
}

/// What a status says by itself.
pub(super) fn of_status(status: u16) -> Verdict {
    match status {
        429 | 509 => Verdict::retry(Kind::Throttled),
        408 | 504 => Verdict::retry(Kind::TimedOut),
        500 | 502 | 503 => Verdict::retry(Kind::Unavailable),
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
            (&[429, 509][..], Verdict::retry(Kind::Throttled)),
            (&[408, 504], Verdict::retry(Kind::TimedOut)),
            (&[500, 502, 503], Verdict::retry(Kind::Unavailable)),
            (&[400, 401, 403, 404, 405, 409, 410, 413, 422, 451, 499], Verdict::Never),
            (&[200, 301, 304, 501, 505, 511, 600, 999], Verdict::NoOpinion),
        ] {
            for status in statuses {
                let status = StatusCode::from_u16(*status).unwrap();
                assert_eq!(judge(&HttpStatus::of(status, &HeaderMap::new())), verdict, "{status}");
            }
        }
    }

    #[test]
    fn a_header_alone_makes_nothing_transient() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "1".parse().unwrap());
        let error = HttpStatus::of(StatusCode::FORBIDDEN, &headers);
        assert_eq!(judge(&error), Verdict::Never);
        assert!(error.retry_after().is_some());
    }

    #[test]
    fn a_header_that_is_no_text_is_no_hint() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", http::HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(HttpStatus::of(StatusCode::BAD_GATEWAY, &headers).retry_after(), None);
    }

    #[test]
    fn its_message_names_the_status() {
        let error = HttpStatus::of(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new());
        assert_eq!(error.to_string(), "the response has the status 503 Service Unavailable");
    }
}
