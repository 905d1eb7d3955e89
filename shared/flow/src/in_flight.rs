//! Which waits are kept in flight, and which as delays.
//!
//! A handler asks SQS how many messages are in flight only if it has a reason: a full batch, a backlog, many waits in a
//! short time, or scarce places at the last estimate.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
};

use comeback_core::{
    Timestamp,
    in_flight::{Gauge, Signs},
    time::between,
};

use crate::{
    item::Item,
    log,
    ports::{ENTRIES_MAX, Queues},
    settlements::Wait,
};

/// The gauges of a handler's queues, by their URLs. They outlive the batches.
#[derive(Debug, Default)]
pub struct Gauges(Mutex<BTreeMap<String, Gauge>>);

impl Gauges {
    pub(crate) fn begin(&self, items: &[Item<'_>]) {
        let Some(queue_url) = items.iter().find_map(|item| item.source()?.url()) else { return };
        let full = items.len() >= ENTRIES_MAX;
        let backlog = items.iter().any(Item::is_backlog);
        self.with(&queue_url, |gauge| gauge.begin(Signs { full, backlog }));
    }

    /// Divides the waits of one queue into those that become delays and those that stay in flight.
    pub(crate) async fn divide<'a>(
        &self,
        waits: Vec<Wait<'a>>,
        queues: &impl Queues,
        queue_url: &str,
        max: NonZeroU32,
        now: Timestamp,
    ) -> (Vec<Wait<'a>>, Vec<Wait<'a>>) {
        if self.with(queue_url, |gauge| gauge.asks(now)) {
            match queues.in_flight(queue_url).await {
                Ok(count) => self.with(queue_url, |gauge| gauge.count(count, now)),
                Err(fault) => log::not_counted(queue_url, &fault),
            }
        }
        self.with(queue_url, |gauge| {
            waits.into_iter().partition(|wait| {
                let duration = between(now, wait.until);
                if !wait.act.item().may_be_sent_again() {
                    gauge.keep(duration, now);
                    return false;
                }
                gauge.delays(duration, max, now)
            })
        })
    }

    fn with<T>(&self, queue_url: &str, work: impl FnOnce(&mut Gauge) -> T) -> T {
        let mut gauges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(gauges.entry(queue_url.to_owned()).or_default())
    }
}
