//! Probes targets that are down with one event at a time, and resumes their retries slowly.
//!
//! The rules are in `core::circuit`. A handler keeps in memory the counts of a target that it has not reported yet. If
//! a batch has due events of a target, failed retries, or events that came back early, the handler reads the circuit,
//! takes a step, and writes the circuit if it has changed. If another handler has written it meanwhile, the step is
//! taken again. Once the time of a step has come that the handler knows of, any event of the target makes it look.
//!
//! Nothing runs by itself. So some of the events that are held back wait only until the next step, and take it. With a
//! register, a ramp also brings forward the events that it may retry.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    backoff::Draw,
    circuit::{Batch, Circuit, EventAttempt, Pass, Step, WakeUps, Watch},
    claim::LOOKS_MAX,
    decision::{Decision, Settlement, visibility_timeout},
    fault::StoreFault,
    record::{Condition, Failure},
    time::between,
};
use futures_util::{StreamExt, future::join_all, stream};

use crate::{
    Run,
    answers::Answered,
    batch::Handler,
    item::Item,
    log,
    ports::{
        Clock, ENTRIES_MAX, Functions, Ledger, NotExchanged, Notes, Queues, Stored,
        VisibilityChange,
    },
    report::{Obstacle, TargetReport},
};

/// While a circuit is closed, a handler writes its counts to it at most once in this time.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How far back CloudWatch is asked for counts.
const MINUTES: Duration = Duration::from_mins(8);

/// How many calls to bring events forward run at the same time.
const CALLS_AT_ONCE: usize = 10;

/// A step that was taken for a target, and its follow-ups.
pub(crate) struct Taken<'a, 'e> {
    target: &'a str,
    name: &'a str,
    circuit: Circuit,
    version: u64,
    asks: bool,
    wakes: Option<WakeUps>,
    probe: Option<(&'a Item<'e>, EventAttempt)>,
    brought: u32,
}

#[derive(Default)]
struct Group<'a, 'e> {
    name: &'a str,
    due: Vec<&'a Item<'e>>,
    early: Vec<&'a Item<'e>>,
    fresh: Vec<&'a Item<'e>>,
    returned: Vec<EventAttempt>,
    /// The marks of the retries that ran and failed.
    failed: Vec<u32>,
}

