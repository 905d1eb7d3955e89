//! Judges the errors of connections, timeouts and formats.

use std::{
    char,
    error::Error,
    io::{self, ErrorKind},
    net, num, str, string,
};

use super::{
    Kind,
    Opinion::{self, Certain, UnlessCauseKnown},
    Verdict,
};

/// The message of a DNS failure. The standard library has neither an error kind nor a type for it.
const NOT_FOUND: &str = "failed to lookup address information";

pub(super) fn of_io(error: &(dyn Error + 'static)) -> Option<Opinion> {
    let error = error.downcast_ref::<io::Error>()?;
    if error.to_string().starts_with(NOT_FOUND) {
        return Some(UnlessCauseKnown(Verdict::retry(Kind::Unavailable)));
    }
    of_kind(error.kind())
}

pub(super) fn of_kind(kind: ErrorKind) -> Option<Opinion> {
    use ErrorKind::*;

    // On Unix, a read that times out returns `WouldBlock`.
    if matches!(kind, TimedOut | WouldBlock) {
        return Some(Certain(Verdict::retry(Kind::TimedOut)));
    }
    let verdict = if matches!(
        kind,
        BrokenPipe | ConnectionAborted | ConnectionReset | Interrupted | UnexpectedEof
    ) {
        // An open connection broke, so the operation may have been done.
        Verdict::retry(Kind::InDoubt)
    } else if matches!(
        kind,
        ConnectionRefused | HostUnreachable | NetworkDown | NetworkUnreachable | NotConnected
    ) {
        Verdict::retry(Kind::Unavailable)
    } else if matches!(kind, InvalidData | InvalidInput | PermissionDenied | Unsupported) {
        // rustls reports a bad certificate as `InvalidData`.
        Verdict::Never
    } else {
        return None;
    };
    Some(UnlessCauseKnown(verdict))
}

pub(super) fn of_time(error: &(dyn Error + 'static)) -> Option<Opinion> {
    let elapsed = error.is::<tokio::time::error::Elapsed>();
    elapsed.then_some(Certain(Verdict::retry(Kind::TimedOut)))
}

#[cfg(feature = "hyper")]
pub(super) fn of_hyper(error: &(dyn Error + 'static)) -> Option<Opinion> {
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        return error.is_connect().then_some(Opinion::FromCause(unconnected));
    }
    let error = error.downcast_ref::<hyper::Error>()?;
    Some(if error.is_timeout() {
        Certain(Verdict::retry(Kind::TimedOut))
    } else if error.is_user() || error.is_parse() {
        UnlessCauseKnown(Verdict::Never)
    } else {
        // All other errors of hyper happen on an open connection.
        Opinion::FromCause(unanswered)
    })
}

/// The verdict if there was no connection. No request was sent, so the error is transient unless its cause is
/// permanent.
#[cfg(feature = "hyper")]
fn unconnected(cause: Verdict) -> Verdict {
    match cause {
        Verdict::Never => Verdict::Never,
        Verdict::Retry(_) | Verdict::NoOpinion => Verdict::retry(Kind::Unavailable),
    }
}

/// The verdict if a request was sent, but there is no readable response. The operation may have been done, even if
/// the cause is a format error.
#[cfg(feature = "hyper")]
fn unanswered(cause: Verdict) -> Verdict {
    let timed_out = Verdict::retry(Kind::TimedOut);
    if cause == timed_out { timed_out } else { Verdict::retry(Kind::InDoubt) }
}

/// Defines a function for each version of reqwest, because their types differ.
macro_rules! of_reqwest {
    ($($feature:literal $name:ident($error:ty);)*) => {$(
        #[cfg(feature = $feature)]
        pub(super) fn $name(error: &(dyn Error + 'static)) -> Option<Opinion> {
            let error = error.downcast_ref::<$error>()?;
            if let Some(status) = error.status() {
                return Some(Certain(super::http_status::of_status(status.as_u16())));
            }
            if error.is_connect() {
                return None; // The cause is an error of hyper, which is judged next.
            }
            Some(if error.is_timeout() {
                Certain(Verdict::retry(Kind::TimedOut))
            } else if error.is_decode() || error.is_body() {
                Opinion::FromCause(unanswered)
            } else {
                // If an open connection failed, the cause is an error of hyper. All others are requests that
                // cannot be built, and too many redirects.
                UnlessCauseKnown(Verdict::Never)
            })
        }
    )*};
}

of_reqwest! {
    "reqwest" of_reqwest(reqwest::Error);
    "reqwest-0-12" of_reqwest_0_12(reqwest_0_12::Error);
}

const PERMANENT: Option<Opinion> = Some(Certain(Verdict::Never));

/// Format errors, which no retry can fix.
pub(super) fn of_format(error: &(dyn Error + 'static)) -> Option<Opinion> {
    if let Some(error) = error.downcast_ref::<serde_json::Error>() {
        // The reader may have failed. Then the error has the reader's error kind, but not its error.
        return error.io_error_kind().map_or(PERMANENT, of_kind);
    }
    let format = error.is::<str::Utf8Error>()
        || error.is::<string::FromUtf8Error>()
        || error.is::<string::FromUtf16Error>()
        || error.is::<str::ParseBoolError>()
        || error.is::<num::ParseIntError>()
        || error.is::<num::ParseFloatError>()
        || error.is::<num::TryFromIntError>()
        || error.is::<char::ParseCharError>()
        || error.is::<char::CharTryFromError>()
        || error.is::<net::AddrParseError>()
        || error.is::<http::Error>()
        || error.is::<http::uri::InvalidUri>()
        || error.is::<http::header::InvalidHeaderName>()
        || error.is::<http::header::InvalidHeaderValue>()
        || error.is::<http::header::ToStrError>();
    if format { PERMANENT } else { None }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transient::judge;

    #[tokio::test(start_paused = true)]
    async fn an_elapsed_time_limit_is_a_timeout() {
        let never = std::future::pending::<()>();
        let error = tokio::time::timeout(Duration::from_secs(3), never).await.unwrap_err();
        assert_eq!(judge(&error), Verdict::retry(Kind::TimedOut));
    }

    #[test]
    fn validation_and_format_errors_are_never_retried() {
        let errors: [Box<dyn Error>; 6] = [
            Box::new(serde_json::from_str::<u32>("[1").unwrap_err()),
            Box::new(String::from_utf8(vec![0xff]).unwrap_err()),
            Box::new("twelve".parse::<f64>().unwrap_err()),
            Box::new(u8::try_from(256).unwrap_err()),
            Box::new("127.0.0".parse::<net::IpAddr>().unwrap_err()),
            Box::new(http::Request::builder().uri("a b").body(()).unwrap_err()),
        ];
        for error in errors {
            assert_eq!(judge(&*error), Verdict::Never, "{error:?}");
        }
    }

    #[test]
    fn json_from_a_broken_connection_has_the_verdict_of_the_connection() {
        struct Broken;

        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::ConnectionReset.into())
            }
        }

        let error = serde_json::from_reader::<_, u32>(Broken).unwrap_err();
        assert_eq!(judge(&error), Verdict::retry(Kind::InDoubt));
    }
}
