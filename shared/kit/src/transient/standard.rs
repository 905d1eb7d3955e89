//! The general rule: walks an error's chain of causes, and judges the types that it knows.
//!
//! If the verdict on an outer error is certain, it decides. But most wrappers only report that a connection
//! failed. Then the innermost known cause decides: a certificate that rustls rejects is permanent, but a DNS
//! failure is transient. (native-tls reports a bad certificate like any failed connection.)

use std::{error::Error, io};

use comeback_core::fault::StoreFault;

#[cfg(feature = "aws")]
use super::aws;
use super::{Kind, Opinion, RetryHint, Rule, Transient, Verdict, connection, http_status};
use crate::{failure::Directive, retry::Cause};

/// The rules for single links. Each knows certain types.
const KNOWN: &[fn(&(dyn Error + 'static)) -> Option<Opinion>] = &[
    declared,
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
    connection::of_format,
];

/// The opinion on errors that declare whether they are transient: this crate's own, and a store's.
fn declared(error: &(dyn Error + 'static)) -> Option<Opinion> {
    let transient = Transient::new(Kind::Unavailable);
    let verdict = match Directive::of(error) {
        Some(Directive::Never) => Verdict::Never,
        Some(Directive::After(wait)) => Verdict::Retry(transient.with_hint(RetryHint::In(wait))),
        None if error.downcast_ref::<StoreFault>()?.is_transient => Verdict::Retry(transient),
        None => Verdict::Never,
    };
    Some(Opinion::Certain(verdict))
}

/// The rule for every [`Error`]; see [`judge`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Standard;

impl<E: Error + 'static> Rule<E> for Standard {
    fn judge(&self, error: &E) -> Verdict {
        judge(error)
    }
}

/// [`Standard`] for types that contain an [`Error`]: `lambda_runtime::Error`, which is a `Box<dyn Error + Send +
/// Sync>`, and `anyhow::Error`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Boxed;

impl<E: AsRef<dyn Error + Send + Sync>> Rule<E> for Boxed {
    fn judge(&self, error: &E) -> Verdict {
        judge(error.as_ref())
    }
}

/// Judges an error by the known types in its chain of causes. This is the rule of [`Standard`] and [`Boxed`].
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
    use std::{io::ErrorKind, time::Duration};

    use super::*;
    use crate::{PermanentFailure, RetryAfter, failure::BoxError};

    /// A wrapper whose type is unknown to the rules.
    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] BoxError);

    fn wrapped(error: impl Into<BoxError>) -> Wrapped {
        Wrapped(error.into())
    }

    #[test]
    fn the_errors_for_the_retry_loop_mean_the_same_inside_a_function() {
        let reset = || io::Error::from(ErrorKind::ConnectionReset);
        assert_eq!(judge(&PermanentFailure::new(reset())), Verdict::Never);
        let hint = Some(RetryHint::In(Duration::from_secs(90)));
        let busy = RetryAfter::new(Duration::from_millis(89_001), "the upstream says 429");
        let verdict = Verdict::retry(Kind::Unavailable).with_hint(hint);
        assert_eq!(judge(&io::Error::other(busy)), verdict, "anywhere in the chain");
    }

    #[test]
    fn a_store_fault_says_whether_it_passes() {
        let fault = |is_transient| StoreFault {
            is_transient,
            code: None,
            message: "connection reset".into(),
        };
        assert_eq!(judge(&fault(true)), Verdict::retry(Kind::Unavailable));
        assert_eq!(judge(&fault(false)), Verdict::Never);
    }

    #[test]
    fn the_innermost_known_cause_decides_at_any_depth_unless_a_wrapper_is_certain() {
        use ErrorKind::{
            BrokenPipe, ConnectionAborted, InvalidData, InvalidInput, Other, TimedOut,
        };

        let (timed_out, in_doubt) = (Verdict::retry(Kind::TimedOut), Verdict::retry(Kind::InDoubt));
        for (kind, verdict) in [
            (TimedOut, timed_out),
            (BrokenPipe, in_doubt),
            (InvalidInput, Verdict::Never),
            (Other, Verdict::NoOpinion),
        ] {
            assert_eq!(judge(&wrapped(wrapped(io::Error::from(kind)))), verdict, "{kind}");
            let carried = io::Error::other(wrapped(io::Error::other(io::Error::from(kind))));
            assert_eq!(judge(&carried), verdict, "carried: {kind}");
        }
        let format = || "twelve".parse::<u32>().unwrap_err();
        for (error, verdict) in [
            (wrapped("some text"), Verdict::NoOpinion),
            (wrapped(io::Error::new(ConnectionAborted, format())), Verdict::Never),
            (wrapped(io::Error::new(InvalidData, io::Error::from(ConnectionAborted))), in_doubt),
            (wrapped(io::Error::new(ConnectionAborted, wrapped("some text"))), in_doubt),
            (wrapped(io::Error::new(TimedOut, io::Error::other("some text"))), timed_out),
            (wrapped(io::Error::new(TimedOut, format())), timed_out),
        ] {
            assert_eq!(judge(&error), verdict, "{error:?}");
        }
    }
}
