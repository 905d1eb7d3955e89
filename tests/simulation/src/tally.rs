//! What a world has had of each kind, so that nobody takes a world without faults for a proof.

use std::collections::BTreeMap;

/// A fault that a world can have.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// A call was throttled.
    CallThrottled,
    /// A call was answered with a 5xx.
    ServerError,
    /// A call never reached its service, and timed out.
    CallUnsent,
    /// A call had an effect, and its answer was lost.
    AnswerLost,
    /// A call had its effect minutes later.
    CallLate,
    /// A call had its effect twice.
    CallRepeated,
    /// A call had no answer at all, not even a time-out.
    CallHung,
    /// A visibility change was refused, alone in its call.
    VisibilityRefused,
    /// A dead letter was refused, alone in its call.
    LetterRefused,
    /// An invocation was refused for good.
    InvokeRejected,
    /// An invocation was refused until a person mends the cause.
    Misconfigured,
    /// The ledger could not be asked until a person mends the cause.
    LedgerDenied,
    /// A handler was killed before its first call was sent.
    KilledBefore,
    /// A handler was killed between its calls.
    KilledBetween,
    /// A handler was killed after its last call, or its answer was lost.
    KilledAfter,
    /// A batch reached its handler late.
    LateDelivery,
    /// A record was sent twice.
    Duplicate,
    /// A message was delivered again while a handler had it.
    Redelivery,
    /// Messages were delivered in another order than they were sent.
    Reordered,
    /// A receive count was too low.
    CountTooLow,
    /// A receive count was too high.
    CountTooHigh,
    /// A handler's clock was off.
    ClockOff,
    /// A wait was ended by a mapping that found no concurrency.
    HandlerThrottled,
    /// A mapping was switched off.
    MappingOff,
    /// A batch was given to a bad deploy.
    BadDeploy,
    /// Every call was throttled for a while.
    CallsThrottled,
    /// A queue was near its limit of messages in flight.
    QueueCrowded,
    /// A target was down.
    TargetDown,
    /// A target flapped.
    TargetFlapped,
    /// A target was paused.
    TargetPaused,
    /// A target was deleted.
    TargetDeleted,
    /// A target was renamed.
    TargetRenamed,
    /// The handlers could not invoke a target.
    AccessDenied,
    /// A target's process died.
    TargetCrashed,
    /// A target timed out.
    TargetTimedOut,
    /// A target asked for time.
    TargetAskedToWait,
    /// A message was poison.
    Poison,
    /// A record was too large for its queue: Lambda dropped it.
    RecordTooLarge,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 38] = [
        Self::CallThrottled,
        Self::ServerError,
        Self::CallUnsent,
        Self::AnswerLost,
        Self::CallLate,
        Self::CallRepeated,
        Self::CallHung,
        Self::VisibilityRefused,
        Self::LetterRefused,
        Self::InvokeRejected,
        Self::Misconfigured,
        Self::LedgerDenied,
        Self::KilledBefore,
        Self::KilledBetween,
        Self::KilledAfter,
        Self::LateDelivery,
        Self::Duplicate,
        Self::Redelivery,
        Self::Reordered,
        Self::CountTooLow,
        Self::CountTooHigh,
        Self::ClockOff,
        Self::HandlerThrottled,
        Self::MappingOff,
        Self::BadDeploy,
        Self::CallsThrottled,
        Self::QueueCrowded,
        Self::TargetDown,
        Self::TargetFlapped,
        Self::TargetPaused,
        Self::TargetDeleted,
        Self::TargetRenamed,
        Self::AccessDenied,
        Self::TargetCrashed,
        Self::TargetTimedOut,
        Self::TargetAskedToWait,
        Self::Poison,
        Self::RecordTooLarge,
    ];
}

/// How often each kind of thing happened.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Faults.
    pub faults: BTreeMap<Fault, u64>,
    /// Dead letters by their reason.
    pub letters: BTreeMap<&'static str, u64>,
    /// Everything else that is counted, by its name.
    pub counts: BTreeMap<&'static str, u64>,
    /// Where in its range each backoff was drawn, in tenths of the range.
    pub draws: [u64; 10],
}

impl Tally {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    pub(crate) fn letter(&mut self, reason: &'static str) {
        *self.letters.entry(reason).or_default() += 1;
    }

    /// Adds what another world has had.
    pub fn add(&mut self, other: &Self) {
        for (&fault, count) in &other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (&reason, count) in &other.letters {
            *self.letters.entry(reason).or_default() += count;
        }
        for (&name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (sum, count) in self.draws.iter_mut().zip(other.draws) {
            *sum += count;
        }
    }
}
