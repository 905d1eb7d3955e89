//! The plain parts of a plan: what a script need not say.

use std::{cell::OnceCell, time::Duration};

use super::{Form, HandlerPlan, IN_FLIGHT_MAX, Plan, QueuePlan, TargetPlan};
use crate::policy::Policy;

/// When faults stop, if nothing else is said.
const CALM_AFTER: Duration = Duration::from_hours(24);

impl Plan {
    /// One event in one plain world, whose participants are to be added.
    pub fn plain() -> Self {
        Self { events: 1, concurrency: 1000, calm_after: CALM_AFTER, ..Self::default() }
    }

    /// Names the participants that have no names.
    pub fn name_all(&mut self) {
        let name = |name: &mut String, kind: &str, number: usize| {
            if name.is_empty() {
                *name = format!("{kind}-{number}");
            }
        };
        for (number, handler) in self.handlers.iter_mut().enumerate() {
            name(&mut handler.name, "retry-handler", number);
            name(&mut handler.dead_letter_queue, "dead-letters", number);
        }
        for (number, queue) in self.queues.iter_mut().enumerate() {
            name(&mut queue.name, "retry", number);
        }
        for (number, target) in self.targets.iter_mut().enumerate() {
            name(&mut target.name, "target", number);
        }
    }
}

impl Default for HandlerPlan {
    fn default() -> Self {
        Self {
            name: String::new(),
            dead_letter_queue: String::new(),
            timeout: 30,
            reserved: None,
            skew: Duration::ZERO,
            general: Policy::default(),
            lists_targets: false,
            binds_queues: false,
            has_ledger: false,
            has_register: false,
            probes: false,
            transparent: [false; 2],
            in_flight_max: [IN_FLIGHT_MAX; 2],
        }
    }
}

impl Default for QueuePlan {
    fn default() -> Self {
        Self { name: String::new(), handler: 0, batch: 10, concurrency: None }
    }
}

impl Default for TargetPlan {
    fn default() -> Self {
        Self {
            name: String::new(),
            queue: 0,
            form: Form::Record,
            own: None,
            failing: 0.0,
            listed: true,
            bound: true,
            stopped_in_loops: false,
            transparent: [false; 2],
            is_bucket_unlisted: false,
            successor_of: None,
            circuit: None,
            arns: OnceCell::new(),
        }
    }
}

/// Durations as whole milliseconds.
pub mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        (duration.as_millis() as u64).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }

    pub mod maybe {
        use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

        pub fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            duration.map(|it| it.as_millis() as u64).serialize(to)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Duration>, D::Error> {
            Ok(Option::deserialize(from)?.map(Duration::from_millis))
        }
    }
}
