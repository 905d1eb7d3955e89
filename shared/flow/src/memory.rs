//! What a handler remembers about the circuits of its targets between batches.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    circuit::{Permits, Seen},
    time::between,
};

/// A circuit that was found closed is read again before this only for events that are due. No circuit can open and
/// start a probe in less time.
const CLOSED_FOR: Duration = Duration::from_secs(5);

/// While a circuit is closed, a handler writes its counts to it at most once in this time. The time doubles with each
/// write that met another handler's, up to [`DOUBLED_MAX`] times: a thousand handlers would otherwise write to one item
/// as often as DynamoDB allows, and most of those writes in vain.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
const DOUBLED_MAX: u32 = 4;

/// The most targets to remember. Records name a target with any version or alias, and anybody who may write to the
/// queue can invent those.
const TARGETS_MAX: usize = 1_000;

/// The most failures of a target to remember until they are reported.
const FAILED_MAX: usize = 1_000;

/// What a handler remembers about the circuits of its targets, by their ARNs. It is kept between batches.
#[derive(Debug, Default)]
pub struct CircuitMemory(Mutex<HashMap<String, Remembered>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Remembered {
    pub seen: Seen,
    /// The marks of the failures that are not reported yet.
    pub failed: Vec<u32>,
    pub permits: Option<Permits>,
    /// When this handler last wrote its counts, or tried to.
    reported_at: Option<Timestamp>,
    /// How often the time between two reports has doubled.
    doubled: u32,
    pub closed_at: Option<Timestamp>,
    pub step_at: Option<Timestamp>,
}

impl CircuitMemory {
    /// Whether the circuit was found calm so recently that a failed retry is no reason to read it again.
    pub(crate) fn was_closed(&self, target: &str, now: Timestamp) -> bool {
        let closed_at = self.all().get(target).and_then(|memory| memory.closed_at);
        closed_at.is_some_and(|closed_at| between(closed_at, now) < CLOSED_FOR)
    }

    /// Whether the time has come for the next step of the circuit, as it was found last.
    pub(crate) fn awaits_step(&self, target: &str, now: Timestamp) -> bool {
        let step_at = self.all().get(target).and_then(|memory| memory.step_at);
        step_at.is_some_and(|step_at| step_at <= now)
    }

    pub(crate) fn with<T>(&self, target: &str, work: impl FnOnce(&mut Remembered) -> T) -> T {
        let mut memories = self.all();
        if let Some(memory) = memories.get_mut(target) {
            return work(memory);
        }
        // A handler that has forgotten a target reads its circuit again, and counts its retries from zero.
        if memories.len() >= TARGETS_MAX {
            memories.clear();
        }
        work(memories.entry(target.to_owned()).or_default())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    /// Counts the failures and the retries of a batch, always together: their ratio is what counts.
    pub fn count(&mut self, failed: &[u32], invoked: u32) {
        let failures = u32::try_from(failed.len()).unwrap_or(u32::MAX);
        self.seen.failed = self.seen.failed.saturating_add(failures);
        self.seen.invoked = self.seen.invoked.saturating_add(invoked);
        self.failed.extend(failed);
        let excess = self.failed.len().saturating_sub(FAILED_MAX);
        self.failed.drain(..excess);
    }

    /// Whether this handler may write its counts.
    pub fn may_report(&self, now: Timestamp) -> bool {
        let interval = REPORT_INTERVAL * (1 << self.doubled);
        self.reported_at.is_none_or(|at| between(at, now) >= interval)
    }

    /// This handler's counts are in the circuit.
    pub fn report(&mut self, now: Timestamp) {
        // No other batch can have added counts meanwhile, because a handler has one batch at a time.
        (self.seen, self.failed) = Default::default();
        self.reported_at = Some(now);
        self.doubled = self.doubled.saturating_sub(1);
    }

    /// Another handler has written at the same time, so this one keeps its counts for longer.
    pub fn postpone_report(&mut self, now: Timestamp) {
        self.reported_at = Some(now);
        self.doubled = (self.doubled + 1).min(DOUBLED_MAX);
    }
}

#[cfg(test)]
mod tests {
    use comeback_core::time::{at_millis, later};

    use super::*;

    #[test]
    fn however_many_targets_messages_name_few_are_remembered() {
        let memory = CircuitMemory::default();
        for version in 0..=2 * TARGETS_MAX {
            memory.with(&format!("orders:{version}"), |memory| memory.seen.failed += 1);
        }
        assert!(memory.all().len() <= TARGETS_MAX);
        memory.with("orders:2000", |memory| assert_eq!(memory.seen.failed, 1));
    }

    #[test]
    fn a_handler_whose_reports_meet_those_of_others_reports_less_often() {
        let now = at_millis(0);
        let after = |remembered: &Remembered| {
            (0..100).find(|&it| remembered.may_report(later(now, Duration::from_secs(it))))
        };
        let mut remembered = Remembered::default();
        assert_eq!(after(&remembered), Some(0));
        remembered.report(now);
        assert_eq!(after(&remembered), Some(1));
        for seconds in [2, 4, 8, 16, 16] {
            remembered.postpone_report(now);
            assert_eq!(after(&remembered), Some(seconds));
        }
        remembered.report(now);
        assert_eq!(after(&remembered), Some(8));
    }
}
