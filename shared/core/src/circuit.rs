//! The circuit of a target: whether its events are retried, or only probed because it is down.
//!
//! ```text
//!          nearly all of a trial fail            CloudWatch says it is down
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
//! All handlers share the circuit, and each step replaces it with a conditional write, so there is one probe at a time,
//! and no permit is granted twice. `docs/design/probes.md` says why retries only raise a suspicion and CloudWatch
//! decides, and what happens if a handler dies.

mod steps;
mod trial;

use std::time::Duration;

use chrono::serde::ts_milliseconds as millis;
use serde::{Deserialize, Serialize};

pub use self::trial::Trial;
use crate::{
    Timestamp,
    time::{between, later},
};

/// The minimum number of invocations for a meaningful failure rate.
const SAMPLE_MIN: u32 = 20;

const WINDOW: Duration = Duration::from_mins(1);

/// While the circuit is closed, a handler reports after this many retries that it made or that came back as failures.
/// If only failures triggered a report, the failure rate would be wrong.
const REPORT_MIN: u32 = 4;

/// The interval between probes doubles from `INTERVAL_MIN` to `INTERVAL_MAX`. Recovery is seen that late at most, and a
/// target that is down gets 60 to 120 invocations an hour.
const INTERVAL_MIN: Duration = Duration::from_secs(10);
const INTERVAL_MAX: Duration = Duration::from_mins(1);

/// A probe that has not failed within this time counts as a success. Most targets fail within seconds.
const PATIENCE_MIN: Duration = Duration::from_secs(20);

/// The longest wait for the result of a probe. Few targets run for longer before they fail.
const PATIENCE_MAX: Duration = Duration::from_mins(5);

/// The minimum length of a slice, after which the rate is adjusted.
const SLICE_MIN: Duration = Duration::from_secs(10);

/// The highest rate, in retries a second. After a slice at this rate, the circuit closes.
const RATE_MAX: u32 = 1 << 14;

/// After this many mixed slices at the lowest rate, load is not the cause of the failures. In a mixed slice, more than
/// a fifth of the retries fail, but not nearly all.
const MIXED_MAX: u32 = 3;

/// The most events to bring forward for one slice. The calls for them take a handler about half a second.
pub const BROUGHT_MAX: u32 = 2_000;

/// The number of events to bring forward when CloudWatch opens a circuit. The events that were seen before don't know
/// of the next probe.
const WAKE_UPS: u32 = 10;

/// The number of watchers: events that wait only until the next step, so that somebody takes it. One would suffice if
/// none were lost. They come one second after the other, those that are not due after those that are.
const WATCHERS: u32 = 4;

/// How often CloudWatch is asked while a target is suspected, and after it was cleared. CloudWatch has one data point a
/// minute, which arrives one or two minutes late.
const ASK_INTERVAL: Duration = Duration::from_secs(30);
const ASK_INTERVAL_CLEARED: Duration = Duration::from_mins(1);
const MINUTE: Duration = Duration::from_mins(1);

/// A suspicion that CloudWatch has not confirmed within this time is dropped.
const SUSPICION_MAX: Duration = Duration::from_mins(6);

/// The longest time for which an event is held back. Even with a ramp, an event is then invoked within 15 minutes after
/// its target is up.
const HOLD: Duration = Duration::from_mins(8);

/// The same while the target is only suspected to be down.
const HOLD_SUSPECTED: Duration = Duration::from_mins(2);

/// After CloudWatch has cleared a target, our own retries raise no suspicion for this long.
const CLEARED_FOR: Duration = Duration::from_hours(1);

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Circuit {
    /// The handler that wrote it. This distinguishes two handlers that take the same step at the same time.
    by: String,
    /// How long to wait for a probe to fail, learned from the last probe that did.
    patience_seconds: u32,
    /// How many events wait only until the next step. A version without watchers writes none.
    #[serde(default)]
    watchers: u32,
    pub phase: Phase,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Closed {
        counts: Counts,
        /// Set if CloudWatch has shown that the target is not down although its retries fail.
        cleared: Option<Cleared>,
        /// The retries that are watched because the counts have raised a suspicion.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trial: Option<Trial>,
    },
    /// Nearly all retries fail, and CloudWatch has not said yet whether the target is down.
    Suspected {
        /// When the counts that raised the suspicion began.
        #[serde(with = "millis")]
        since: Timestamp,
        #[serde(with = "millis")]
        ask_at: Timestamp,
        slice: Slice,
    },
    /// The target is down.
    Open {
        /// When the outage began.
        #[serde(with = "millis")]
        since: Timestamp,
        #[serde(with = "millis")]
        next_at: Timestamp,
        /// The upper limit of the interval before the next probe, which is drawn at random.
        interval_seconds: u32,
    },
    /// One event is being retried, to see whether the target is up.
    Probing {
        /// When the outage began.
        #[serde(with = "millis")]
        since: Timestamp,
        /// The upper limit of the interval before this probe.
        interval_seconds: u32,
        probe: Probe,
    },
    /// A probe has succeeded, and events are retried at a growing rate.
    Ramping {
        /// When the outage began.
        #[serde(with = "millis")]
        since: Timestamp,
        slice: Slice,
        /// The number of mixed slices at the lowest rate so far.
        mixed: u32,
        /// The probe that counts as a success. Its failure record may still arrive.
        probe: Probe,
    },
}

