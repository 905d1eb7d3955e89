//! Follows up on steps: asks CloudWatch, brings events forward, and gives back a probe that was not made.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{
    Timestamp,
    circuit::{Circuit, WakeUps},
    claim::LOOKS_MAX,
    decision::visibility_timeout,
    fault::StoreFault,
};
use futures_util::{StreamExt, future::join_all, stream};

use super::{
    circuits::{circuit_of, draw, exchange},
    steps::Taken,
};
use crate::{
    answers::Answered,
    log,
    ports::{
        Clock, ENTRIES_MAX, Functions, Ledger, Listing, NotExchanged, Queues, Stored,
        VisibilityChange,
    },
    report::TargetReport,
    run::Run,
    sends::CALLS_AT_ONCE,
};

/// How far back CloudWatch is asked for counts.
const MINUTES: Duration = Duration::from_mins(8);

/// A step whose target has been asked about, and whose events have been brought forward.
pub(crate) struct FollowedUp<'a> {
    taken: Taken<'a>,
    brought_forward: u32,
}

/// Asks CloudWatch and brings events forward, concurrently with the rest of the batch.
pub(crate) async fn follow_up<'a, L: Ledger, C: Clock>(
    steps: Vec<Taken<'a>>,
    queues: &impl Queues,
    functions: &impl Functions,
    run: &Run<'_, L, C>,
) -> Vec<FollowedUp<'a>> {
    let follow_up = steps.into_iter().map(async |mut taken| {
        if taken.asks {
            taken = ask(taken, functions, run).await;
        }
        let mut brought_forward = 0;
        if let Some(wakes) = taken.wakes.filter(|_| run.registers) {
            let woken = wake(taken.target, wakes, queues, run).await.unwrap_or_else(|fault| {
                log::not_listed(taken.target, &fault);
                Woken { count: 0, are_all: false }
            });
            brought_forward = woken.count;
            if !woken.are_all {
                let more_wait = |circuit: &Circuit, _, _| Some((circuit.more_wait()?, None));
                taken = amend(taken, run, more_wait).await;
            }
        }
        FollowedUp { taken, brought_forward }
    });
    join_all(follow_up).await
}

/// Reports the steps, after the items at these places of the batch were invoked. A probe that could not be made is
/// given back.
pub(crate) async fn conclude<L: Ledger, C: Clock>(
    steps: Vec<FollowedUp<'_>>,
    invoked: &[usize],
    run: &Run<'_, L, C>,
) -> Vec<TargetReport> {
    let conclude = steps.into_iter().map(async |FollowedUp { taken, brought_forward }| {
        let was_made = taken.probe.as_ref().is_some_and(|(item, _)| invoked.contains(&item.nth));
        if let Some((_, of)) = taken.probe.as_ref().filter(|_| !was_made)
            && let Some(next) = taken.circuit.not_probed(of, run.clock.now())
        {
            // If another handler has written the circuit, the probe has already ended.
            let stored = Stored { version: taken.version, text: None };
            let _ = exchange(taken.target, &stored, &taken.circuit, next, run).await;
        }
        TargetReport {
            target: taken.name.to_owned(),
            is_open: taken.circuit.down_since().is_some(),
            probes: u32::from(was_made),
            brought_forward,
        }
    });
    join_all(conclude).await
}

async fn ask<'a, L: Ledger, C: Clock>(
    taken: Taken<'a>,
    functions: &impl Functions,
    run: &Run<'_, L, C>,
) -> Taken<'a> {
    let (target, now) = (taken.target, run.clock.now());
    match functions.minutes(target, now - MINUTES, now).await {
        Ok(minutes) => {
            let witnessed = |circuit: &Circuit, version, now| {
                let step = circuit.after_cloudwatch(&minutes, now, draw(target, version))?;
                Some((step.next?, step.wakes))
            };
            amend(taken, run, witnessed).await
        }
        Err(fault) => {
            log::not_witnessed(target, &fault);
            taken
        }
    }
}

/// Changes the circuit after the step. If another handler has written it meanwhile, the change is made to that one.
async fn amend<'a, L: Ledger, C: Clock>(
    taken: Taken<'a>,
    run: &Run<'_, L, C>,
    change: impl Fn(&Circuit, u64, Timestamp) -> Option<(Circuit, Option<WakeUps>)>,
) -> Taken<'a> {
    let mut taken = taken;
    let mut stored = Stored { version: taken.version, text: None };
    for _ in 0..LOOKS_MAX {
        let now = run.clock.now();
        let Some((next, wakes)) = change(&taken.circuit, stored.version, now) else { break };
        match exchange(taken.target, &stored, &taken.circuit, next, run).await {
            Ok((version, circuit)) => {
                let wakes = wakes.or(taken.wakes);
                return Taken { version, circuit, wakes, ..taken };
            }
            Err(NotExchanged::Changed(there)) => {
                taken.circuit = circuit_of(&there, taken.target, now);
                stored = there;
            }
            Err(NotExchanged::Fault(_)) => break,
        }
    }
    taken
}

/// What was brought forward.
struct Woken {
    count: u32,
    /// Whether these are all that wait. There may be more if the register can't be read, if as many as were wanted were
    /// found, or if some wait as delays.
    are_all: bool,
}

/// Brings events that wait in flight forward.
async fn wake<L: Ledger, C: Clock>(
    target: &str,
    wakes: WakeUps,
    queues: &impl Queues,
    run: &Run<'_, L, C>,
) -> Result<Woken, StoreFault> {
    let Some(ledger) = run.ledger else { return Ok(Woken { count: 0, are_all: true }) };
    let Listing { in_flight: listed, has_delays } =
        ledger.list(target, wakes.until, wakes.count).await?;
    let now = run.clock.now();
    let all = u32::try_from(listed.len()).unwrap_or(u32::MAX);
    let mut by_queue: BTreeMap<&str, Vec<VisibilityChange<'_>>> = BTreeMap::new();
    for (nth, waiting) in (0..).zip(&listed) {
        let timeout = visibility_timeout(wakes.at(nth, all), now);
        let change = VisibilityChange { receipt_handle: &waiting.receipt_handle, timeout };
        by_queue.entry(&waiting.queue_url).or_default().push(change);
    }
    let calls = by_queue.iter().flat_map(|(&queue_url, changes)| {
        changes.chunks(ENTRIES_MAX).map(async move |part| {
            let answers = queues.change_visibility(queue_url, part).await;
            // A message that was received meanwhile has another handle, so its entry fails. It has come back by itself.
            Answered::of(part, answers).pairs().filter(|(_, answer)| answer.is_ok()).count()
        })
    });
    let brought = stream::iter(calls)
        .buffer_unordered(CALLS_AT_ONCE)
        .fold(0, async |sum: usize, brought| sum + brought)
        .await;
    let count = u32::try_from(brought).unwrap_or(u32::MAX);
    Ok(Woken { count, are_all: all < wakes.count && !has_delays })
}
