//! Lists waiting events in the register, and reads an operator's orders.
//!
//! An event's item is written when it starts to wait, and its claim replaces the item when the wait is over. So a retry
//! costs three writes: register, claim, mark. A wait that goes on is written again only if the message has a new
//! receipt handle.
//!
//! The register is an index. If it can't be written or read, the event is handled without it.

use std::collections::HashSet;

use comeback_core::{
    Timestamp,
    claim::{Claim, LOOKS_MAX, State, Verdict, is_same},
    decision::Decision,
    fault::StoreFault,
    lineage::{RETENTION, Write},
    log_line::decision,
    record::Failure,
    register::Waiting,
    time::later,
};
use futures_util::future::join_all;

use crate::{
    claims,
    held::After,
    item::Item,
    log,
    message::Source,
    outages::LEDGER,
    phase::Phase,
    ports::{Clock, Ledger, LookedUp, NotReplaced, Wanted},
    report::Obstacle,
    run::Run,
    settlements::Wait,
    task::{Act, Task},
};

/// What the ledger's table has about the events and targets of a batch.
pub(crate) enum Looked {
    /// There was nothing to read.
    Nothing,
    Found(LookedUp),
    /// It can't be read.
    Failed {
        fault: StoreFault,
        /// Since when the handler knows that the ledger fails.
        since: Timestamp,
    },
}

impl Looked {
    pub(crate) fn found(&self) -> Option<&LookedUp> {
        match self {
            Self::Found(found) => Some(found),
            Self::Nothing | Self::Failed { .. } => None,
        }
    }
}

/// Reads the orders for a batch, and the circuits of the `probed` targets. A batch of first receives reads nothing,
/// because there can be no orders for its events yet.
pub(crate) async fn look<L: Ledger, C: Clock>(
    items: &[Item<'_>],
    probed: &HashSet<&str>,
    run: &Run<'_, L, C>,
) -> Looked {
    let Some(ledger) = run.ledger else { return Looked::Nothing };
    let mut wanted = Wanted { targets: probed.clone(), ..Wanted::default() };
    let registered = items.iter().filter(|_| run.registers);
    for (item, failure) in registered.filter_map(|item| Some((item, item.accepted()?))) {
        if item.came_back() && !item.is_recalled() {
            wanted.runs.insert(item.key().clone());
        }
        if item.judgement.decision == Decision::Invoke {
            wanted.targets.insert(failure.target.as_str());
        }
    }
    if wanted == Wanted::default() {
        return Looked::Nothing;
    }
    match ledger.look_up(&wanted).await {
        Ok(found) => Looked::Found(found),
        Err(fault) => {
            log::not_looked_up(&fault);
            let since = run.outages.met(LEDGER, run.clock.now());
            Looked::Failed { fault, since }
        }
    }
}

/// Changes the decisions about events that an operator has ordered, or whose targets are paused. Those whose failure
/// was already acted on are done.
pub(crate) fn steer<'a, L: Ledger, C: Clock>(
    items: &'a [Item<'a>],
    looked: &'a Looked,
    run: &Run<'_, L, C>,
) -> Phase<Task<'a>, &'a Item<'a>> {
    let now = run.clock.now();
    let mut steered = Phase { go_on: Vec::with_capacity(items.len()), done: Vec::new() };
    for item in items {
        let task = match looked {
            Looked::Nothing => follow(item, None, now, run),
            Looked::Found(found) => follow(item, Some(found), now, run),
            Looked::Failed { fault, since } if run.registers => {
                Some(look_again_soon(item, fault, *since, now))
            }
            Looked::Failed { .. } => Some(Task::of(item, item.entered())),
        };
        match task {
            Some(task) => steered.go_on.push(task),
            None => steered.done.push(item),
        }
    }
    steered
}

/// Decides about an event as the table says. Returns `None` if its failure was already acted on.
fn follow<'a, L, C: Clock>(
    item: &'a Item<'a>,
    found: Option<&'a LookedUp>,
    now: Timestamp,
    run: &Run<'_, L, C>,
) -> Option<Task<'a>> {
    let Some(failure) = item.accepted() else { return Some(Task::of(item, None)) };
    let looked_up = || found.filter(|found| !found.runs.is_empty())?.runs.get(item.key());
    let entered = item.entered().or_else(looked_up);
    let task = Task::of(item, entered);
    let Some(claim) = entered.map(|entered| &entered.known.claim) else {
        return Some(paused(task, failure, found, now));
    };
    // A message that is visible although its event does not wait was made visible by an old receipt handle. It must not
    // stay until the event would have been due.
    let task = match claims::judge(item, Some(claim), now, run) {
        Verdict::Done => return None,
        Verdict::Held { until } => task.waiting_at_most(item.judgement.after_held(until, now)),
        Verdict::Own(_) | Verdict::Take(_) => task,
    };
    Some(paused(task, failure, found, now))
}

/// The same task, which waits if its target is paused, unless an operator has ordered it.
fn paused<'a>(
    task: Task<'a>,
    failure: &Failure<'_>,
    found: Option<&LookedUp>,
    now: Timestamp,
) -> Task<'a> {
    let is_paused = found.is_some_and(|found| found.paused.contains(failure.target.as_str()));
    if is_paused && task.decision() == Decision::Invoke && task.order().is_none() {
        let settlement = task.item.judgement.paused(now);
        return task.decided(Decision::Settle(settlement));
    }
    task
}

