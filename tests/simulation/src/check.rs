//! What must hold in every world.

use std::fmt;

use clap::ValueEnum;

/// One rule, which the judge checks. Its comment is what a failure prints.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Check {
    /// Everything settles in bounded time once faults have stopped.
    Settles,
    /// Each event ends exactly once, and once more for each counted fork of its chain.
    EndsOneWay,
    /// A failure is re-invoked or dead-lettered once, unless there is a counted cause for a repetition.
    OncePerFailure,
    /// A dead letter has the right reason.
    RightReason,
    /// A dead letter has the original bytes.
    OriginalBytes,
    /// The attributes of a dead letter state the facts.
    LetterTells,
    /// No attempt is made before its due time.
    NotBeforeDue,
    /// No attempt is made after the age is over.
    NotAfterAge,
    /// An attempt is made when it is due, if nothing prevents it.
    OnTime,
    /// Attempt numbers rise by one.
    AttemptsRise,
    /// The envelope is the one of the contract, around the original bytes.
    Envelope,
    /// The function that failed is invoked, with the trace of its failure.
    RightTarget,
    /// An event that is to be given up is not invoked.
    OverIsOver,
    /// Every backoff is within its range.
    BackoffInRange,
    /// Every receive of a failure computes the same due time.
    SameDraw,
    /// A wait brings its message back at its due time, and SQS accepts its length.
    WaitsUntilDue,
    /// After a fault an invocation waits for as long as the fault requires.
    FaultWaits,
    /// A message is reported as done if and only if it is done.
    ReportsTruly,
    /// A handler answers before its deadline.
    AnswersInTime,
    /// A dead-letter queue contains only what handlers have sent there.
    NothingUnexplained,
    /// A call has at most ten entries, and together they are no larger than one message may be.
    CallsFit,
    /// With a ledger, a failure is claimed before it is invoked or given up.
    ClaimsFirst,
    /// A claim holds until its holder has ended, and nobody takes it over before.
    ClaimsHold,
    /// Only its holder marks or releases a claim.
    ClaimsFence,
    /// A claim is marked once its holder has acted, and released once its holder will not act.
    MarksAfterActing,
    /// Only what was acted on is dropped as a duplicate.
    DropsOnlyTheDone,
    /// A message on which another handler acts waits until that handler has ended.
    WaitsForHolder,
    /// Draws are spread evenly over their range, over all worlds.
    DrawsSpread,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        let sentence = value.as_ref().and_then(|value| value.get_help()).map(ToString::to_string);
        write!(f, "{self:?}: {}", sentence.unwrap_or_default())
    }
}

/// A rule that did not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub check: Check,
    /// The event that it is about, if it is about one.
    pub event: Option<usize>,
    /// What was expected, and what was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.check, self.what)
    }
}
