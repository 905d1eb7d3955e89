//! The opinion of a rule on one link in an error's chain of causes.

use super::Verdict;

/// The opinion of a rule on one link in an error's chain of causes.
pub(super) enum Opinion {
    /// This verdict, whatever the cause is.
    Certain(Verdict),
    /// This verdict if the cause is not known.
    UnlessItsCauseSays(Verdict),
    /// A conclusion from the verdict on the cause.
    #[cfg(feature = "hyper")]
    FromItsCause(fn(Verdict) -> Verdict),
}
