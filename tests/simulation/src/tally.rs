//! What was seen in worlds, so that a world without faults is not taken for a proof.

use std::collections::BTreeMap;

use clap::ValueEnum;

use crate::{judge::REASONS, plan::Trouble};

/// A fault that a world can have. clap's derive lists them all.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
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
    /// A call had no answer at all, not even a timeout.
    CallHung,
    /// A single entry of a visibility change was refused.
    VisibilityRefused,
    /// A single dead letter of a call was refused.
    LetterRefused,
    /// An invocation was refused for good.
    InvokeRejected,
    /// An invocation was refused until a person fixes the cause.
    Misconfigured,
    /// The ledger refused a write until a person fixes the cause.
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
    /// A target's process died.
    TargetCrashed,
    /// A target timed out.
    TargetTimedOut,
    /// A target sent a retry hint.
    TargetAskedToWait,
    /// Somebody else than Lambda put a message into a retry queue.
    Poison,
    /// A record was too large for its queue, and Lambda dropped it.
    RecordTooLarge,
}

/// Something that is counted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Seen {
    /// A part of the ordinary life of events.
    Step(&'static str),
    /// A dead letter with this reason.
    Letter(&'static str),
    /// A fault.
    Fault(Fault),
    /// A trouble that lasted for a while.
    Trouble(Trouble),
}

/// How often each thing was seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The counts.
    pub seen: BTreeMap<Seen, u64>,
    /// How many backoffs were drawn from each tenth of their range.
    pub draws: [u64; 10],
}

impl Tally {
    pub(crate) fn count(&mut self, seen: Seen) {
        *self.seen.entry(seen).or_default() += 1;
    }

    /// Adds the counts of another world.
    pub fn add(&mut self, other: &Self) {
        for (&seen, count) in &other.seen {
            *self.seen.entry(seen).or_default() += count;
        }
        for (sum, count) in self.draws.iter_mut().zip(other.draws) {
            *sum += count;
        }
    }

    /// What was seen less than `least` times: of all faults, all reasons, and what a ledger is for.
    pub fn unseen(&self, least: u64) -> Vec<String> {
        let steps = ["duplicates dropped", "acts without their mark", "forks"];
        (Fault::value_variants().iter().copied().map(Seen::Fault))
            .chain(Trouble::value_variants().iter().copied().map(Seen::Trouble))
            .chain(REASONS.map(Seen::Letter))
            .chain(steps.map(Seen::Step))
            .map(|seen| (seen, self.seen.get(&seen).copied().unwrap_or_default()))
            .filter(|(_, count)| *count < least)
            .map(|(seen, count)| format!("{seen:?}: {count} times"))
            .collect()
    }
}
