//! The circuit of a target: whether its events are retried, or only probed because it is down.
//!
//! ```text
//!            nearly all retries fail             CloudWatch says it is down
//!   closed ───────────────────────▶ suspected ─────────────────────────────▶ open ◀─────────┐
//!     ▲ ▲                             │  ▲ one retry a second                 │   it failed │
//!     │ └─────────────────────────────┘  │                       next probe   ▼             │
//!     │   it is not down                 │                                 probing ─────────┤
//!     │                                  │                       no failure   │             │
//!     │   demand is met                  │                                    ▼             │
//!     └───────────────────────────────── │ ─────────────────────────────── ramping ─────────┘
//!                                                                     the rate doubles    nearly all fail
//! ```
//!
//! All handlers share the circuit. It is one attribute of an item, which a handler replaces if its version is still
//! the one that it has read. Whoever reads it late is told the current one and decides again. So there is one probe at
//! a time, and no permit is given twice.
//!
//! A handler is told of failures only. There are two witnesses of success, and each is blind where the other sees:
//!
//! - *Our own retries*: the share that did not come back as failures. It is known within seconds, but says nothing of
//!   first invocations. If 30 % of the events are poison and all others succeed at once, all retries fail.
//! - *CloudWatch* counts all invocations, but some minutes late, and each question costs.
//!
//! So our own retries raise a suspicion, and CloudWatch decides. Until it has, one event a second is retried. If only
//! half of the retries fail, CloudWatch is asked too, and nothing is limited.

mod steps;

use std::time::Duration;

use chrono::serde::ts_milliseconds as millis;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    time::{between, later},
};

/// The fewest invocations whose failure rate is meaningful.
const SAMPLE_MIN: u32 = 20;

/// The window in which retries are counted.
const WINDOW: Duration = Duration::from_mins(1);

/// A handler in ordinary traffic reports after this many retries, failed or not. If it depended on the failures, their
/// share would be wrong.
const REPORT_MIN: u32 = 4;

/// The intervals between probes double from the first to the last.
const INTERVAL_MIN: Duration = Duration::from_secs(10);
const INTERVAL_MAX: Duration = Duration::from_mins(5);

/// A probe that has not failed within this time has succeeded: most targets fail within seconds.
const PATIENCE_MIN: Duration = Duration::from_secs(20);

/// The longest wait for the result of a probe. Few targets run for longer before they fail.
const PATIENCE_MAX: Duration = Duration::from_mins(5);

/// A target's rate is judged after slices of at least this length.
const SLICE_MIN: Duration = Duration::from_secs(10);

/// The highest rate a second. Beyond it nothing is limited.
const RATE_MAX: u32 = 1 << 14;

/// After this many slices at the lowest rate in which neither success nor failure prevails, load is not the cause.
const MIXED_MAX: u32 = 3;

/// How many events are brought forward for one slice, at most: a handler needs about half a second for their calls.
pub const BROUGHT_MAX: u32 = 2_000;

/// How many events come back before the next probe, so that somebody notices that the failures have stopped.
const WAKE_UPS: u32 = 10;

/// How many events come back when a probe ends. One would do if none was lost.
const WAKE_UPS_AFTER_PROBE: u32 = 3;

/// If first failures have come steadily for `STEADY_MIN`, and then none for `SILENCE`, the target may be up. `SILENCE`
/// is longer than `NOTE_INTERVAL` plus the largest clock skew.
const STEADY_MIN: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(20);
const NOTE_INTERVAL: Duration = Duration::from_secs(5);

/// CloudWatch is asked at these intervals. Its data are for minutes, and come one or two minutes later.
const ASK_INTERVAL: Duration = Duration::from_secs(30);
const ASK_INTERVAL_CLEARED: Duration = Duration::from_mins(1);
const MINUTE: Duration = Duration::from_mins(1);

/// After this time without an answer, a suspicion is dropped.
const SUSPICION_MAX: Duration = Duration::from_mins(6);

/// An event is held back for up to this time. With the longest interval between probes before it, and a ramp after
/// it, an event is invoked within 15 minutes after its target is up.
const HOLD: Duration = Duration::from_mins(8);

/// The same while nobody knows whether the target is down.
const HOLD_SUSPECTED: Duration = Duration::from_mins(2);

/// After CloudWatch has cleared a target, our own retries raise no suspicion for this long.
const CLEARED_FOR: Duration = Duration::from_hours(1);

/// The circuit of one target.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Circuit {
    /// The handler that wrote it. It tells two handlers apart that take the same step at the same time.
    by: String,
    /// How long to wait for the failure of a probe: learned from the last one.
    patience_seconds: u32,
    /// Its phase.
    pub phase: Phase,
}

/// The phase of a circuit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// All that is due is retried.
    Closed {
        /// The retries of the last minute.
        counts: Counts,
        /// If CloudWatch has said that the target is not down although its retries fail.
        cleared: Option<Cleared>,
    },
    /// Nearly all retries fail, and CloudWatch has not said yet whether the target is down.
    Suspected {
        /// Since when.
        #[serde(with = "millis")]
        since: Timestamp,
        /// When to ask CloudWatch.
        #[serde(with = "millis")]
        ask_at: Timestamp,
        /// The permits.
        slice: Slice,
    },
    /// The target is down.
    Open {
        /// Since when.
        #[serde(with = "millis")]
        since: Timestamp,
        /// When the next probe may go.
        #[serde(with = "millis")]
        next_at: Timestamp,
        /// The longest interval before that probe.
        interval_seconds: u32,
        /// First failures that keep coming.
        steady: Option<Steady>,
    },
    /// One event is being retried.
    Probing {
        /// Since when the target is down.
        #[serde(with = "millis")]
        since: Timestamp,
        /// The longest interval before that probe.
        interval_seconds: u32,
        /// The probe.
        probe: Probe,
    },
    /// A probe has succeeded, and the rate grows.
    Ramping {
        /// Since when the target was down.
        #[serde(with = "millis")]
        since: Timestamp,
        /// The permits.
        slice: Slice,
        /// How many slices at the lowest rate were mixed.
        mixed: u32,
        /// The probe that has succeeded, as far as is known.
        probe: Probe,
    },
}

