//! The faults that a world can have, and those that last for a while.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

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
