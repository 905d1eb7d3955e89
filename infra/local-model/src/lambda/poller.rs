//! AWS's pollers of one mapping: the messages that were received but not delivered yet, how many batches are running,
//! and how many may run.
//!
//! Five batches may run at first, and five more each second while the pollers use all of them. A throttled batch stays
//! there and is tried again with backoff, until its messages become visible in the queue again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use comeback_core::{Timestamp, time::later};

use crate::Payload;

/// How many batches may run at first, and how many more each second.
const BATCHES_START: u32 = 5;
const BATCHES_GROWTH: u32 = 5;
pub(super) const GROWTH_INTERVAL: Duration = Duration::from_secs(1);

/// How many batches of a mapping without its own limit may run at a time.
pub(super) const BATCHES_MAX: u32 = 1_250;

/// The first and the longest wait after throttling.
const THROTTLE_WAIT_MIN: Duration = Duration::from_secs(1);
const THROTTLE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The wait if a queue has visible messages and returns none, because too many are in flight.
const EMPTY_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Held {
    pub message_id: Arc<str>,
    pub receipt_handle: Arc<str>,
    pub trace_header: Option<Arc<str>>,
    /// The message as the function will see it, in JSON.
    pub record: Payload,
    pub received_at: Timestamp,
    pub(crate) hidden_until: Timestamp,
}

impl Held {
    /// The number of bytes that it adds to the event, with a comma.
    pub(super) fn bytes(&self) -> usize {
        self.record.get().len() + 1
    }
}

#[derive(Debug, Default)]
pub(crate) struct Poller {
    /// Messages that were received and not delivered, the oldest first.
    pub(super) held: VecDeque<Held>,
    pub(super) held_bytes: usize,
    pub(super) running: u32,
    /// How many batches more than at first may run, apart from the mapping's own limit.
    grown: u32,
    /// Whether there are messages for all of them. `granted_at` is when that began, or when there last were more.
    is_saturated: bool,
    pub(super) granted_at: Timestamp,
    /// How often in a row a batch was throttled.
    throttles: u32,
    pub(super) paused_until: Option<Timestamp>,
}

impl Poller {
    pub(super) fn granted(&self) -> u32 {
        BATCHES_START + self.grown
    }

    pub fn hold(&mut self, message: Held) {
        self.held_bytes += message.bytes();
        self.held.push_back(message);
    }

    /// Drops messages that are visible in the queue again. The oldest expire first.
    pub(crate) fn drop_expired(&mut self, now: Timestamp) {
        let is_expired = |message: &mut Held| message.hidden_until <= now;
        while let Some(expired) = self.held.pop_front_if(is_expired) {
            self.held_bytes -= expired.bytes();
        }
    }

    pub fn delivered(&mut self, now: Timestamp) {
        self.throttles = 0;
        self.running += 1;
        if self.running == self.granted() && !self.is_saturated {
            self.is_saturated = true;
            self.granted_at = now;
        }
    }

    /// Records that there are not enough messages for another batch.
    pub(crate) fn drained(&mut self) {
        self.is_saturated = false;
        if self.running == 0 {
            self.grown = 0;
        }
    }

    pub fn is_saturated(&self) -> bool {
        self.is_saturated
    }

    pub fn finished(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    pub fn throttled(&mut self, now: Timestamp, batch: Vec<Held>) {
        for message in batch.into_iter().rev() {
            self.held_bytes += message.bytes();
            self.held.push_front(message);
        }
        let factor = 2_u32.saturating_pow(self.throttles);
        let wait = THROTTLE_WAIT_MIN.saturating_mul(factor).min(THROTTLE_WAIT_MAX);
        self.throttles = self.throttles.saturating_add(1);
        self.paused_until = Some(later(now, wait));
    }

    pub(crate) fn starved(&mut self, now: Timestamp) {
        self.paused_until = Some(later(now, EMPTY_WAIT));
    }

    /// Allows more batches if there have been messages for all allowed ones for `GROWTH_INTERVAL`.
    pub(super) fn grow(&mut self, now: Timestamp) {
        if self.is_saturated && now >= later(self.granted_at, GROWTH_INTERVAL) {
            self.grown = (self.grown + BATCHES_GROWTH).min(BATCHES_MAX - BATCHES_START);
            self.granted_at = now;
        }
    }
}
