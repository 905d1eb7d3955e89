//! What is known of errors in general: an error's chain of causes is walked, and what is known there judged.
//!
//! The outermost link is the closest to the author, and a wrapper that is sure of what it says is believed.
//! Most wrappers only know that something about the connection failed; there the innermost cause that is
//! known counts: a certificate that is refused never passes, a name that is not found may.

use std::{error::Error, io};

use super::{Rule, Verdict};

/// The rule for every [`Error`]: what [`judge`] says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

impl<E: Error + 'static> Rule<E> for Standard {
    fn judge(&self, error: &E) -> Verdict {
        judge(error)
    }
}

/// The same rule for what is no [`Error`] itself but leads to one: `Box<dyn Error + Send + Sync>`, which is
/// `lambda_runtime::Error` too, and `anyhow::Error`.
///
/// ```
/// use comeback::transient::{Boxed, Rule, Verdict};
///
/// let error: lambda_runtime::Error = "twelve".parse::<u32>().unwrap_err().into();
/// assert_eq!(Boxed.judge(&error), Verdict::Never);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Boxed;

impl<E: AsRef<dyn Error + Send + Sync>> Rule<E> for Boxed {
    fn judge(&self, error: &E) -> Verdict {
        judge(error.as_ref())
    }
}

/// Judges an error by what is known along its chain of causes.
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use comeback::transient::{Kind, Transient, Verdict, judge};
///
/// let reset = Error::from(ErrorKind::ConnectionReset);
/// assert_eq!(judge(&reset), Verdict::Retry(Transient::new(Kind::Unavailable)));
/// ```
pub fn judge(error: &(dyn Error + 'static)) -> Verdict {
    let mut verdict = Verdict::NoOpinion;
    let mut link = Some(error);
    while let Some(error) = link {
        match opinion(error) {
            Some(Opinion::Certain(certain)) => return certain,
            Some(Opinion::UnlessItsCauseSays(otherwise)) => verdict = otherwise,
            None => {}
        }
        link = cause(error);
    }
    verdict
}

/// The next link of the chain.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    // `io::Error` names its cause's cause as its own.
    let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    carried.map(|carried| carried as _).or_else(|| error.source())
}

/// What one link of a chain says.
enum Opinion {
    /// Whatever its cause may be.
    Certain(Verdict),
    /// Where its cause is not known.
    UnlessItsCauseSays(Verdict),
}

fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    if error.is::<std::num::ParseIntError>() {
        return Some(Opinion::Certain(Verdict::Never));
    }
    let error = error.downcast_ref::<io::Error>()?;
    (error.kind() == io::ErrorKind::ConnectionReset).then_some(Opinion::UnlessItsCauseSays(
        Verdict::Retry(super::Transient::new(super::Kind::Unavailable)),
    ))
}
