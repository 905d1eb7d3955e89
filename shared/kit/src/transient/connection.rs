//! Judges connection errors and timeouts.

use std::{
    error::Error,
    io::{self, ErrorKind},
};

use super::{
    Kind, Verdict,
    standard::Opinion::{self, Certain, UnlessCauseKnown},
};

/// On Unix, a read that times out returns `WouldBlock`.
const TIMED_OUT: &[ErrorKind] = &[ErrorKind::TimedOut, ErrorKind::WouldBlock];

/// An open connection broke, so the operation may have been done.
const IN_DOUBT: &[ErrorKind] = &[
    ErrorKind::BrokenPipe,
    ErrorKind::ConnectionAborted,
    ErrorKind::ConnectionReset,
    ErrorKind::Interrupted,
    ErrorKind::UnexpectedEof,
];

const UNAVAILABLE: &[ErrorKind] = &[
    ErrorKind::ConnectionRefused,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkDown,
    ErrorKind::NetworkUnreachable,
    ErrorKind::NotConnected,
];

/// rustls reports a bad certificate as `InvalidData`.
const NEVER: &[ErrorKind] = &[
    ErrorKind::InvalidData,
    ErrorKind::InvalidInput,
    ErrorKind::PermissionDenied,
    ErrorKind::Unsupported,
];

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
    if TIMED_OUT.contains(&kind) {
        Some(Certain(Verdict::retry(Kind::TimedOut)))
    } else if IN_DOUBT.contains(&kind) {
        Some(UnlessCauseKnown(Verdict::retry(Kind::InDoubt)))
    } else if UNAVAILABLE.contains(&kind) {
        Some(UnlessCauseKnown(Verdict::retry(Kind::Unavailable)))
    } else {
        NEVER.contains(&kind).then_some(UnlessCauseKnown(Verdict::Never))
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transient::judge;

    #[tokio::test]
    async fn an_unknown_host_name_is_transient() {
        // The resolver rejects a name with an empty label without asking a server.
        let error = tokio::net::lookup_host("no..name:443").await.map(drop).unwrap_err();
        assert_eq!(judge(&error), Verdict::retry(Kind::Unavailable), "{error:?}");
    }

    #[test]
    fn each_io_error_kind_has_its_verdict() {
        for (kind, verdict) in [
            (ErrorKind::TimedOut, Verdict::retry(Kind::TimedOut)),
            (ErrorKind::WouldBlock, Verdict::retry(Kind::TimedOut)),
            (ErrorKind::BrokenPipe, Verdict::retry(Kind::InDoubt)),
            (ErrorKind::ConnectionAborted, Verdict::retry(Kind::InDoubt)),
            (ErrorKind::ConnectionReset, Verdict::retry(Kind::InDoubt)),
            (ErrorKind::UnexpectedEof, Verdict::retry(Kind::InDoubt)),
            (ErrorKind::Interrupted, Verdict::retry(Kind::InDoubt)),
            (ErrorKind::ConnectionRefused, Verdict::retry(Kind::Unavailable)),
            (ErrorKind::HostUnreachable, Verdict::retry(Kind::Unavailable)),
            (ErrorKind::NetworkUnreachable, Verdict::retry(Kind::Unavailable)),
            (ErrorKind::InvalidData, Verdict::Never),
            (ErrorKind::InvalidInput, Verdict::Never),
            (ErrorKind::PermissionDenied, Verdict::Never),
            (ErrorKind::Unsupported, Verdict::Never),
            (ErrorKind::NotFound, Verdict::NoOpinion),
            (ErrorKind::Other, Verdict::NoOpinion),
        ] {
            assert_eq!(judge(&io::Error::from(kind)), verdict, "{kind}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_elapsed_time_limit_is_a_timeout() {
        let never = std::future::pending::<()>();
        let error = tokio::time::timeout(Duration::from_secs(3), never).await.unwrap_err();
        assert_eq!(judge(&error), Verdict::retry(Kind::TimedOut));
    }
}