impl<Q, F, L, C> Handler<Q, F, L, C>
where
    Q: Queues,
    F: Functions,
    L: Ledger,
    C: Clock,
{
    /// Takes a step of each circuit that was read, and changes the decisions about the events of its target.
    pub(crate) async fn take_steps<'a, 'e>(
        &self,
        items: &'a [Item<'e>],
        probed: &HashSet<&str>,
        notes: Option<Notes>,
        run: &Run<'_, L, C>,
    ) -> Vec<Taken<'a, 'e>> {
        if !self.settings.probe {
            return Vec::new();
        }
        let (found, unread): (Vec<_>, Vec<_>) = groups(items)
            .into_iter()
            .partition(|(target, _)| notes.is_some() && probed.contains(target));
        // Without a circuit, nothing is limited.
        unread.iter().for_each(|(target, group)| self.count(target, group, Pass::Due));
        let Notes { mut circuits, paused, .. } = notes.unwrap_or_default();
        let steps = found.into_iter().map(|(target, mut group)| {
            if paused.contains(target) {
                // Due events already wait for the pause. No other may be retried instead, not even as a probe.
                (group.early, group.fresh) = Default::default();
            }
            let stored = circuits.remove(target).unwrap_or_default();
            self.step(target, group, stored, run)
        });
        join_all(steps).await.into_iter().flatten().collect()
    }

    pub(crate) fn probed<'a>(&self, items: &'a [Item<'_>]) -> HashSet<&'a str> {
        if !self.settings.probe {
            return HashSet::new();
        }
        let now = self.clock.now();
        let concerns = |item: &Item<'_>, target: &str| {
            let is_due = item.decision() == Decision::Invoke;
            let may_matter = item.came_back() || failed_attempt(item).is_some();
            is_due
                || (may_matter && !self.memory.was_closed(target, now))
                || self.memory.awaits_step(target, now)
        };
        let targets = probable(items).map(|(item, failure)| (item, failure.target.as_str()));
        targets.filter(|(item, target)| concerns(item, target)).map(|(_, target)| target).collect()
    }

    /// Remembers the counts of a group that are not in its circuit.
    fn count(&self, target: &str, group: &Group<'_, '_>, pass: Pass) {
        let invoked = if pass == Pass::Due { count(&group.due) } else { 0 };
        self.memory.with(target, |memory| memory.count(&group.failed, invoked));
    }

    async fn step<'a, 'e>(
        &self,
        target: &'a str,
        group: Group<'a, 'e>,
        mut stored: Stored,
        run: &Run<'_, L, C>,
    ) -> Option<Taken<'a, 'e>> {
        let prober = group.waiting().find_map(|it| Some((it, next_attempt(it)?)));
        let name = group.name;
        let attempts: Vec<_> = group.due.iter().filter_map(|it| next_attempt(it)).collect();
        let mut memory = self.memory.with(target, |memory| memory.clone());
        memory.count(&group.failed, 0);
        for _ in 0..LOOKS_MAX {
            let now = self.clock.now();
            let circuit = circuit_of(&stored, target, now);
            let batch = Batch {
                seen: memory.seen,
                failed: &memory.failed,
                attempts: &attempts,
                reports: memory.reported_at.is_none_or(|at| between(at, now) >= REPORT_INTERVAL),
                returned: &group.returned,
                due: count(&group.due),
                early: count(&group.early),
                fresh: count(&group.fresh),
                candidate: prober.as_ref().map(|(_, of)| of),
                permits: memory.permits,
            };
            let Step { next, pass, asks, wakes, permits, watch } =
                circuit.step(&batch, now, draw(target, stored.version));
            let wrote = next.is_some();
            let repeats = prober.as_ref().is_some_and(|(_, of)| circuit.is_probing(of));
            let written = match next {
                Some(next) => exchange(target, &stored, &circuit, next, run).await,
                None => Ok((stored.version, circuit.clone())),
            };
            let (version, circuit) = match written {
                Ok(written) => written,
                Err(NotExchanged::Changed(there)) => {
                    stored = there;
                    continue;
                }
                Err(NotExchanged::Fault(_)) => {
                    group.due.iter().for_each(|item| item.note_obstacle(Obstacle::Ledger));
                    break;
                }
            };
            if !wrote {
                self.count(target, &group, pass);
            }
            self.memory.with(target, |memory| {
                if wrote {
                    memory.report(now);
                }
                memory.permits = permits;
                memory.closed_at = circuit.is_calm().then_some(now);
                memory.step_at = circuit.step_at();
            });
            group.pass(pass, prober.as_ref().map(|(item, _)| *item), watch, &circuit, now);
            // Another handler may be making the probe that this one repeats.
            let probe = prober.filter(|_| pass == Pass::Probe && !repeats);
            return Some(Taken { target, name, circuit, version, asks, wakes, probe, brought: 0 });
        }
        // The step was not written, so other handlers' steps are unknown. Due events wait unless the circuit is closed.
        let now = self.clock.now();
        let circuit = circuit_of(&stored, target, now);
        let pass = if circuit.is_closed() { Pass::Due } else { Pass::Some(0) };
        self.count(target, &group, pass);
        group.pass(pass, None, None, &circuit, now);
        None
    }

    /// Asks CloudWatch and brings events forward, concurrently with the rest of the batch.
    pub(crate) async fn follow_up(&self, taken: &mut [Taken<'_, '_>], run: &Run<'_, L, C>) {
        let follow_up = taken.iter_mut().map(async |taken| {
            if taken.asks {
                self.ask(taken, run).await;
            }
            if let Some(wakes) = taken.wakes.filter(|_| self.settings.register) {
                match self.wake(taken.target, wakes, run).await {
                    Ok(brought) => taken.brought = brought,
                    Err(fault) => {
                        log::not_listed(taken.target, &fault);
                        self.amend(taken, run, |circuit, _, _| {
                            Some((circuit.not_brought()?, None))
                        })
                        .await;
                    }
                }
            }
        });
        join_all(follow_up).await;
    }

    /// Reports the steps. A probe that could not be made is given back.
    pub(crate) async fn conclude(
        &self,
        taken: Vec<Taken<'_, '_>>,
        run: &Run<'_, L, C>,
    ) -> Vec<TargetReport> {
        let conclude = taken.into_iter().map(async |taken| {
            let was_made = taken.probe.as_ref().is_some_and(|(item, _)| item.was_invoked());
            if let Some((_, of)) = taken.probe.as_ref().filter(|_| !was_made)
                && let Some(next) = taken.circuit.not_probed(of, self.clock.now())
            {
                // If another handler has written the circuit, the probe has already ended.
                let stored = Stored { version: taken.version, text: None };
                let _ = exchange(taken.target, &stored, &taken.circuit, next, run).await;
            }
            TargetReport {
                target: taken.name.to_owned(),
                is_open: taken.circuit.down_since().is_some(),
                probes: u32::from(was_made),
                brought_forward: taken.brought,
            }
        });
        join_all(conclude).await
    }

    async fn ask(&self, taken: &mut Taken<'_, '_>, run: &Run<'_, L, C>) {
        let now = self.clock.now();
        let minutes = match self.functions.minutes(taken.target, now - MINUTES, now).await {
            Ok(minutes) => minutes,
            Err(fault) => return log::not_witnessed(taken.target, &fault),
        };
        self.amend(taken, run, |circuit, version, now| {
            let step = circuit.after_cloudwatch(&minutes, now, draw(taken.target, version))?;
            Some((step.next?, step.wakes))
        })
        .await;
    }

    /// Changes the circuit after the step. If another handler has written it meanwhile, the change is made to that one.
    async fn amend(
        &self,
        taken: &mut Taken<'_, '_>,
        run: &Run<'_, L, C>,
        change: impl Fn(&Circuit, u64, Timestamp) -> Option<(Circuit, Option<WakeUps>)>,
    ) {
        let mut stored = Stored { version: taken.version, text: None };
        for _ in 0..LOOKS_MAX {
            let now = self.clock.now();
            let Some((next, wakes)) = change(&taken.circuit, stored.version, now) else { return };
            match exchange(taken.target, &stored, &taken.circuit, next, run).await {
                Ok((version, circuit)) => {
                    (taken.version, taken.circuit) = (version, circuit);
                    taken.wakes = wakes.or(taken.wakes);
                    return;
                }
                Err(NotExchanged::Changed(there)) => {
                    taken.circuit = circuit_of(&there, taken.target, now);
                    stored = there;
                }
                Err(NotExchanged::Fault(_)) => return,
            }
        }
    }

    /// Brings events that wait in flight forward. Returns how many.
    async fn wake(
        &self,
        target: &str,
        wakes: WakeUps,
        run: &Run<'_, L, C>,
    ) -> Result<u32, StoreFault> {
        let Some(ledger) = run.ledger else { return Ok(0) };
        let listed = ledger.list(target, wakes.until, wakes.count).await?;
        let now = self.clock.now();
        let all = count(&listed);
        let mut queues: BTreeMap<&str, Vec<VisibilityChange<'_>>> = BTreeMap::new();
        for (nth, waiting) in (0..).zip(&listed) {
            let timeout = visibility_timeout(wakes.at(nth, all), now);
            let change = VisibilityChange { receipt_handle: &waiting.receipt_handle, timeout };
            queues.entry(&waiting.queue_url).or_default().push(change);
        }
        let calls = queues.iter().flat_map(|(&queue_url, changes)| {
            changes.chunks(ENTRIES_MAX).map(async move |part| {
                let answers = self.queues.change_visibility(queue_url, part).await;
                // A message that was received meanwhile has another handle, so its entry fails. It has come back by
                // itself.
                Answered::of(part, answers).pairs().filter(|(_, answer)| answer.is_ok()).count()
            })
        });
        let brought = stream::iter(calls)
            .buffer_unordered(CALLS_AT_ONCE)
            .fold(0, async |sum: usize, brought| sum + brought)
            .await;
        Ok(u32::try_from(brought).unwrap_or(u32::MAX))
    }
}

