//! The values of all settings, as the table of the contract fills them in.

use std::{num::NonZeroU32, time::Duration};

use super::{
    buckets::RecordBuckets,
    policy::Policy,
    targets::{DlqTarget, QueueTargets, Targets},
};

/// A value for each setting, or `None` if it has neither a value nor a default. Its default has those of the contract.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Values {
    pub policy: Policy,
    pub targets: Targets,
    pub queue_targets: Option<QueueTargets>,
    pub dlq_target: Option<DlqTarget>,
    /// The text of `POLICIES`, which can be read only when the general policy is known.
    pub own_policies: Option<String>,
    /// The text of `ERRORS` in a policy, which can be read only when the rest of the policy is known.
    pub errors: Option<String>,
    pub dead_letter_queue_url: Option<String>,
    pub retry_queue_url: Option<String>,
    pub in_flight_max: NonZeroU32,
    pub ledger_table: Option<String>,
    pub record_buckets: RecordBuckets,
    pub register: bool,
    pub probe: bool,
    pub history_retention: Duration,
}

impl Values {
    /// The values before those of the contract are filled in.
    pub(crate) fn unset() -> Self {
        Self {
            policy: Policy::unset(),
            targets: Targets::Home,
            queue_targets: None,
            dlq_target: None,
            own_policies: None,
            errors: None,
            dead_letter_queue_url: None,
            retry_queue_url: None,
            in_flight_max: NonZeroU32::MIN,
            ledger_table: None,
            record_buckets: RecordBuckets::default(),
            register: false,
            probe: false,
            history_retention: Duration::ZERO,
        }
    }
}
