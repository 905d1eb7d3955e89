//! Retries of targets that are down: probed one at a time, and resumed slowly.
//!
//! The rules are in `core::circuit`. A handler keeps in memory what it has seen of a target and not reported yet. If a
//! batch has events of a target that are due, or retries of it that have failed, the handler reads the circuit, takes
//! a step, and writes what the step changes. If another handler has written meanwhile, it takes the step again.
//!
//! Nothing runs by itself. Whoever takes a step that has to be continued at a certain time brings some waiting events
//! forward, so that their batch continues it. That takes a register. Without one, the next event that is due does.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    backoff::Draw,
    circuit::{Batch, Bring, Circuit, Pass, Step, Try},
    claim::LOOKS_MAX,
    decision::{Decision, Settlement, visibility_timeout},
    record::Condition,
    time::between,
};
use futures_util::{StreamExt, future::join_all, stream};

use crate::{
    batch::Handler,
    claims::Claims,
    item::Item,
    log,
    ports::{
        Circuits, Clock, ENTRIES_MAX, Functions, Ledger, NotExchanged, Notes, Queues, Register,
        Stored, VisibilityChange, Witness,
    },
    register,
    report::{Obstacle, TargetReport},
};

/// A handler writes its counts to a circuit that is closed at most once in this time.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// CloudWatch is asked for the minutes since.
const MINUTES: Duration = Duration::from_mins(8);

/// How many calls to bring events forward run at the same time.
const CALLS_AT_ONCE: usize = 10;

/// A step that was taken for a target, and is still to be followed up.
pub(crate) struct Taken<'a, 'e> {
    target: &'a str,
    name: &'a str,
    circuit: Circuit,
    version: u64,
    asks: bool,
    brings: Option<Bring>,
    probe: Option<(&'a Item<'e>, Try)>,
    brought: u32,
}

/// The items of a batch that concern one target.
#[derive(Default)]
struct Group<'a, 'e> {
    /// The name of the function.
    name: &'a str,
    due: Vec<&'a Item<'e>>,
    early: Vec<&'a Item<'e>>,
    returned: Vec<Try>,
    failed: u32,
    fresh: u32,
}

