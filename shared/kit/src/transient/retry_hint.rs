//! Retry hints of servers, such as the header `Retry-After`.

use std::time::Duration;

use comeback_core::{Timestamp, time::between};

/// A server's retry hint, which says when to send the request again.
///
/// A call honours it if the policy's [maximum](crate::retry::Policy::max) and the deadline allow it. Otherwise the
/// call ends at once, because the server would refuse an earlier attempt. The error,
/// [`Stopped`](crate::retry::Stopped), contains the full hint, and the retry loop honours it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RetryHint {
    /// Retry after this time, counted from the response.
    In(Duration),
    /// Retry at this time.
    At(Timestamp),
}

impl RetryHint {
    /// Parses the value of a `Retry-After` header: whole seconds, or an HTTP date.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.parse() {
            Ok(seconds) => Some(Self::In(Duration::from_secs(seconds))),
            Err(_) => httpdate::parse_http_date(text).ok().map(|at| Self::At(at.into())),
        }
    }

    /// How long to wait from `now`, or zero if the time has passed.
    pub fn wait(self, now: Timestamp) -> Duration {
        match self {
            Self::In(wait) => wait,
            Self::At(at) => between(now, at),
        }
    }

    /// Reads the hint from response headers: AWS's own header, in milliseconds, or else `Retry-After`.
    pub(super) fn among<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Self> {
        let millis = header("x-amz-retry-after").and_then(|text| text.trim().parse().ok());
        millis
            .map(|millis| Self::In(Duration::from_millis(millis)))
            .or_else(|| header("retry-after").and_then(Self::parse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_whole_seconds_or_a_date() {
        let at = |text: &str| Some(RetryHint::At(text.parse().unwrap()));
        let seconds = |seconds| Some(RetryHint::In(Duration::from_secs(seconds)));
        for (text, expected) in [
            ("0", seconds(0)),
            ("120", seconds(120)),
            (" 3 ", seconds(3)),
            ("18446744073709551615", seconds(u64::MAX)),
            ("18446744073709551616", None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", at("1999-12-31T23:59:59Z")),
            ("2026-01-01T00:00:00Z", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(RetryHint::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_date_in_the_past_is_not_waited_for() {
        let now: Timestamp = "1999-12-31T23:59:50Z".parse().unwrap();
        let hint = RetryHint::parse("Fri, 31 Dec 1999 23:59:59 GMT").unwrap();
        assert_eq!(hint.wait(now), Duration::from_secs(9));
        assert_eq!(hint.wait("2000-01-01T00:00:00Z".parse().unwrap()), Duration::ZERO);
    }
}
