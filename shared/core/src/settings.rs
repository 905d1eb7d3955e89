//! The settings of the retry handler, read once at its start.
//!
//! All bad values are reported in one message, so that they can be fixed with one deployment.

use std::{num::NonZeroU32, time::Duration};

pub use self::{
    bad_settings::BadSettings,
    buckets::{RecordBuckets, is_bucket_name},
    misspelt::Misspelt,
    policies::Policies,
    rules::Rules,
    targets::{DlqTarget, QueueTargets, Targets},
};
use self::{bad_settings::Fault, contract::SETTINGS, setting::Scope, values::Values};

mod bad_settings;
mod buckets;
pub mod contract;
mod error_policies;
mod misspelt;
mod policies;
pub mod policy;
mod reading;
mod rules;
pub mod setting;
mod targets;
pub mod values;

#[derive(Clone, Debug)]
pub struct Settings {
    pub rules: Rules,
    pub dead_letter_queue_url: String,
    /// The retry queue, where its URL can't be derived from the ARN in a message.
    pub retry_queue_url: Option<String>,
    /// How many messages of a queue may wait in flight.
    pub in_flight_max: NonZeroU32,
    /// The table in which each failure is claimed before it is acted on.
    pub ledger_table: Option<String>,
    /// The buckets from which failure records may be read.
    pub record_buckets: RecordBuckets,
    /// Whether waiting events are listed in that table, and an operator's orders are read from it.
    pub register: bool,
    /// Whether a target that is down is probed instead of retried at every due time.
    pub probe: bool,
    /// How long the table keeps the records of operators' orders, which only the program writes.
    pub history_retention: Duration,
}

impl Settings {
    /// Reads the settings from environment variables. An empty variable counts as unset, because templates set one for
    /// an optional parameter without a value.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let is_set = |name: &str| lookup(name).is_some();
        let mut values = Values::default();
        let variables = SETTINGS.iter().filter(|setting| setting.scope != Scope::Member);
        let mut faults = reading::read(variables, lookup, is_set, &mut values);
        let Values {
            policy,
            targets,
            queue_targets,
            dlq_target,
            own_policies,
            errors: _,
            dead_letter_queue_url,
            retry_queue_url,
            in_flight_max,
            ledger_table,
            record_buckets,
            register,
            probe,
            history_retention,
        } = values;
        let policies = Policies::read(own_policies.as_deref(), policy, is_set, &mut faults);
        let rules = Rules { targets, queue_targets, dlq_target, policies };
        let own_queues = [retry_queue_url.as_deref(), dead_letter_queue_url.as_deref()];
        rules.refuse_loops(own_queues, &mut faults);
        if let Some(url) = dead_letter_queue_url.as_ref().filter(|_| own_queues[0] == own_queues[1])
        {
            let expected = "another queue than RETRY_QUEUE_URL";
            faults.push(Fault::new("DEAD_LETTER_QUEUE_URL", expected, url));
        }
        match dead_letter_queue_url {
            Some(dead_letter_queue_url) if faults.is_empty() => Ok(Self {
                rules,
                dead_letter_queue_url,
                retry_queue_url,
                in_flight_max,
                ledger_table,
                record_buckets,
                register,
                probe,
                history_retention,
            }),
            _ => Err(BadSettings(faults)),
        }
    }
}

#[cfg(test)]
mod tests;