/// Retries, and how many came back as failures.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Since when they are counted.
    #[serde(with = "millis")]
    since: Timestamp,
    /// Retries.
    invoked: u32,
    /// Failures of retries.
    failed: u32,
}

/// That the target is not down although its retries fail.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Cleared {
    /// Until then only CloudWatch opens the circuit.
    #[serde(with = "millis")]
    until: Timestamp,
    /// When to ask it again.
    #[serde(with = "millis")]
    ask_at: Timestamp,
}

/// First failures, which have come without a pause.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Steady {
    /// Since when.
    #[serde(with = "millis")]
    since: Timestamp,
    /// When the last was noted.
    #[serde(with = "millis")]
    last: Timestamp,
}

/// The attempt that a probe makes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Probe {
    /// The attempt.
    of: Try,
    /// When it was taken.
    #[serde(with = "millis")]
    at: Timestamp,
}

/// An attempt of an event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Try {
    /// The event, by the request id of its first invocation.
    pub event: String,
    /// The ordinal.
    pub attempt: u32,
}

/// A stretch of time with one rate, and its permits.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Slice {
    /// When it began.
    #[serde(with = "millis")]
    began: Timestamp,
    /// Permits a second.
    rate: u32,
    /// Permits that were taken.
    taken: u32,
    /// Retries that have failed since it began.
    failed: u32,
}

/// What a handler has seen, and has not reported yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// Retries while nothing was limited.
    pub invoked: u32,
    /// Retries that came back as failures.
    pub failed: u32,
    /// First failures of events.
    pub fresh: u32,
}

/// Permits of a slice that a handler has taken and not used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Permits {
    /// When the slice began.
    began: Timestamp,
    left: u32,
}

/// A batch, as far as it concerns one target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch<'a> {
    /// What this handler has seen, this batch included.
    pub seen: Seen,
    /// Whether its last report was more than a second ago.
    pub reports: bool,
    /// Retries that came back as failures in this batch.
    pub returned: &'a [Try],
    /// How many events are due.
    pub due: u32,
    /// How many have come back before they are due, because they were brought forward.
    pub early: u32,
    /// The attempt that would be the probe.
    pub candidate: Option<&'a Try>,
    /// Permits that this handler still has.
    pub permits: Option<Permits>,
}

/// What to do with the events of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The circuit to write. All else holds only once it was written.
    pub next: Option<Circuit>,
    /// Which events are retried.
    pub pass: Pass,
    /// Whether to ask CloudWatch.
    pub asks: bool,
    /// Which events are to come back, if there is a register.
    pub brings: Option<Bring>,
    /// Permits that this handler still has.
    pub permits: Option<Permits>,
}

/// Which events of a batch are retried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pass {
    /// All that are due.
    Due,
    /// The candidate.
    Probe,
    /// This many, those that are due first. The others are held back.
    Some(u32),
}

/// How many events are to come back, one after the other, and when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bring {
    /// How many.
    pub count: u32,
    /// From then on.
    pub from: Timestamp,
    /// The last of them.
    pub until: Timestamp,
}

impl Bring {
    /// When the nth of `count` comes back, counted from 0.
    pub fn at(&self, nth: u32, count: u32) -> Timestamp {
        let part = between(self.from, self.until).saturating_mul(nth.saturating_add(1));
        later(self.from, part / count.max(1))
    }
}

/// CloudWatch's sums for a minute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Minute {
    /// When it began.
    pub began: Timestamp,
    /// Invocations of the function.
    pub invocations: u32,
    /// Those that failed.
    pub errors: u32,
}

/// What CloudWatch says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Down,
    Up,
    Unknown,
}

impl Circuit {
    /// Of a target that nothing is known of.
    pub fn new(now: Timestamp) -> Self {
        Self { by: String::new(), patience_seconds: 0, phase: steps::closed(now, None) }
    }

    /// Reads what [`Circuit::text`] wrote; `None` if it was written by another program or version.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As text, in JSON, signed by an invocation of the handler.
    pub fn text(&mut self, by: &str) -> String {
        by.clone_into(&mut self.by);
        // A struct of numbers and strings can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Since when the target is down; `None` if nobody has said so.
    pub fn down_since(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Closed { .. } | Phase::Suspected { .. } | Phase::Ramping { .. } => None,
            Phase::Open { since, .. } | Phase::Probing { since, .. } => Some(since),
        }
    }

    /// Whether nothing is limited.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed { .. })
    }

    /// The name of its phase.
    pub fn name(&self) -> &'static str {
        match self.phase {
            Phase::Closed { .. } => "closed",
            Phase::Suspected { .. } => "suspected",
            Phase::Open { .. } => "open",
            Phase::Probing { .. } => "probing",
            Phase::Ramping { .. } => "ramping",
        }
    }
}

#[cfg(test)]
mod tests;