impl<'a, 'e> Group<'a, 'e> {
    fn add(&mut self, item: &'a Item<'e>) {
        let came_back = item.came_back();
        if let Some(of) = failed_attempt(item).filter(|_| !came_back) {
            // A retry that did not run says nothing about its target.
            let ran = item.failure().is_some_and(|it| it.condition == Condition::Failed);
            self.failed.extend(ran.then(|| of.mark()));
            self.returned.push(of);
        }
        if item.has_ended() {
            return;
        }
        match item.decision() {
            // An operator's order overrides the circuit.
            Decision::Invoke if item.order().is_some() => {}
            Decision::Invoke => self.due.push(item),
            // What its function has asked for a time is never early.
            Decision::Settle(Settlement::Wait { .. }) if asks_for_time(item) => {}
            Decision::Settle(Settlement::Wait { .. }) if came_back => self.early.push(item),
            Decision::Settle(Settlement::Wait { .. }) => self.fresh.push(item),
            Decision::Settle(Settlement::DeadLetter(_)) => {}
        }
    }

    /// The events that may be the probe, those that are due first.
    fn waiting(&self) -> impl Iterator<Item = &'a Item<'e>> {
        self.due.iter().chain(&self.early).chain(&self.fresh).copied()
    }

    /// Decides which events are retried, and which of the others wait for the next step.
    fn pass(
        &self,
        pass: Pass,
        prober: Option<&'a Item<'e>>,
        watch: Option<Watch>,
        circuit: &Circuit,
        now: Timestamp,
    ) {
        let passed = match pass {
            Pass::Due => return,
            Pass::Probe => 0,
            Pass::Some(passed) => usize::try_from(passed).unwrap_or(usize::MAX),
        };
        let mut passed =
            self.due.iter().chain(&self.early).take(passed).copied().collect::<Vec<_>>();
        passed.extend(prober.filter(|_| pass == Pass::Probe));
        passed.iter().for_each(|item| item.decide(Decision::Invoke));
        let is_passed = |item: &Item<'_>| passed.iter().any(|it| it.nth == item.nth);
        for item in self.due.iter().filter(|item| !is_passed(item)) {
            let request_id = item.failure().map_or("", |failure| &failure.request_id);
            let hold = circuit.hold(request_id, now);
            item.decide(Decision::Settle(item.judgement.put_back(hold, now)));
        }
        let Some(watch) = watch else { return };
        let watchers = self.waiting().filter(|item| !is_passed(item) && !spares(item, now));
        for (nth, item) in (0..watch.count).zip(watchers) {
            let is_due = self.due.iter().any(|it| it.nth == item.nth);
            let hold = between(now, watch.at(nth, is_due));
            // Each of them already waits. It only waits no longer than this.
            item.wait_at_most(item.judgement.put_back(hold, now));
        }
    }
}

