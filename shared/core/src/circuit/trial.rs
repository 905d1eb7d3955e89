//! A trial: the retries that decide whether a target is suspected to be down.
//!
//! The counts of failures can be forged. Whoever may invoke a function can send it envelopes, as if a handler had, and
//! let them fail, so that a healthy function seems to fail nearly all of its retries. And failures come later than the
//! retries beside which they are counted. So these counts alone limit nothing. They begin a trial: the next retries of
//! all handlers are written into the circuit before they are made, and only their failures count, each once. A stranger
//! would have to know the request ids of other callers' events.

use std::time::Duration;

use chrono::serde::ts_milliseconds as millis;
use serde::{Deserialize, Serialize};

use super::{
    EventAttempt, SAMPLE_MIN,
    steps::{is_over, nearly_all},
};
use crate::{Timestamp, backoff::fnv1a};

/// A trial that is not lost within this time is over. A function that is down may need a minute to fail.
const TRIAL: Duration = Duration::from_mins(2);

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Trial {
    #[serde(with = "millis")]
    began: Timestamp,
    /// The number of its retries, at most [`SAMPLE_MIN`], and of those that have failed.
    retries: u32,
    failed: u32,
    /// The marks of those that have not failed.
    awaited: Vec<u32>,
}

impl Trial {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { began: now, retries: 0, failed: 0, awaited: Vec::new() }
    }

    /// Adds attempts that are about to be made. Those of events without an id can't be told apart.
    pub(super) fn add(&mut self, attempts: &[EventAttempt]) {
        for attempt in attempts.iter().filter(|it| !it.event.is_empty()) {
            let mark = attempt.mark();
            if self.retries < SAMPLE_MIN && !self.awaited.contains(&mark) {
                self.awaited.push(mark);
                self.retries += 1;
            }
        }
    }

    /// Counts those of the failures that it awaits.
    pub(super) fn fail(&mut self, marks: &[u32]) {
        let awaited = self.awaited.len();
        self.awaited.retain(|mark| !marks.contains(mark));
        let failed = u32::try_from(awaited - self.awaited.len()).unwrap_or(u32::MAX);
        self.failed = self.failed.saturating_add(failed);
    }

    /// Whether nearly all of its retries have failed.
    pub(super) fn is_lost(&self) -> bool {
        self.retries >= SAMPLE_MIN && nearly_all(self.failed, self.retries)
    }

    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        is_over(self.began, TRIAL, now)
    }
}

impl EventAttempt {
    /// A short name for it in a trial.
    pub fn mark(&self) -> u32 {
        let hash = fnv1a(self.event.bytes().chain(self.attempt.to_be_bytes()));
        u32::try_from(hash >> u32::BITS).unwrap_or_default()
    }
}
