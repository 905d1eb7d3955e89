//! What a handler remembers between batches about faults of the ledger and of its targets: since when it has met them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use comeback_core::{Timestamp, fault::Outage};

/// The ledger, beside the ARNs of targets.
pub(crate) const LEDGER: &str = "the ledger";

/// The most outages to remember. Anybody who may write to the queue can invent versions of a target.
const OUTAGES_MAX: usize = 1_000;

/// The outages that a handler knows of, by the ARN of the target.
#[derive(Debug, Default)]
pub struct Outages(Mutex<HashMap<String, Outage>>);

impl Outages {
    /// Notes that a call to a target or to the ledger failed. Returns since when the handler knows that it fails.
    pub(crate) fn met(&self, whose: &str, now: Timestamp) -> Timestamp {
        let mut outages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outage = Outage::met(outages.get(whose).copied(), now);
        if outages.len() >= OUTAGES_MAX {
            outages.clear();
        }
        outages.insert(whose.to_owned(), outage);
        outage.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_targets_messages_name_few_outages_are_remembered() {
        let outages = Outages::default();
        for version in 0..=2 * OUTAGES_MAX {
            outages.met(&format!("orders:{version}"), Timestamp::UNIX_EPOCH);
        }
        assert!(outages.0.lock().unwrap().len() <= OUTAGES_MAX);
    }
}
