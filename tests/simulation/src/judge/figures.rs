//! What is measured in a world, and judged by nobody here: tests and outages read it.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{Timestamp, time::between};

use super::known::Phase;

#[derive(Default)]
pub struct Figures {
    /// The metrics that CloudWatch would have of the world, as lines in embedded metric format, if the plan asks for
    /// them.
    pub metrics: Vec<String>,
    /// When each event of the first target ended that had failed before, and how late a step of a circuit was at most.
    pub recovered: Vec<Timestamp>,
    pub late_step: Duration,
    pub opened: bool,
    /// How late each attempt of an outage was, by target, and the backlogs of all retry queues.
    pub lateness: BTreeMap<usize, Lateness>,
    pub backlogs: Vec<Backlog>,
    /// How many failures wait for an act, and the most that ever did at once.
    pub waiting: Waiting,
    /// How many retries of the target of an outage were accepted during the outage.
    pub retried_while_down: u64,
}

impl Figures {
    /// A mapping has or has not a place for another batch of its queue.
    pub fn note_backlog(&mut self, queue: usize, is_behind: bool, now: Timestamp) {
        let Backlog { since, longest } = &mut self.backlogs[queue];
        if is_behind {
            let since = *since.get_or_insert(now);
            *longest = (*longest).max(between(since, now));
        } else {
            *since = None;
        }
    }

    pub fn has_backlog(&self) -> bool {
        self.backlogs.iter().any(|backlog| backlog.since.is_some())
    }

    /// A circuit has turned from one phase to another.
    pub fn turned(&mut self, was: &Phase, is: &Phase, now: Timestamp) {
        self.opened |= is.is("open");
        if let ("probing" | "ramping", Some(step_at)) = (&*is.name, was.step_at()) {
            let late = now.timestamp_millis() - step_at;
            self.late_step = self.late_step.max(Duration::from_millis(late.max(0) as u64));
        }
    }
}

/// Since when a mapping has had no place for the messages of its retry queue, and the longest time of that.
#[derive(Default)]
pub struct Backlog {
    pub since: Option<Timestamp>,
    pub longest: Duration,
}

#[derive(Default)]
pub struct Waiting {
    now: u64,
    pub most: u64,
}

impl Waiting {
    pub fn begins(&mut self) {
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    pub fn ends(&mut self) {
        self.now -= 1;
    }
}

/// How late the attempts of a target were: how many by this many milliseconds.
#[derive(Default)]
pub struct Lateness(BTreeMap<u64, u64>);

impl Lateness {
    pub fn add(&mut self, lateness: Duration) {
        *self.0.entry(lateness.as_millis() as u64).or_default() += 1;
    }

    pub fn attempts(&self) -> u64 {
        self.0.values().sum()
    }

    /// The lateness that this many percent of the attempts don't exceed.
    pub fn at(&self, percent: u64) -> Duration {
        let mut before = self.attempts().saturating_sub(1) * percent / 100;
        let at = self.0.iter().find(|(_, count)| match before.checked_sub(**count) {
            Some(rest) => {
                before = rest;
                false
            }
            None => true,
        });
        Duration::from_millis(at.map_or(0, |(millis, _)| *millis))
    }
}
