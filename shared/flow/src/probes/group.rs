//! The events of a batch by their targets, and which of them a step lets through.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    circuit::{Circuit, EventAttempt, Pass, Watch},
    decision::{Decision, Settlement},
    record::{Condition, Failure},
    time::between,
};

use crate::{
    item::Item,
    task::{Task, shorter},
};

/// The events of one target.
#[derive(Default)]
pub(super) struct Group<'a, 't> {
    pub(super) name: &'a str,
    pub(super) due: Vec<&'t Task<'a>>,
    pub(super) early: Vec<&'t Task<'a>>,
    pub(super) fresh: Vec<&'t Task<'a>>,
    pub(super) returned: Vec<EventAttempt>,
    /// The marks of the retries that ran and failed.
    pub(super) failed: Vec<u32>,
}

/// The decisions that a step changes, by the item's place in the batch.
pub(super) type Decisions = BTreeMap<usize, Decision>;

/// The groups of a batch. What has failed counts for its target, even if there is nothing more to do about the item.
pub(super) fn groups<'a, 't>(
    items: &'a [Item<'a>],
    tasks: &'t [Task<'a>],
) -> BTreeMap<&'a str, Group<'a, 't>> {
    let mut groups: BTreeMap<&str, Group<'_, '_>> = BTreeMap::new();
    for (item, failure) in items.iter().filter_map(probable) {
        let group = groups.entry(failure.target.as_str()).or_default();
        group.name = failure.target.name();
        group.count(item);
    }
    for task in tasks {
        let target = probable(task.item).map(|(_, failure)| failure.target.as_str());
        if let Some(group) = target.and_then(|target| groups.get_mut(target)) {
            group.add(task);
        }
    }
    groups
}

/// An item with its failure, if it is about a function that has run: nobody knows whether a queue's consumer is down,
/// and a function that never got an event has not failed on it.
pub(super) fn probable<'a>(item: &'a Item<'a>) -> Option<(&'a Item<'a>, &'a Failure<'a>)> {
    let is_probable = |it: &&Failure<'_>| !it.target.is_queue() && !it.is_undelivered();
    let failure = item.accepted().filter(is_probable);
    failure.map(|failure| (item, failure))
}

impl<'a, 't> Group<'a, 't> {
    fn count(&mut self, item: &Item<'_>) {
        if let Some(of) = failed_attempt(item).filter(|_| !item.came_back()) {
            // A retry that did not run says nothing about its target, and neither does an open circuit breaker in it:
            // that is about something else.
            let is_told = item.failure().is_some_and(|it| {
                it.condition == Condition::Failed && !it.error.is_of_open_breaker()
            });
            self.failed.extend(is_told.then(|| of.mark()));
            self.returned.push(of);
        }
    }

    fn add(&mut self, task: &'t Task<'a>) {
        match task.decision() {
            // An operator's order overrides the circuit.
            Decision::Invoke if task.order().is_some() => {}
            Decision::Invoke => self.due.push(task),
            // An event whose function has asked for a time is never retried before that.
            Decision::Settle(Settlement::Wait { .. }) if asks_for_time(task.item) => {}
            Decision::Settle(Settlement::Wait { .. }) if task.item.came_back() => {
                self.early.push(task);
            }
            Decision::Settle(Settlement::Wait { .. }) => self.fresh.push(task),
            Decision::Settle(Settlement::DeadLetter(_)) => {}
        }
    }

    /// The events that may be the probe, those that are due first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &'t Task<'a>> {
        self.due.iter().chain(&self.early).chain(&self.fresh).copied()
    }

    /// Decides which events are retried, and which of the others wait for the next step.
    pub(super) fn pass(
        &self,
        pass: Pass,
        prober: Option<&Item<'_>>,
        watch: Option<Watch>,
        circuit: &Circuit,
        now: Timestamp,
    ) -> Decisions {
        let passed = match pass {
            Pass::Due => return Decisions::new(),
            Pass::Probe => 0,
            Pass::Some(passed) => usize::try_from(passed).unwrap_or(usize::MAX),
        };
        let passed = self.due.iter().chain(&self.early).take(passed).map(|task| task.item.nth);
        let probe = prober.filter(|_| pass == Pass::Probe).map(|item| item.nth);
        let passed: BTreeSet<_> = passed.chain(probe).collect();
        let is_passed = |task: &Task<'_>| passed.contains(&task.item.nth);
        let mut decisions: Decisions = passed.iter().map(|&nth| (nth, Decision::Invoke)).collect();
        for &Task { item, .. } in self.due.iter().copied().filter(|task| !is_passed(task)) {
            let request_id = item.failure().map_or("", |failure| &failure.request_id);
            let hold = circuit.hold(request_id, now);
            decisions.insert(item.nth, Decision::Settle(item.judgement.put_back(hold, now)));
        }
        let Some(watch) = watch else { return decisions };
        let watchers = self.waiting().filter(|task| !is_passed(task) && !spares(task.item, now));
        for (place, task) in (0..watch.count).zip(watchers) {
            let item = task.item;
            // If it is due, it is held back since just now. The others wait anyway.
            let held_back = decisions.get(&item.nth).copied();
            let hold = between(now, watch.at(place, held_back.is_some()));
            let decided = held_back.unwrap_or_else(|| task.decision());
            let until_step = shorter(decided, item.judgement.put_back(hold, now));
            decisions.extend(until_step.map(|decision| (item.nth, decision)));
        }
        decisions
    }
}

/// Whether the target has asked for the time until the event is due.
fn asks_for_time(item: &Item<'_>) -> bool {
    item.failure().is_some_and(|failure| failure.error.retry_after().is_some())
}

/// Whether the message has to spare its receives, so that it can't come back soon.
fn spares(item: &Item<'_>, now: Timestamp) -> bool {
    item.judgement.put_back(Duration::ZERO, now) != Settlement::Wait { until: now }
}

/// The attempt that has failed, if it was a retry.
pub(super) fn failed_attempt(item: &Item<'_>) -> Option<EventAttempt> {
    let retried = item.failure()?.retried()?;
    let event = retried.request_id.clone().unwrap_or_default();
    Some(EventAttempt { event, attempt: retried.attempt.get() })
}

/// The event's next attempt. Events whose envelope has no request id count as one, so that each of them can be the
/// probe.
pub(super) fn next_attempt(item: &Item<'_>) -> Option<EventAttempt> {
    let event = item.failure()?.first_request_id().unwrap_or_default().to_owned();
    Some(EventAttempt { event, attempt: item.judgement.schedule?.attempt.get() })
}