/// The numbers of retries and of those that came back as failures.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counts {
    #[serde(with = "millis")]
    since: Timestamp,
    invoked: u32,
    /// Retries that came back as failures.
    failed: u32,
}

/// CloudWatch's verdict that the target is not down although its retries fail.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Cleared {
    /// Until this time, only CloudWatch can open the circuit.
    #[serde(with = "millis")]
    until: Timestamp,
    /// When to ask CloudWatch again.
    #[serde(with = "millis")]
    ask_at: Timestamp,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Probe {
    of: EventAttempt,
    /// When a handler started the probe.
    #[serde(with = "millis")]
    at: Timestamp,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EventAttempt {
    /// The event's id: the request id of its first invocation.
    pub event: String,
    pub attempt: u32,
}

/// A time slice with a fixed rate, and its permits.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Slice {
    #[serde(with = "millis")]
    began: Timestamp,
    /// Permits a second.
    rate: u32,
    /// Permits taken so far.
    taken: u32,
    /// Retries that have failed since it began.
    failed: u32,
    /// Whether more events may wait than were brought forward, because the register gave no answer or did not list all.
    #[serde(default)]
    missed: bool,
}

/// The counts of a handler that it has not reported yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// Retries made while the circuit was closed.
    pub invoked: u32,
    /// Retries that came back as failures.
    pub failed: u32,
}

/// Permits of a slice that a handler has taken but not used yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Permits {
    began: Timestamp,
    left: u32,
}

/// The parts of a batch that concern one target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch<'a> {
    /// The counts that this handler has not reported yet, including this batch.
    pub seen: Seen,
    /// Whether the handler may report its counts now, because its last report was at least a second ago.
    pub reports: bool,
    /// Retries that came back as failures in this batch.
    pub returned: &'a [EventAttempt],
    /// The marks of the failures that this handler has not reported yet, including this batch.
    pub failed: &'a [u32],
    /// The attempts that are due.
    pub attempts: &'a [EventAttempt],
    pub due: u32,
    /// The number of events that came back before they are due, and may be retried early.
    pub early: u32,
    /// The number of events that have just failed, and may be a probe before they are due.
    pub fresh: u32,
    /// The attempt to make if a probe is due.
    pub candidate: Option<&'a EventAttempt>,
    /// Permits that this handler has left from earlier batches.
    pub permits: Option<Permits>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The circuit to write, if it changes. The rest of the step is valid only once it is written.
    pub next: Option<Circuit>,
    pub pass: Pass,
    pub asks: bool,
    /// The waiting events to bring forward, if there is a register.
    pub wakes: Option<WakeUps>,
    /// Permits that this handler has left after this batch.
    pub permits: Option<Permits>,
    /// How many of the events that are not retried wait only until the next step.
    pub watch: Option<Watch>,
}

/// Events that wait only until the next step of the circuit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Watch {
    /// When the step can be taken.
    step_at: Timestamp,
    others: u32,
    /// How many events of this batch wait for it.
    pub count: u32,
}

impl Watch {
    /// When the nth of the events comes back, counted from 0.
    pub fn at(&self, nth: u32, is_due: bool) -> Timestamp {
        let place = self.others.saturating_add(nth) % WATCHERS;
        let after = place + if is_due { 0 } else { WATCHERS };
        later(self.step_at, Duration::from_secs(after.into()))
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pass {
    Due,
    /// Only the candidate, as a probe.
    Probe,
    /// This many: due events first, then those that were brought forward. The other due events are held back.
    Some(u32),
}

/// A request to bring waiting events forward, spread evenly over a period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WakeUps {
    /// The maximum number of events.
    pub count: u32,
    pub from: Timestamp,
    /// The end of the period, when the last event comes back.
    pub until: Timestamp,
}

impl WakeUps {
    /// When the nth of `count` events comes back, counted from 0.
    pub fn at(&self, nth: u32, count: u32) -> Timestamp {
        let part = between(self.from, self.until).saturating_mul(nth.saturating_add(1));
        later(self.from, part / count.max(1))
    }
}

/// CloudWatch's counts for one minute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Minute {
    pub began: Timestamp,
    pub invocations: u32,
    pub errors: u32,
}

/// CloudWatch's verdict on a target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Down,
    Up,
    Unknown,
}

impl Circuit {
    /// The circuit of a new target, which is closed.
    pub fn new(now: Timestamp) -> Self {
        let phase = steps::closed(now, None);
        Self { by: String::new(), patience_seconds: 0, watchers: 0, phase }
    }

    /// Reads what [`Circuit::text`] wrote; `None` if it was written by another program or version.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Writes the circuit as JSON. `by` is the invocation of the handler that writes it.
    pub fn text(&mut self, by: &str) -> String {
        by.clone_into(&mut self.by);
        // Serializing a struct of numbers and strings can't fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// When the outage began, or `None` if the target is not known to be down.
    pub fn down_since(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Closed { .. } | Phase::Suspected { .. } | Phase::Ramping { .. } => None,
            Phase::Open { since, .. } | Phase::Probing { since, .. } => Some(since),
        }
    }

    pub fn is_probing(&self, of: &EventAttempt) -> bool {
        matches!(&self.phase, Phase::Probing { probe, .. } if probe.of == *of)
    }

    /// Whether the circuit is closed, so that retries are not limited.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed { .. })
    }

    /// Whether it is closed and nothing raises a suspicion, so that failures can wait until they are counted.
    pub fn is_calm(&self) -> bool {
        matches!(self.phase, Phase::Closed { trial: None, .. })
    }

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
