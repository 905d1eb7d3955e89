//! The promises. The judge shows each of them what happens before it is recorded, so that they see what handlers knew.
//! Each has a state of its own, if it needs one, and reads what is known.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a promise is about few of the things that happen"
)]

mod acts_in_time;
mod attempts;
mod awaits;
mod brings;
mod claims_end;
mod closes;
mod ends;
mod explained;
mod few_calls;
mod fits;
mod leaves_nothing;
mod letters;
mod lists;
mod on_time;
mod once;
mod orders;
mod pauses;
mod points;
mod probes;
mod reads_few;
mod recalls;
mod refused;
mod reports;
mod stores_little;
mod suspects;
mod turns;
mod waits;
mod why;

use std::fmt;

use clap::ValueEnum;

pub use self::{
    letters::{addressee, attribute},
    why::why,
};
use super::{happens::Happens, known::Known};

/// Whether a promise is kept, and otherwise what was seen. Without an event of its own, it is about the one to which
/// something has happened.
pub type Kept = Result<(), Violation>;

trait Promise {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept;
}

/// Declares the promises, and the checks by which each is known.
macro_rules! promises {
    ($($module:ident::$promise:ident { $($(#[$says:meta])+ $check:ident,)+ })+) => {
        /// A rule that a promise checks. Its comment is printed when it fails.
        #[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
        pub enum Check {
            $($($(#[$says])+ $check,)+)+
        }

        #[derive(Default)]
        pub struct Promises {
            $(pub $module: $module::$promise,)+
        }

        impl Promises {
            pub fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
                $(self.$module.on(happens, known)?;)+
                Ok(())
            }
        }
    };
}

// All of them, in the order in which they are shown what happens.
promises! {
    explained::Explained {
        /// A dead-letter queue contains only what handlers have sent there.
        NothingUnexplained,
    }
    fits::Fits {
        /// A call has at most ten entries, and together they are no larger than one message may be.
        CallsFit,
    }
    recalls::Recalls {
        /// An event makes its own attempts, all of them: each failure continues the run of which it is, with its
        /// attempt, age and id, unless nobody could know. What the ledger did not say is not guessed.
        RecallsTruly,
    }
    acts_in_time::ActsInTime {
        /// A handler begins no act for whose answer and follow-ups it may have no time.
        ActsInTime,
    }
    pauses::Pauses {
        /// Nothing of a paused target is invoked, unless an operator ordered it.
        PausesHold,
    }
    probes::Probes {
        /// While a target is down, only its probe is invoked.
        ProbesAlone,
        /// Probes are made at their intervals.
        ProbesInTime,
        /// A probe ends with its failure or after its time, and is given back if it can't be made.
        ProbesEnd,
    }
    attempts::Attempts {
        /// The function that failed is invoked, with the trace of its failure.
        RightTarget,
        /// An event that is to be given up is not invoked.
        OverIsOver,
        /// No attempt is made before its due time.
        NotBeforeDue,
        /// No attempt is made after the age is over.
        NotAfterAge,
        /// Attempt numbers rise by one.
        AttemptsRise,
        /// The envelope is the one of the contract, around the original bytes.
        Envelope,
    }
    on_time::OnTime {
        /// An attempt is made when it is due, if nothing prevents it.
        OnTime,
    }
    orders::Orders {
        /// An operator's order is followed at the next receive of its event, and never lost.
        OrdersFollowed,
    }
    waits::Waits {
        /// What a handler knows to be acted on is dropped, and doesn't wait.
        DropsTheDone,
        /// After a fault an invocation waits for as long as the fault requires.
        FaultWaits,
        /// A failure whose note may be about to be written waits for it, no longer than its sender may live.
        WaitsForNote,
        /// A wait brings its message back at its due time, and SQS accepts its length.
        WaitsUntilDue,
        /// Every backoff is within its range.
        BackoffInRange,
        /// Draws are spread evenly over their range, over all worlds.
        DrawsSpread,
    }
    letters::Letters {
        /// A dead letter has the original bytes.
        OriginalBytes,
        /// A dead letter has the right reason.
        RightReason,
        /// The attributes of a dead letter state the facts.
        LetterTells,
    }
    points::Points {
        /// A dead letter that points to its payload has no room for it, and the payload is there.
        PointsTruly,
    }
    reads_few::ReadsFew {
        /// A record is read once in a batch, from a bucket that is listed, and with at most two others at the same
        /// time.
        ReadsFew,
    }
    refused::Refused {
        /// A message that its queue may not send counts for no function: no claim, no item, no circuit, no metric.
        RefusedCountsForNone,
    }
    lists::Lists {
        /// The register lists each event that waits, with the time of its return and the way to its message.
        ListsTruly,
    }
    once::Once {
        /// A failure is re-invoked or dead-lettered once, unless there is a counted cause for a repetition.
        OncePerFailure,
    }
    leaves_nothing::LeavesNothing {
        /// A call that was surely refused leaves nothing open.
        RefusedLeavesNothing,
    }
    stores_little::StoresLittle {
        /// However large what others have written, little of it is stored.
        StoresLittle,
    }
    brings::Brings {
        /// As many events are brought forward as are to be tried, and no more.
        BringsForward,
    }
    suspects::Suspects {
        /// A target is suspected only if nearly all of many retries fail that handlers have made.
        SuspectsTruly,
    }
    turns::Turns {
        /// A circuit turns from one phase to one that may follow it.
        TurnsInOrder,
        /// No more permits are taken than the rate allows, and the rate grows only while retries succeed.
        KeepsTheRate,
        /// A circuit opens only if CloudWatch says that its target is down, or after a probe.
        OpensByWitness,
    }
    closes::Closes {
        /// No event is held back once events have come for long without a fault.
        ClosesInTheEnd,
    }
    awaits::Awaits {
        /// A handler waits for the answer to an act, unless it was lost: what was accepted is not reported as failed.
        AwaitsAnswers,
    }
    reports::Reports {
        /// A handler answers before its deadline.
        AnswersInTime,
        /// A message is reported as done if and only if it is done.
        ReportsTruly,
    }
    claims_end::ClaimsEnd {
        /// No claim is left by a handler that has acted, or that has put its message back.
        ClaimsEnd,
    }
    ends::Ends {
        /// Everything settles in bounded time once faults have stopped.
        Settles,
        /// Each event ends exactly once, and once more for each counted fork of its chain.
        EndsOneWay,
    }
    few_calls::FewCalls {
        /// The register is written once for a wait, and only what can have an order is read.
        FewCalls,
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        let sentence = value.as_ref().and_then(|value| value.get_help()).map(ToString::to_string);
        write!(f, "{self:?}: {}", sentence.unwrap_or_default())
    }
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub check: Check,
    /// The event that it is about. None if it is about the whole world.
    pub event: Option<usize>,
    /// What was seen, and what was expected.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.check, self.what)
    }
}

fn ensure(is_kept: bool, check: Check, what: impl FnOnce() -> String) -> Kept {
    if is_kept { Ok(()) } else { broken(check, None, what()) }
}

fn broken(check: Check, event: impl Into<Option<usize>>, what: String) -> Kept {
    Err(Violation { check, event: event.into(), what })
}