/// It is unknown whether there is an order for this event. If its message came back before it is due, maybe because of
/// an order, the event waits only briefly and is looked up again.
fn look_again_soon<'a>(
    item: &'a Item<'a>,
    fault: &StoreFault,
    since: Timestamp,
    now: Timestamp,
) -> Task<'a> {
    let obstacle = item.came_back().then_some(Obstacle::Ledger);
    let task = Task::of(item, item.entered()).with_obstacle(obstacle);
    let may_be_ordered = item.judgement.message.receive_count > 1;
    if may_be_ordered {
        return task.waiting_at_most(item.judgement.after_unclaimed(
            fault.is_transient,
            since,
            now,
        ));
    }
    task
}

/// Lists the events that begin to wait. Returns those for which an operator has given an order meanwhile.
pub(crate) async fn enter_all<'a, L: Ledger, C: Clock>(
    waits: &[Wait<'a>],
    are_in_flight: bool,
    run: &Run<'_, L, C>,
) -> Vec<&'a Item<'a>> {
    if run.ledger.is_none() {
        return Vec::new();
    }
    let enter = async |wait: &Wait<'a>| {
        let item = wait.act.item();
        let receipt_handle = are_in_flight.then(|| item.receipt_handle());
        enter(wait, receipt_handle, run).await.then_some(item)
    };
    join_all(waits.iter().map(enter)).await.into_iter().flatten().collect()
}

/// Lists an event that begins to wait, and releases its claim with the same write. A message in flight has a receipt
/// handle. Returns whether an operator has given an order for it meanwhile.
async fn enter<L: Ledger, C: Clock>(
    &Wait { ref act, until }: &Wait<'_>,
    receipt_handle: Option<&str>,
    run: &Run<'_, L, C>,
) -> bool {
    let Act { task, held, obstacle } = act;
    let (item, entered, mut held) = (task.item, task.entered, held.as_ref());
    let is_listed = receipt_handle.is_none()
        && held.is_none()
        && entered.and_then(|entered| entered.delayed_until) == Some(until);
    // After a claim that may have been written, there is a write in any case: it lists the event, too.
    let may_be_written = held.is_some() || *obstacle != Some(Obstacle::Ledger);
    let registers = run.registers && !is_listed && may_be_written;
    let (Some(ledger), Some(failure), Some(schedule), Some(queue_url)) = (
        run.ledger.filter(|_| registers),
        item.accepted(),
        item.judgement.schedule,
        item.source().and_then(Source::url),
    ) else {
        claims::release(item, held, run).await;
        return false;
    };
    let waiting = Waiting::of(
        failure,
        item.error_policy(),
        schedule.attempt,
        until,
        &queue_url,
        receipt_handle,
    );
    let found = entered.map(|entered| &entered.known);
    let held_claim = held.map(|held| &held.claim);
    let mut seen = held_claim.or(found.map(|known| &known.claim)).cloned();
    let known = seen.as_ref().and_then(|seen| seen.order);
    let owner = claims::owner(item, run);
    // This write ends the call that was written with the claim, even if the claim is lost by now. Otherwise, failures
    // of other events with the same payload would wait for it, and one of them would be taken for its run.
    let After { calls, removed } = match held {
        Some(held) => held.after(run.clock.now()),
        None => After { calls: Vec::new(), removed: Vec::new() },
    };
    // The note of a run is needed for longer than its entry.
    let keeps = held.is_some_and(|held| !held.is_alone || !calls.is_empty())
        || item.noted().is_some()
        || found.is_some_and(|known| known.note.is_some() || !known.calls.is_empty());
    let expires_at = match keeps {
        true => waiting.expires_at().max(later(run.clock.now(), RETENTION)),
        false => waiting.expires_at(),
    };
    for _ in 0..LOOKS_MAX {
        // If another handler has taken a claim over, its lease is over, and so no failure waits for this sender.
        if seen.as_ref().is_some_and(|seen| is_anothers(seen, &owner, run)) {
            return false;
        }
        let next = Claim::waiting(owner.clone(), seen.as_ref(), expires_at);
        let write = Write {
            seen: seen.as_ref(),
            next: Some(&next),
            waiting: Some(&waiting),
            metadata: item.noted(),
            calls: &calls,
            removed: &removed,
        };
        let written = ledger.write(item.key(), &write).await;
        if let Err(NotReplaced::Fault(fault)) = written {
            run.results.meet(item, Some(Obstacle::Ledger));
            log::ledger_failed(item, decision::REGISTER, &fault);
            claims::release(item, held, run).await;
            return false;
        }
        held = None;
        match written {
            Err(NotReplaced::Changed(there))
                if !is_same(there.as_ref().map(|known| &known.claim), Some(&next)) =>
            {
                seen = there.map(|known| known.claim);
            }
            // If the network has repeated the write, it finds its own first write.
            Ok(()) | Err(_) => return next.order != known,
        }
    }
    false
}

/// Whether this claim belongs to another invocation that acts on the failure, or to any that has acted. The write of
/// the own claim may have taken effect late.
fn is_anothers<L, C: Clock>(seen: &Claim, owner: &str, run: &Run<'_, L, C>) -> bool {
    let is_own = matches!(seen.state, State::Held { .. }) && seen.token.owner == owner;
    let is_free = matches!(seen.state, State::Noted | State::Waiting);
    !is_free && !is_own && !seen.is_expired(run.clock.now())
}
