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
    log_line::decision,
    register::Waiting,
};
use futures_util::future::join_all;

use crate::{
    Run,
    item::Item,
    log,
    message::Source,
    outages::LEDGER,
    ports::{Clock, Ledger, NotReplaced, Notes, Wanted},
    report::{Obstacle, Outcome},
    settlements::Wait,
};

/// Reads the orders for a batch, and the circuits of the `probed` targets. A batch of first receives reads nothing,
/// because there can be no orders for its events yet. Returns `None` if nothing was read.
pub(crate) async fn look<L: Ledger, C: Clock>(
    items: &[Item<'_>],
    probed: &HashSet<&str>,
    run: &Run<'_, L, C>,
) -> Option<Notes> {
    let ledger = run.ledger?;
    let mut wanted = Wanted { targets: probed.clone(), ..Wanted::default() };
    let registered = items.iter().filter(|_| run.registers);
    for (item, failure) in registered.filter_map(|item| Some((item, item.accepted()?))) {
        if item.came_back() {
            wanted.events.insert(failure.claim_key());
        }
        if item.decision() == Decision::Invoke {
            wanted.targets.insert(failure.target.as_str());
        }
    }
    if wanted == Wanted::default() {
        return None;
    }
    let found = ledger.look_up(&wanted).await;
    if let Err(fault) = &found {
        log::not_looked_up(fault);
        let now = run.clock.now();
        let since = run.outages.met(LEDGER, now);
        let registered = items.iter().filter(|_| run.registers);
        registered.for_each(|item| look_up_soon(item, fault, since, now));
    }
    found.ok()
}

/// Changes the decisions about events that were acted on, that an operator has ordered, or whose targets are paused.
pub(crate) fn steer<L: Ledger, C: Clock>(items: &[Item<'_>], notes: &Notes, run: &Run<'_, L, C>) {
    let now = run.clock.now();
    for (item, failure) in items.iter().filter_map(|item| Some((item, item.accepted()?))) {
        let entered = notes.events.get(&failure.claim_key());
        if let Some(entered) = entered {
            item.note_entered(entered.clone());
        }
        // A message that is visible although its event does not wait was made visible by an old receipt handle. It
        // must not stay until the event would have been due.
        match run.judge(item, entered.map(|entered| &entered.claim), now) {
            Verdict::Done => {
                log::end(item, Outcome::Duplicate);
                continue;
            }
            Verdict::Held { until } => item.wait_at_most(item.judgement.after_held(until, now)),
            Verdict::Own(_) | Verdict::Take(_) => {}
        }
        let is_paused = notes.paused.contains(failure.target.as_str());
        if is_paused && item.decision() == Decision::Invoke && item.order().is_none() {
            item.decide(Decision::Settle(item.judgement.paused(now)));
        }
    }
}

/// It is unknown whether there is an order for this event. If its message came back before it is due, maybe because of
/// an order, the event waits only briefly and is looked up again.
fn look_up_soon(item: &Item<'_>, fault: &StoreFault, since: Timestamp, now: Timestamp) {
    if item.came_back() {
        item.note_obstacle(Obstacle::Ledger);
    }
    let may_be_ordered = item.judgement.message.receive_count > 1;
    if may_be_ordered {
        item.wait_at_most(item.judgement.after_unclaimed(fault.passes, since, now));
    }
}

/// Lists the events that begin to wait. Returns those for which an operator has given an order meanwhile.
pub(crate) async fn enter_all<'w, 'a, 'e, L: Ledger, C: Clock>(
    waits: &'w [Wait<'a, 'e>],
    are_in_flight: bool,
    run: &Run<'_, L, C>,
) -> Vec<&'a Item<'e>> {
    if run.ledger.is_none() {
        return Vec::new();
    }
    let enter = async |wait: &'w Wait<'a, 'e>| {
        let receipt_handle = are_in_flight.then(|| wait.item.receipt_handle());
        enter(wait, receipt_handle, run).await.then_some(wait.item)
    };
    join_all(waits.iter().map(enter)).await.into_iter().flatten().collect()
}

/// Lists an event that begins to wait, and releases its claim with the same write. A message in flight has a receipt
/// handle. Returns whether an operator has given an order for it meanwhile.
async fn enter<L: Ledger, C: Clock>(
    wait: &Wait<'_, '_>,
    receipt_handle: Option<&str>,
    run: &Run<'_, L, C>,
) -> bool {
    let Wait { item, until } = *wait;
    let entered = item.entered();
    let is_listed = receipt_handle.is_none()
        && item.held().is_none()
        && entered.as_ref().and_then(|entered| entered.delayed_until) == Some(until);
    // After a claim that may have been written, there is a write in any case: it lists the event, too.
    let may_be_written = item.held().is_some() || !item.lacks_ledger();
    let registers = run.registers && !is_listed && may_be_written;
    let (Some(ledger), Some(failure), Some(schedule), Some(queue_url)) = (
        run.ledger.filter(|_| registers),
        item.accepted(),
        item.judgement.schedule,
        item.source().and_then(Source::url),
    ) else {
        run.release(item).await;
        return false;
    };
    let key = failure.claim_key();
    let waiting = Waiting::of(failure, schedule.attempt, until, &queue_url, receipt_handle);
    let mut seen = item.held().or(entered.map(|entered| entered.claim));
    let known = seen.as_ref().and_then(|seen| seen.order);
    for _ in 0..LOOKS_MAX {
        if item.held().is_none() && seen.as_ref().is_some_and(|seen| is_anothers(seen, run)) {
            return false;
        }
        let next = Claim::waiting(run.owner(item), seen.as_ref(), waiting.expires_at());
        let written = ledger.enter(&key, seen.as_ref(), &next, &waiting).await;
        if let Err(NotReplaced::Fault(fault)) = written {
            item.note_obstacle(Obstacle::Ledger);
            log::not_written(item, decision::REGISTER, &fault);
            run.release(item).await;
            return false;
        }
        item.forget_claim();
        match written {
            Err(NotReplaced::Changed(there)) if !is_same(there.as_ref(), Some(&next)) => {
                seen = there;
            }
            // If the network has repeated the write, it finds its own first write.
            Ok(()) | Err(_) => return next.order != known,
        }
    }
    false
}

/// Whether this claim belongs to an invocation that acts on the failure, or has acted.
fn is_anothers<L, C: Clock>(seen: &Claim, run: &Run<'_, L, C>) -> bool {
    seen.state != State::Waiting && !seen.is_expired(run.clock.now())
}