/// The items of each target.
fn groups<'a, 'e>(items: &'a [Item<'e>]) -> BTreeMap<&'a str, Group<'a, 'e>> {
    let mut groups: BTreeMap<&str, Group<'_, '_>> = BTreeMap::new();
    for (item, failure) in probable(items) {
        let group = groups.entry(failure.target.as_str()).or_default();
        group.name = failure.target.name();
        group.add(item);
    }
    groups
}

/// The items about functions: nobody knows whether a queue's consumer is down.
fn probable<'a, 'e>(
    items: &'a [Item<'e>],
) -> impl Iterator<Item = (&'a Item<'e>, &'a Failure<'e>)> {
    let accepted = items.iter().filter_map(|item| Some((item, item.accepted()?)));
    accepted.filter(|(_, failure)| !failure.target.is_queue())
}

/// Whether the target has asked for the time until the event is due.
fn asks_for_time(item: &Item<'_>) -> bool {
    item.failure().is_some_and(|failure| failure.error.retry_after().is_some())
}

/// Whether the message has to spare its receives, so that it can't come back soon.
fn spares(item: &Item<'_>, now: Timestamp) -> bool {
    item.judgement.put_back(Duration::ZERO, now) != Settlement::Wait { until: now }
}

/// Replaces the circuit that was found. Returns the new version and circuit.
async fn exchange<L: Ledger, C>(
    target: &str,
    stored: &Stored,
    found: &Circuit,
    mut next: Circuit,
    run: &Run<'_, L, C>,
) -> Result<(u64, Circuit), NotExchanged> {
    let text = next.text(run.id);
    let version = stored.version.saturating_add(1);
    let Some(ledger) = run.ledger else { return Ok((stored.version, next)) };
    match ledger.exchange(target, stored.version, &text).await {
        // If the answer was lost and the SDK has repeated the write, it finds its own first write.
        Err(NotExchanged::Changed(Stored { version: there, text: Some(other) }))
            if there == version && other == text => {}
        Err(NotExchanged::Fault(fault)) => {
            log::circuit_not_written(target, &fault);
            return Err(NotExchanged::Fault(fault));
        }
        Err(changed @ NotExchanged::Changed(_)) => return Err(changed),
        Ok(()) => {}
    }
    log::turned(target, found, &next);
    Ok((version, next))
}

/// The stored circuit, or a closed one if it can't be read.
fn circuit_of(stored: &Stored, target: &str, now: Timestamp) -> Circuit {
    let Some(text) = &stored.text else { return Circuit::new(now) };
    Circuit::read(text).unwrap_or_else(|| {
        log::circuit_unreadable(target);
        Circuit::new(now)
    })
}

fn draw(target: &str, version: u64) -> Draw {
    Draw::seeded(target, u32::try_from(version % u64::from(u32::MAX)).unwrap_or_default())
}

/// The attempt that has failed, if it was a retry.
fn failed_attempt(item: &Item<'_>) -> Option<EventAttempt> {
    let retried = item.failure()?.retried()?;
    let event = retried.request_id.clone().unwrap_or_default();
    Some(EventAttempt { event, attempt: retried.attempt.get() })
}

/// The event's next attempt. Events whose envelope has no request id count as one, so that each of them can be the
/// probe.
fn next_attempt(item: &Item<'_>) -> Option<EventAttempt> {
    let event = item.failure()?.first_request_id().unwrap_or_default().to_owned();
    Some(EventAttempt { event, attempt: item.judgement.schedule?.attempt.get() })
}

fn count<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}
