//! The general rule: walks an error's chain of causes, and judges the types that it knows.
//!
//! If the verdict on an outer error is certain, it decides. But most wrappers only report that a connection
//! failed. Then the innermost known cause decides: a certificate that rustls rejects is permanent, but a DNS
//! failure is transient. (native-tls reports a bad certificate like any failed connection.)

use std::{error::Error, io};

#[cfg(feature = "aws")]
use super::aws;
use super::{Rule, Verdict, connection, declared, format, http_status, opinion::Opinion};
use crate::cause::Cause;

/// The rules for single links. Each knows certain types.
const KNOWN: &[fn(&(dyn Error + 'static)) -> Option<Opinion>] = &[
    declared::opinion,
    http_status::opinion,
    #[cfg(feature = "reqwest")]
    connection::of_reqwest,
    #[cfg(feature = "reqwest-0-12")]
    connection::of_reqwest_0_12,
    #[cfg(feature = "hyper")]
    connection::of_hyper,
    connection::of_io,
    connection::of_time,
    #[cfg(feature = "aws")]
    aws::opinion,
    format::opinion,
];

/// The rule for every [`Error`]; see [`judge`].
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use comeback::transient::{Kind, Rule, Standard, Verdict};
///
/// let timed_out = Error::from(ErrorKind::TimedOut);
/// assert_eq!(Standard.judge(&timed_out), Verdict::retry(Kind::TimedOut));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Standard;

impl<E: Error + 'static> Rule<E> for Standard {
    fn judge(&self, error: &E) -> Verdict {
        judge(error)
    }
}

/// [`Standard`] for types that contain an [`Error`]: `lambda_runtime::Error`, which is a `Box<dyn Error + Send +
/// Sync>`, and `anyhow::Error`.
///
/// ```
/// use comeback::transient::{Boxed, Rule, Verdict};
///
/// let error: lambda_runtime::Error = "twelve".parse::<u32>().unwrap_err().into();
/// assert_eq!(Boxed.judge(&error), Verdict::Never);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Boxed;

impl<E: AsRef<dyn Error + Send + Sync>> Rule<E> for Boxed {
    fn judge(&self, error: &E) -> Verdict {
        judge(error.as_ref())
    }
}

/// Judges an error by the known types in its chain of causes. This is the rule of [`Standard`] and [`Boxed`].
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use comeback::transient::{Kind, Verdict, judge};
///
/// let refused = Error::from(ErrorKind::ConnectionRefused);
/// assert_eq!(judge(&refused), Verdict::retry(Kind::Unavailable));
/// ```
pub fn judge(error: &(dyn Error + 'static)) -> Verdict {
    let mut verdict = Verdict::NoOpinion;
    let mut link = Some(error);
    while let Some(error) = link {
        match KNOWN.iter().find_map(|knows| knows(error)) {
            Some(Opinion::Certain(certain)) => return certain,
            Some(Opinion::UnlessCauseKnown(default)) => verdict = default,
            #[cfg(feature = "hyper")]
            Some(Opinion::FromCause(conclude)) => {
                return conclude(cause(error).map_or(Verdict::NoOpinion, judge));
            }
            None => {}
        }
        link = cause(error);
    }
    verdict
}

/// Whether an operation may have been done despite this error: a timeout, a broken connection, an unreadable
/// response, or a status such as 500 or 409. Unknown errors count as not done.
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use comeback::transient::may_be_done;
///
/// assert!(may_be_done(&Error::from(ErrorKind::ConnectionReset)));
/// assert!(!may_be_done(&Error::from(ErrorKind::ConnectionRefused)));
/// ```
pub fn may_be_done<E: Cause<Form>, Form>(error: &E) -> bool {
    judge(error.as_error()).transient().is_some_and(|transient| transient.kind.may_be_done())
}

fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    // `io::Error::source` skips the error that it contains, and returns that error's source.
    let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    carried.map(|carried| carried as _).or_else(|| error.source())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::{directive::BoxError, transient::Kind};

    /// A wrapper whose type is unknown to the rules.
    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] BoxError);

    fn wrapped(error: impl Into<BoxError>) -> Wrapped {
        Wrapped(error.into())
    }

    #[test]
    fn a_cause_is_found_at_any_depth() {
        for (kind, verdict) in [
            (ErrorKind::TimedOut, Verdict::retry(Kind::TimedOut)),
            (ErrorKind::BrokenPipe, Verdict::retry(Kind::InDoubt)),
            (ErrorKind::InvalidInput, Verdict::Never),
            (ErrorKind::Other, Verdict::NoOpinion),
        ] {
            assert_eq!(judge(&wrapped(wrapped(io::Error::from(kind)))), verdict, "{kind}");
            let carried = io::Error::other(wrapped(io::Error::other(io::Error::from(kind))));
            assert_eq!(judge(&carried), verdict, "carried: {kind}");
        }
        assert_eq!(judge(&wrapped("some text")), Verdict::NoOpinion);
    }

    #[test]
    fn the_innermost_known_cause_decides() {
        let format = "twelve".parse::<u32>().unwrap_err();
        let refused = io::Error::new(ErrorKind::ConnectionAborted, format);
        assert_eq!(judge(&refused), Verdict::Never);
        let aborted = io::Error::from(ErrorKind::ConnectionAborted);
        let invalid = io::Error::new(ErrorKind::InvalidData, wrapped(aborted));
        assert_eq!(judge(&invalid), Verdict::retry(Kind::InDoubt));
        let unknown = io::Error::new(ErrorKind::ConnectionAborted, wrapped("some text"));
        assert_eq!(judge(&unknown), Verdict::retry(Kind::InDoubt));
    }

    #[test]
    fn a_certain_wrapper_decides() {
        let timed_out = io::Error::new(ErrorKind::TimedOut, io::Error::other("some text"));
        let certain = io::Error::new(ErrorKind::TimedOut, "x".parse::<u32>().unwrap_err());
        for error in [timed_out, certain] {
            assert_eq!(judge(&wrapped(error)), Verdict::retry(Kind::TimedOut));
        }
    }

    #[test]
    fn a_box_does_not_change_the_verdict() {
        let error = BoxError::from(wrapped(io::Error::from(ErrorKind::TimedOut)));
        assert_eq!(Boxed.judge(&error), Verdict::retry(Kind::TimedOut));
    }
}
