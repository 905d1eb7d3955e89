//! Takes a step of each circuit that matters to a batch.

use std::collections::{BTreeSet, HashSet};

use comeback_core::{
    circuit::{Batch, Circuit, EventAttempt, Pass, Step, WakeUps},
    claim::LOOKS_MAX,
    decision::Decision,
};
use futures_util::future::join_all;

use super::{
    circuits::{circuit_of, draw, exchange},
    group::{Decisions, Group, failed_attempt, groups, next_attempt, probable},
};
use crate::{
    item::Item,
    memory::CircuitMemory,
    ports::{Clock, Ledger, LookedUp, NotExchanged, Stored},
    report::Obstacle,
    run::Run,
    task::Task,
};

/// A step that was taken for a target, and is to be followed up.
pub(crate) struct Taken<'a> {
    pub(super) target: &'a str,
    pub(super) name: &'a str,
    pub(super) circuit: Circuit,
    pub(super) version: u64,
    /// Whether CloudWatch is to be asked about the target.
    pub(super) asks: bool,
    /// The events to bring forward.
    pub(super) wakes: Option<WakeUps>,
    pub(super) probe: Option<(&'a Item<'a>, EventAttempt)>,
}

/// What a step decides about the events of its target.
struct Ruling<'a> {
    decisions: Decisions,
    /// The due events of a circuit that can't be written, by their places in the batch.
    not_written: Vec<usize>,
    taken: Option<Taken<'a>>,
}

/// The targets whose circuits matter to a batch.
pub(crate) fn probed<'a, L, C: Clock>(
    items: &'a [Item<'a>],
    run: &Run<'_, L, C>,
) -> HashSet<&'a str> {
    let Some(memory) = run.circuits else { return HashSet::new() };
    let now = run.clock.now();
    let concerns = |item: &Item<'_>, target: &str| {
        let is_due = item.judgement.decision == Decision::Invoke;
        let may_matter = item.came_back() || failed_attempt(item).is_some();
        is_due || (may_matter && !memory.was_closed(target, now)) || memory.awaits_step(target, now)
    };
    let targets = items.iter().filter_map(probable).map(|(item, it)| (item, it.target.as_str()));
    targets.filter(|(item, target)| concerns(item, target)).map(|(_, target)| target).collect()
}

/// Takes a step of each circuit that was read. Returns the tasks as the steps decide, and the steps.
pub(crate) async fn take_steps<'a, L: Ledger, C: Clock>(
    items: &'a [Item<'a>],
    tasks: Vec<Task<'a>>,
    probed: &HashSet<&str>,
    looked_up: Option<&LookedUp>,
    run: &Run<'_, L, C>,
) -> (Vec<Task<'a>>, Vec<Taken<'a>>) {
    let Some(memory) = run.circuits else { return (tasks, Vec::new()) };
    let mut found = Vec::new();
    for (target, mut group) in groups(items, &tasks) {
        let Some(there) = looked_up.filter(|_| probed.contains(target)) else {
            // Without a circuit, nothing is limited.
            remember(target, &group, Pass::Due, memory);
            continue;
        };
        if there.paused.contains(target) {
            // Due events already wait for the pause. No other may be retried instead, not even as a probe.
            (group.early, group.fresh) = Default::default();
        }
        let stored = there.circuits.get(target).cloned().unwrap_or_default();
        found.push(step(target, group, stored, memory, run));
    }
    let (mut decisions, mut not_written, mut steps) =
        (Decisions::new(), BTreeSet::new(), Vec::new());
    for ruling in join_all(found).await {
        decisions.extend(ruling.decisions);
        not_written.extend(ruling.not_written);
        steps.extend(ruling.taken);
    }
    let ruled = |task: Task<'a>| {
        let nth = task.item.nth;
        let fault = not_written.contains(&nth).then_some(Obstacle::Ledger);
        let task = task.with_obstacle(fault);
        match decisions.get(&nth) {
            Some(&decision) => task.decided(decision),
            None => task,
        }
    };
    (tasks.into_iter().map(ruled).collect(), steps)
}

/// Remembers the counts of a group that are not in its circuit.
fn remember(target: &str, group: &Group<'_, '_>, pass: Pass, memory: &CircuitMemory) {
    let invoked = if pass == Pass::Due { count(&group.due) } else { 0 };
    memory.with(target, |memory| memory.count(&group.failed, invoked));
}

async fn step<'a, L: Ledger, C: Clock>(
    target: &'a str,
    group: Group<'a, '_>,
    mut stored: Stored,
    memory: &CircuitMemory,
    run: &Run<'_, L, C>,
) -> Ruling<'a> {
    let prober = group.waiting().find_map(|it| Some((it.item, next_attempt(it.item)?)));
    let name = group.name;
    let attempts: Vec<_> = group.due.iter().filter_map(|it| next_attempt(it.item)).collect();
    let mut remembered = memory.with(target, |remembered| remembered.clone());
    remembered.count(&group.failed, 0);
    let mut not_written = Vec::new();
    for _ in 0..LOOKS_MAX {
        let now = run.clock.now();
        let circuit = circuit_of(&stored, target, now);
        let batch = Batch {
            seen: remembered.seen,
            failed: &remembered.failed,
            attempts: &attempts,
            reports: remembered.may_report(now),
            returned: &group.returned,
            due: count(&group.due),
            early: count(&group.early),
            fresh: count(&group.fresh),
            candidate: prober.as_ref().map(|(_, of)| of),
            permits: remembered.permits,
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
                remembered.postpone_report(now);
                memory.with(target, |it| it.postpone_report(now));
                continue;
            }
            Err(NotExchanged::Fault(_)) => {
                not_written = group.due.iter().map(|task| task.item.nth).collect();
                break;
            }
        };
        if !wrote {
            remember(target, &group, pass, memory);
        }
        memory.with(target, |remembered| {
            if wrote {
                remembered.report(now);
            }
            remembered.permits = permits;
            remembered.closed_at = circuit.is_calm().then_some(now);
            remembered.step_at = circuit.step_at();
        });
        let first = prober.as_ref().map(|(item, _)| *item);
        let decisions = group.pass(pass, first, watch, &circuit, now);
        // Another handler may be making the probe that this one repeats.
        let probe = prober.filter(|_| pass == Pass::Probe && !repeats);
        let taken = Some(Taken { target, name, circuit, version, asks, wakes, probe });
        return Ruling { decisions, not_written, taken };
    }
    // The step was not written, so other handlers' steps are unknown. Due events wait unless the circuit is closed.
    let now = run.clock.now();
    let circuit = circuit_of(&stored, target, now);
    let pass = if circuit.is_closed() { Pass::Due } else { Pass::Some(0) };
    remember(target, &group, pass, memory);
    Ruling { decisions: group.pass(pass, None, None, &circuit, now), not_written, taken: None }
}

fn count<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}
