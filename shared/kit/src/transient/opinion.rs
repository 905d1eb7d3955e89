//! What a rule says about one link in an error's chain of causes.

use super::Verdict;

/// The opinion of a rule on one link in an error's chain of causes.
pub(super) enum Opinion {
    /// This verdict, regardless of the cause.
    Certain(Verdict),
    /// This verdict, unless the rules know the cause.
    UnlessCauseKnown(Verdict),
    /// The verdict that this function derives from the verdict on the cause.
    #[cfg(feature = "hyper")]
    FromCause(fn(Verdict) -> Verdict),
}