impl<Q, F, L, C> Handler<Q, F, L, C>
where
    Q: Queues,
    F: Functions + Witness,
    L: Ledger + Register + Circuits,
    C: Clock,
{
    /// Reads the orders and circuits that concern a batch, and changes what is done with its events.
    pub(crate) async fn steer<'a, 'e>(
        &self,
        items: &'a [Item<'e>],
        claims: &Claims<'_, L, C>,
    ) -> Vec<Taken<'a, 'e>> {
        let probed = match self.settings.probe {
            true => self.wanted(items),
            false => HashSet::new(),
        };
        let notes = register::steer(items, &probed, claims).await;
        if !self.settings.probe {
            return Vec::new();
        }
        let groups = self.groups(items);
        let Some(Notes { mut circuits, paused, .. }) = notes else { return Vec::new() };
        let groups = groups.into_iter().filter(|(target, _)| probed.contains(target));
        let steps = groups.map(|(target, mut group)| {
            if paused.contains(target) {
                // What is due waits already. Nothing may take its place, not even as a probe.
                group.early.clear();
            }
            let stored = circuits.remove(target).unwrap_or_default();
            self.step(target, group, stored, claims)
        });
        join_all(steps).await.into_iter().flatten().collect()
    }

    /// The targets whose circuits concern this batch.
    fn wanted<'a>(&self, items: &'a [Item<'_>]) -> HashSet<&'a str> {
        let now = self.clock.now();
        let concerns = |item: &Item<'_>, target: &str| {
            let is_due = item.decision() == Decision::Invoke;
            let has_failed = !item.came_back() && tried(item).is_some();
            is_due || (has_failed && !self.memory.was_closed(target, now))
        };
        let targets = items.iter().filter_map(|item| Some((item, item.failure()?.target.as_str())));
        targets.filter(|(item, target)| concerns(item, target)).map(|(_, target)| target).collect()
    }

    /// What concerns each target. It counts even if no circuit was read.
    fn groups<'a, 'e>(&self, items: &'a [Item<'e>]) -> BTreeMap<&'a str, Group<'a, 'e>> {
        let mut groups: BTreeMap<&str, Group<'_, '_>> = BTreeMap::new();
        for (item, failure) in items.iter().filter_map(|item| Some((item, item.failure()?))) {
            let group = groups.entry(failure.target.as_str()).or_default();
            group.name = failure.target.name();
            group.add(item, self.settings.register);
        }
        for (target, group) in &groups {
            self.memory.with(target, |memory| {
                memory.seen.failed = memory.seen.failed.saturating_add(group.failed);
                memory.seen.fresh = memory.seen.fresh.saturating_add(group.fresh);
            });
        }
        groups
    }

    async fn step<'a, 'e>(
        &self,
        target: &'a str,
        group: Group<'a, 'e>,
        mut stored: Stored,
        claims: &Claims<'_, L, C>,
    ) -> Option<Taken<'a, 'e>> {
        let prober =
            group.due.iter().chain(&group.early).find_map(|&item| Some((item, next_try(item)?)));
        let name = group.name;
        for _ in 0..LOOKS_MAX {
            let now = self.clock.now();
            let circuit = circuit_of(&stored, target, now);
            let memory = self.memory.with(target, |memory| *memory);
            let batch = Batch {
                seen: memory.seen,
                reports: memory.reported_at.is_none_or(|at| between(at, now) >= REPORT_INTERVAL),
                returned: &group.returned,
                due: count(&group.due),
                early: count(&group.early),
                candidate: prober.as_ref().map(|(_, of)| of),
                permits: memory.permits,
            };
            let Step { next, pass, asks, brings, permits } =
                circuit.step(&batch, now, draw(target, stored.version));
            let wrote = next.is_some();
            let written = match next {
                Some(next) => exchange(target, &stored, &circuit, next, claims).await,
                None => Ok((stored.version, circuit.clone())),
            };
            let (version, circuit) = match written {
                Ok(written) => written,
                Err(NotExchanged::Changed(there)) => {
                    stored = there;
                    continue;
                }
                Err(NotExchanged::Fault(_)) => {
                    group.due.iter().for_each(|item| item.met(Obstacle::Ledger));
                    break;
                }
            };
            self.memory.with(target, |memory| {
                memory.after(&batch, pass, wrote, permits, now);
                memory.closed_at = circuit.is_closed().then_some(now);
            });
            group.pass(pass, prober.as_ref().map(|(item, _)| *item), &circuit, now);
            let probe = prober.filter(|_| pass == Pass::Probe);
            return Some(Taken { target, name, circuit, version, asks, brings, probe, brought: 0 });
        }
        // Nobody knows what the others do. What is due waits, unless nothing was limited.
        let now = self.clock.now();
        let circuit = circuit_of(&stored, target, now);
        let pass = if circuit.is_closed() { Pass::Due } else { Pass::Some(0) };
        group.pass(pass, None, &circuit, now);
        None
    }

    /// Asks CloudWatch, and brings events forward. The batch goes on meanwhile.
    pub(crate) async fn follow_up(&self, taken: &mut [Taken<'_, '_>], claims: &Claims<'_, L, C>) {
        let follow_up = taken.iter_mut().map(async |taken| {
            if taken.asks {
                self.ask(taken, claims).await;
            }
            if let Some(brings) = taken.brings.filter(|_| self.settings.register) {
                taken.brought = self.bring(taken.target, brings, claims).await;
            }
        });
        join_all(follow_up).await;
    }

    /// Says what became of the steps. A probe that could not be made is given back.
    pub(crate) async fn conclude(
        &self,
        taken: Vec<Taken<'_, '_>>,
        claims: &Claims<'_, L, C>,
    ) -> Vec<TargetReport> {
        let conclude = taken.into_iter().map(async |taken| {
            let was_made = taken.probe.as_ref().is_some_and(|(item, _)| item.was_invoked());
            if let Some((_, of)) = taken.probe.as_ref().filter(|_| !was_made)
                && let Some(next) = taken.circuit.not_probed(of, self.clock.now())
            {
                // If another handler has written, the probe has already ended.
                let stored = Stored { version: taken.version, text: None };
                let _ = exchange(taken.target, &stored, &taken.circuit, next, claims).await;
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

    async fn ask(&self, taken: &mut Taken<'_, '_>, claims: &Claims<'_, L, C>) {
        let now = self.clock.now();
        let minutes = match self.functions.minutes(taken.target, now - MINUTES, now).await {
            Ok(minutes) => minutes,
            Err(fault) => return log::not_witnessed(taken.target, &fault),
        };
        let mut stored = Stored { version: taken.version, text: None };
        for _ in 0..LOOKS_MAX {
            let now = self.clock.now();
            let told = taken.circuit.told(&minutes, now, draw(taken.target, stored.version));
            let Some(Step { next: Some(next), brings, .. }) = told else { return };
            match exchange(taken.target, &stored, &taken.circuit, next, claims).await {
                Ok((version, circuit)) => {
                    (taken.version, taken.circuit) = (version, circuit);
                    taken.brings = brings.or(taken.brings);
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

    /// Lets events that wait in flight come back sooner. Returns how many.
    async fn bring(&self, target: &str, brings: Bring, claims: &Claims<'_, L, C>) -> u32 {
        let Some(ledger) = claims.ledger else { return 0 };
        let listed = match ledger.list(target, brings.until, brings.count).await {
            Ok(listed) => listed,
            Err(fault) => {
                log::not_listed(target, &fault);
                return 0;
            }
        };
        let now = self.clock.now();
        let all = count(&listed);
        let mut queues: BTreeMap<&str, Vec<VisibilityChange<'_>>> = BTreeMap::new();
        for (nth, waiting) in (0..).zip(&listed) {
            let timeout = visibility_timeout(brings.at(nth, all), now);
            let change = VisibilityChange { receipt_handle: &waiting.receipt_handle, timeout };
            queues.entry(&waiting.queue_url).or_default().push(change);
        }
        let calls = queues.iter().flat_map(|(&queue_url, changes)| {
            changes
                .chunks(ENTRIES_MAX)
                .map(move |part| self.queues.change_visibility(queue_url, part))
        });
        // A message that was received meanwhile has another handle. It has come back by itself.
        stream::iter(calls)
            .buffer_unordered(CALLS_AT_ONCE)
            .map(|answers| count(&answers.into_iter().filter_map(Result::ok).collect::<Vec<_>>()))
            .fold(0, async |sum, brought| sum + brought)
            .await
    }
}

impl<'a, 'e> Group<'a, 'e> {
    fn add(&mut self, item: &'a Item<'e>, registers: bool) {
        let came_back = item.came_back();
        if !came_back {
            match (tried(item), item.failure().map(|failure| &failure.condition)) {
                // One that did not run at all says nothing of its target.
                (Some(of), condition) => {
                    self.failed += u32::from(condition == Some(&Condition::Failed));
                    self.returned.push(of);
                }
                (None, Some(Condition::Failed)) => self.fresh += 1,
                (None, _) => {}
            }
        }
        match item.decision() {
            // An operator's order wins over the circuit.
            Decision::Invoke if item.order().is_some() => {}
            Decision::Invoke => self.due.push(item),
            Decision::Settle(Settlement::Wait { .. }) if came_back && registers => {
                self.early.push(item);
            }
            Decision::Settle(_) => {}
        }
    }

    /// Decides which events are retried.
    fn pass(&self, pass: Pass, prober: Option<&'a Item<'e>>, circuit: &Circuit, now: Timestamp) {
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
            item.decide(Decision::Settle(item.judgement.held_back(hold, now)));
        }
    }
}

/// Replaces the circuit that was found. Gives the version and the circuit that are there now.
async fn exchange<L: Circuits, C>(
    target: &str,
    stored: &Stored,
    found: &Circuit,
    mut next: Circuit,
    claims: &Claims<'_, L, C>,
) -> Result<(u64, Circuit), NotExchanged> {
    let text = next.text(claims.invocation);
    let version = stored.version.saturating_add(1);
    let Some(ledger) = claims.ledger else { return Ok((stored.version, next)) };
    match ledger.exchange(target, stored.version, &text).await {
        // A write that was repeated because its answer was lost finds what it wrote the first time.
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

/// The circuit that was found. One that can't be read is replaced.
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

/// The retry that has failed, if the failure is one of a retry.
fn tried(item: &Item<'_>) -> Option<Try> {
    let retried = item.failure()?.retried()?;
    let event = retried.request_id.clone()?;
    Some(Try { event, attempt: retried.attempt.get() })
}

/// The next retry.
fn next_try(item: &Item<'_>) -> Option<Try> {
    let event = item.failure()?.first_request_id()?.to_owned();
    Some(Try { event, attempt: item.judgement.schedule?.attempt.get() })
}

fn count<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}
