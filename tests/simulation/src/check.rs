//! What must hold in every world.

use std::fmt;

use comeback_core::Timestamp;

/// One rule, held by the judge of a world.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Check {
    /// Everything settles in bounded time once faults have stopped.
    Settles,
    /// Each event ends exactly one way, and once more for each counted fork of its chain.
    EndsOneWay,
    /// A failure is re-invoked or dead-lettered once, but for a counted cause.
    OncePerFailure,
    /// A dead letter has the reason that is right.
    RightReason,
    /// A dead letter has the original bytes.
    OriginalBytes,
    /// A dead letter's attributes are the facts.
    LetterTells,
    /// No attempt is made before its due time.
    NotBeforeDue,
    /// No attempt is made after the age is over.
    NotAfterAge,
    /// An attempt is made when it is due, where nothing keeps it.
    OnTime,
    /// Attempt numbers rise by one.
    AttemptsRise,
    /// The envelope is the one of the contract, around the original bytes.
    Envelope,
    /// What is invoked is the function that failed, with the trace of its failure.
    RightTarget,
    /// Nothing is invoked whose event is over.
    OverIsOver,
    /// Every backoff is within its range.
    BackoffInRange,
    /// Every receive of a failure comes to the same due time.
    SameDraw,
    /// A wait brings its message back at its due time, and is one that SQS takes.
    WaitsUntilDue,
    /// After a fault an invocation waits as the fault asks.
    FaultWaits,
    /// What is reported as done is done, and what is done is reported so.
    ReportsTruly,
    /// A handler answers before its deadline.
    AnswersInTime,
    /// Nothing is in a dead-letter queue that no handler sent there.
    NothingUnexplained,
    /// A call has at most ten entries, and together they are no larger than one message may be.
    CallsFit,
    /// Nothing is invoked or given up before it is claimed, where there is a ledger.
    ClaimsFirst,
    /// A claim holds until its holder has ended, and nobody takes it over before.
    ClaimsHold,
    /// A claim is marked or released by its holder only.
    ClaimsFence,
    /// A claim is marked once its holder has acted, and released once it will not.
    MarksAfterActing,
    /// What is dropped as a duplicate was acted on.
    DropsOnlyTheDone,
    /// What another acts on waits until that one has ended.
    WaitsForHolder,
    /// Draws spread evenly over their range, over all worlds.
    DrawsSpread,
}

impl Check {
    /// The rule in a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Settles => "everything settles in bounded time once faults have stopped",
            Self::EndsOneWay => {
                "each event ends exactly one way, and once more for each counted fork of its chain"
            }
            Self::OncePerFailure => {
                "a failure is re-invoked or dead-lettered once, but for a counted cause"
            }
            Self::RightReason => "a dead letter has the reason that is right",
            Self::OriginalBytes => "a dead letter has the original bytes",
            Self::LetterTells => "a dead letter's attributes are the facts",
            Self::NotBeforeDue => "no attempt is made before its due time",
            Self::NotAfterAge => "no attempt is made after the age is over",
            Self::OnTime => "an attempt is made when it is due, where nothing keeps it",
            Self::AttemptsRise => "attempt numbers rise by one",
            Self::Envelope => "the envelope is the one of the contract, around the original bytes",
            Self::RightTarget => {
                "what is invoked is the function that failed, with the trace of its failure"
            }
            Self::OverIsOver => "nothing is invoked whose event is over",
            Self::BackoffInRange => "every backoff is within its range",
            Self::SameDraw => "every receive of a failure comes to the same due time",
            Self::WaitsUntilDue => {
                "a wait brings its message back at its due time, and is one that SQS takes"
            }
            Self::FaultWaits => "after a fault an invocation waits as the fault asks",
            Self::ReportsTruly => {
                "what is reported as done is done, and what is done is reported so"
            }
            Self::AnswersInTime => "a handler answers before its deadline",
            Self::NothingUnexplained => {
                "nothing is in a dead-letter queue that no handler sent there"
            }
            Self::CallsFit => {
                "a call has at most ten entries, together no larger than one message may be"
            }
            Self::ClaimsFirst => {
                "nothing is invoked or given up before it is claimed, where there is a ledger"
            }
            Self::ClaimsHold => {
                "a claim holds until its holder has ended, and nobody takes it over before"
            }
            Self::ClaimsFence => "a claim is marked or released by its holder only",
            Self::MarksAfterActing => {
                "a claim is marked once its holder has acted, and released once it will not"
            }
            Self::DropsOnlyTheDone => "what is dropped as a duplicate was acted on",
            Self::WaitsForHolder => "what another acts on waits until that one has ended",
            Self::DrawsSpread => "draws spread evenly over their range, over all worlds",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A rule that did not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub check: Check,
    /// When that came out.
    pub at: Timestamp,
    /// The event that it is about, if it is about one.
    pub event: Option<usize>,
    /// What was expected, and what was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  {}", self.check, self.check.sentence(), self.what)
    }
}
