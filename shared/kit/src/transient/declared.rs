//! Errors that say themselves whether they are transient.

use std::error::Error;

use comeback_core::fault::StoreFault;

use super::{Kind, RetryHint, Verdict, opinion::Opinion};
use crate::ask::Ask;

pub(super) fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    let verdict = Ask::by(error).map(of_ask);
    let verdict = verdict.or_else(|| error.downcast_ref().map(of_store_fault))?;
    Some(Opinion::Certain(verdict))
}

/// The verdict on a `PermanentFailure` or a `RetryAfter`.
fn of_ask(ask: Ask) -> Verdict {
    match ask {
        Ask::Never => Verdict::Never,
        Ask::After(wait) => Verdict::retry(Kind::Unavailable).with_hint(Some(RetryHint::In(wait))),
    }
}

fn of_store_fault(fault: &StoreFault) -> Verdict {
    if fault.passes { Verdict::retry(Kind::Unavailable) } else { Verdict::Never }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;
    use crate::{PermanentFailure, RetryAfter, transient::judge};

    #[test]
    fn the_retry_loops_own_errors_have_the_same_meaning_here() {
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(judge(&PermanentFailure::new(reset())), Verdict::Never);
        let hint = Some(RetryHint::In(Duration::from_secs(90)));
        let busy = RetryAfter::new(Duration::from_millis(89_001), "the upstream says 429");
        let verdict = Verdict::retry(Kind::Unavailable).with_hint(hint);
        assert_eq!(judge(&busy), verdict);
        assert_eq!(judge(&io::Error::other(busy)), verdict, "anywhere in the chain");
    }

    #[test]
    fn a_store_fault_says_whether_it_passes() {
        let fault = |passes| StoreFault { passes, code: None, message: "connection reset".into() };
        assert_eq!(judge(&fault(true)), Verdict::retry(Kind::Unavailable));
        assert_eq!(judge(&fault(false)), Verdict::Never);
    }
}
