//! What is recorded of a world for a person: its story, and counts.

use std::{fmt, fmt::Write as _};

use clap::ValueEnum;
use comeback_core::{Timestamp, time::rfc3339};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The story of a world, line by line: the time, the event (None for the whole world), and what happened. It is only
/// written on request: the same seed makes the same world, so a world that failed is played again to get its story.
#[derive(Default)]
pub struct Story {
    pub is_written: bool,
    lines: Vec<(Timestamp, Option<usize>, String)>,
}

impl Story {
    /// Adds a line, which is only formatted if the story is written.
    pub fn tell(
        &mut self,
        at: Timestamp,
        event: impl Into<Option<usize>>,
        text: impl FnOnce() -> String,
    ) {
        if self.is_written {
            self.lines.push((at, event.into(), text()));
        }
    }

    /// The lines about one event and those about the whole world. Without an event, all lines.
    pub fn of(&self, event: Option<usize>) -> String {
        let mut story = String::new();
        for (at, about, text) in &self.lines {
            if event.is_none() || about.is_none() || *about == event {
                let about = about.map_or("world".to_owned(), |event| format!("event {event}"));
                // Writing to a string can't fail.
                let _ = writeln!(story, "{}  {about:<10} {text}", rfc3339(*at));
            }
        }
        story
    }
}

/// A fault that lasts for a while, of a target, a handler, a queue or all calls.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Deserialize,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
    ValueEnum,
)]
pub enum Trouble {
    #[default]
    TargetDown,
    /// A target fails and works in turn, for some minutes each.
    TargetFlaps,
    /// An operator has set a target's reserved concurrency to 0, or a queue's consumer fails because of that.
    TargetPaused,
    /// A target is deleted, until somebody deploys it again.
    TargetDeleted,
    /// An operator has paused a target in the register.
    RetriesPaused,
    /// A target is renamed for good.
    TargetRenamed,
    /// The handlers may not invoke a target until somebody fixes their role.
    AccessDenied,
    /// A handler finds no free concurrency.
    HandlerThrottled,
    /// A handler fails on every batch.
    BadDeploy,
    /// The mapping of a queue is switched off.
    MappingOff,
    /// A queue may have only a few more messages in flight.
    QueueCrowded,
    /// The handlers may not send to a retry queue until somebody fixes their role.
    SendDenied,
    /// The handlers may not read a bucket until somebody fixes their role.
    BucketDenied,
    /// Every call of every handler is throttled.
    CallsThrottled,
}

impl Trouble {
    /// The kind of participant that has it, as scripts name it.
    pub fn part(self) -> &'static str {
        match self {
            Self::HandlerThrottled | Self::BadDeploy => "handler",
            Self::MappingOff | Self::QueueCrowded | Self::SendDenied => "queue",
            Self::CallsThrottled => "world",
            Self::TargetDown
            | Self::TargetFlaps
            | Self::TargetPaused
            | Self::TargetDeleted
            | Self::RetriesPaused
            | Self::TargetRenamed
            | Self::AccessDenied
            | Self::BucketDenied => "target",
        }
    }
}

/// A fault that a world can have. `clap` derives the list of all of them.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, ValueEnum)]
pub enum Fault {
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
    /// The SDK has made a call for an invocation again, after another that has failed.
    InvokeRepeated,
    /// Lambda did not pass on the root of a trace, or passed on another.
    RootLost,
    RootChanged,
    /// A call was never answered, not even by a timeout.
    CallHung,
    /// A single entry of a visibility change was refused.
    VisibilityRefused,
    /// SQS refused one dead letter of a call.
    LetterRefused,
    /// SQS refused one message of a call that sends messages again.
    DelayRefused,
    /// SQS refused one message of a call that sends messages back to the queue whose consumer failed.
    ReturnRefused,
    /// SQS refused a whole call that sends several messages, because of one of them.
    CallRefused,
    InFlightLate,
    InFlightWrong,
    /// Lambda refused an invocation that it will never accept.
    InvokeRejected,
    /// Lambda refused an invocation until a person fixes the cause.
    Misconfigured,
    /// The ledger refused a call until a person fixes the cause.
    LedgerDenied,
    /// The ledger answered a call late, but without an error.
    LedgerSlow,
    /// A look-up missed the latest writes.
    LookUpLate,
    /// An item of the ledger was written by something other than a handler.
    ItemForged,
    /// An operator used the receipt handle of an earlier receive.
    HandleStale,
    /// A handler was killed before its first call was sent.
    KilledBefore,
    /// A handler was killed between its calls.
    KilledBetween,
    /// A handler was killed after its last call, or its answer was lost.
    KilledAfter,
    LateDelivery,
    Duplicate,
    /// A message was delivered again while a handler had it.
    Redelivery,
    /// Messages were delivered in another order than they were sent.
    Reordered,
    CountTooLow,
    CountTooHigh,
    ClockOff,
    TargetCrashed,
    TargetTimedOut,
    TargetAskedToWait,
    /// A retry queue received a message that Lambda did not write.
    Poison,
    /// A record was too large for its queue, and Lambda dropped it.
    RecordTooLarge,
    /// A bucket told of a record late, after those that it has got later.
    NoticeLate,
    /// A bucket told of a record twice.
    NoticeRepeated,
    /// A bucket told of several records at once, which S3 has never been seen to do.
    NoticesJoined,
    /// The answer with a record was cut off.
    RecordCut,
    /// S3 refused to read a record until a person fixes the cause.
    RecordDenied,
    /// A record was gone from its bucket when it was to be read.
    RecordGone,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A key of the tally.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Seen {
    /// An ordinary step in the life of events.
    Step(&'static str),
    Letter(&'static str),
    Fault(Fault),
    Trouble(Trouble),
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(name) => write!(f, "{name}"),
            Self::Letter(reason) => write!(f, "dead letter: {reason}"),
            Self::Fault(fault) => write!(f, "fault: {fault}"),
            Self::Trouble(trouble) => write!(f, "trouble: {trouble:?}"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub seen: FxHashMap<Seen, u64>,
    /// The number of backoffs drawn from each tenth of their range.
    pub draws: [u64; 10],
    /// The same for delays that end before the message is due.
    pub hops: [u64; 10],
}

impl Tally {
    pub fn count(&mut self, seen: Seen) {
        *self.seen.entry(seen).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (&seen, count) in &other.seen {
            *self.seen.entry(seen).or_default() += count;
        }
        let sums = self.draws.iter_mut().chain(&mut self.hops);
        for (sum, count) in sums.zip(other.draws.into_iter().chain(other.hops)) {
            *sum += count;
        }
    }
}
