//! Errors that declare whether they are transient: this crate's own, and a store's.

use std::error::Error;

use comeback_core::fault::StoreFault;

use super::{Kind, RetryHint, Transient, Verdict, opinion::Opinion};
use crate::directive::Directive;

pub(super) fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    let transient = Transient::new(Kind::Unavailable);
    let verdict = match Directive::of(error) {
        Some(Directive::Never) => Verdict::Never,
        Some(Directive::After(wait)) => Verdict::Retry(transient.with_hint(RetryHint::In(wait))),
        None if error.downcast_ref::<StoreFault>()?.passes => Verdict::Retry(transient),
        None => Verdict::Never,
    };
    Some(Opinion::Certain(verdict))
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;
    use crate::{PermanentFailure, RetryAfter, transient::judge};

    #[test]
    fn the_errors_for_the_retry_loop_mean_the_same_inside_a_function() {
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
