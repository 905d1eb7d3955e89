//! What the judge of a world records: broken rules, the story of the world, and counts.

use std::{fmt, fmt::Write as _};

use clap::ValueEnum;
use comeback_core::{Timestamp, time::rfc3339};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A rule that the judge checks. Its comment is printed when it fails.
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
    /// A wait brings its message back at its due time, and SQS accepts its length.
    WaitsUntilDue,
    /// After a fault an invocation waits for as long as the fault requires.
    FaultWaits,
    /// A message is reported as done if and only if it is done.
    ReportsTruly,
    /// A handler answers before its deadline.
    AnswersInTime,
    /// A handler waits for the answer to an act, unless it was lost: what was accepted is not reported as failed.
    AwaitsAnswers,
    /// A handler begins no act for whose answer and follow-ups it may have no time.
    ActsInTime,
    /// A dead-letter queue contains only what handlers have sent there.
    NothingUnexplained,
    /// A call has at most ten entries, and together they are no larger than one message may be.
    CallsFit,
    /// No claim is left by a handler that has acted, or that has put its message back.
    ClaimsEnd,
    /// What a handler knows to be acted on is dropped, and doesn't wait.
    DropsTheDone,
    /// An operator's order is followed at the next receive of its event, and never lost.
    OrdersFollowed,
    /// Nothing of a paused target is invoked, unless an operator ordered it.
    PausesHold,
    /// The register lists each event that waits, with the time of its return and the way to its message.
    ListsTruly,
    /// The register is written once for a wait, and only what can have an order is read.
    FewCalls,
    /// While a target is down, only its probe is invoked.
    ProbesAlone,
    /// A circuit turns from one phase to one that may follow it.
    TurnsInOrder,
    /// Probes are made at their intervals.
    ProbesInTime,
    /// No more permits are taken than the rate allows, and the rate grows only while retries succeed.
    KeepsTheRate,
    /// A target is suspected only if nearly all of many retries fail that handlers have made.
    SuspectsTruly,
    /// A circuit opens only if CloudWatch says that its target is down, or after a probe.
    OpensByWitness,
    /// A probe ends with its failure or after its time, and is given back if it can't be made.
    ProbesEnd,
    /// As many events are brought forward as are to be tried, and no more.
    BringsForward,
    /// No event is held back once events have come for long without a fault.
    ClosesInTheEnd,
    /// An event makes its own attempts, all of them: each failure continues the run of which it is, with its attempt,
    /// age and id, unless nobody could know. What the ledger did not say is not guessed.
    RecallsTruly,
    /// A call that was surely refused leaves nothing open.
    RefusedLeavesNothing,
    /// A failure whose note may be about to be written waits for it, no longer than its sender may live.
    WaitsForNote,
    /// A record is read once in a batch, from a bucket that is listed, and with at most two others at the same time.
    ReadsFew,
    /// A dead letter that points to its payload has no room for it, and the payload is there.
    PointsTruly,
    /// A message that its queue may not send counts for no function: no claim, no item, no circuit, no metric.
    RefusedCountsForNone,
    /// However large what others have written, little of it is stored.
    StoresLittle,
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
