//! What processes know of faults: of targets, buckets, queues and the ledger, and for how long.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, fault::FaultKind};

use super::Known;
use crate::policy::Millis;

/// The ledger, beside the targets that a process knows faults of.
pub const LEDGER: &str = "the ledger";

/// When a handler may assume that a fault is over that it hasn't met for this long, or for twice as long as it has met
/// it, but not longer than that.
const FORGETS: (Millis, Millis) = (60_000, 1_800_000);

/// What each process knows of faults: when it met the first and the last one of each target, and of the ledger, in a
/// row.
#[derive(Default)]
pub struct Faults(Vec<BTreeMap<String, (Timestamp, Timestamp)>>);

impl Faults {
    pub fn starts(&mut self) {
        self.0.push(BTreeMap::new());
    }

    /// A process meets a fault. Returns for how long it has known of it, in milliseconds.
    fn meets(&mut self, process: usize, whose: &str, now: Timestamp) -> Millis {
        let Some(faults) = self.0.get_mut(process) else { return 0 };
        let (first, last) = faults.entry(whose.to_owned()).or_insert((now, now));
        let (lasted, ago) = ((*last - *first).num_milliseconds(), (now - *last).num_milliseconds());
        if ago > (2 * lasted).clamp(FORGETS.0, FORGETS.1) {
            *first = now;
        }
        *last = now;
        (now - *first).num_milliseconds()
    }
}

impl Known {
    /// A handler meets a fault now, of the ledger or of a target. Returns for how long it has known of it. What is
    /// refused for good is no fault that could pass.
    pub fn meets(&mut self, run: u64, whose: &str, fault: Option<FaultKind>) -> Millis {
        let lasts = matches!(fault, Some(FaultKind::Transient { .. } | FaultKind::Configuration));
        let process = self.runs.get(&run).and_then(|batch| batch.first()).map(|it| it.process);
        let process = process.filter(|_| lasts);
        process.map_or(0, |process| self.faults.meets(process, whose, self.now))
    }
}
