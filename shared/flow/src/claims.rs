//! Claims each failure before it is acted on and marks it afterwards, so that it is acted on once.
//!
//! Without a ledger, every invocation may act. With one, a message whose failure was already acted on is dropped. If
//! another invocation is acting on the failure, the message waits until that invocation has surely ended. If the ledger
//! is unavailable, the message waits until it works again, or until SQS would delete the message.
//!
//! A claim that could not be marked ends with its lease. If the same failure is then delivered again, it is
//! acted on again.

use comeback_core::{
    Timestamp,
    claim::{Claim, Claimant, LOOKS_MAX, RETENTION_MAX, State, Verdict, is_same},
    decision::Decision,
    fault::StoreFault,
    log_line::decision,
    note::Unwrapped,
};

use crate::{
    item::Item,
    log,
    ports::{Clock, Ledger, NotReplaced},
    report::Obstacle,
    run::Run,
    task::Task,
};

pub(crate) enum NotClaimed {
    /// Its failure was already acted on.
    Done,
    /// Another invocation of the handler is acting on it.
    Held {
        /// When that invocation has surely ended.
        until: Timestamp,
    },
    /// The ledger is unavailable.
    Unknown(StoreFault),
}

/// Claims a task's failure. An unreadable message has no request id, so there is nothing to claim.
pub(crate) async fn claim<L: Ledger, C: Clock>(
    task: &Task<'_>,
    run: &Run<'_, L, C>,
) -> Result<(), NotClaimed> {
    let item = task.item;
    let (Some(ledger), Some(failure)) = (run.ledger, item.accepted()) else { return Ok(()) };
    let key = failure.claim_key();
    let mut found = task.entered.map(|entered| entered.claim.clone());
    for _ in 0..LOOKS_MAX {
        let claim = match judge(item, found.as_ref(), run.clock.now(), run) {
            Verdict::Own(claim) => {
                hold(task, claim, run);
                return Ok(());
            }
            Verdict::Take(claim) => claim,
            Verdict::Held { until } => return Err(NotClaimed::Held { until }),
            Verdict::Done => return Err(NotClaimed::Done),
        };
        // Noted before the write, which may succeed although its answer is lost. Then the claim has to be released.
        hold(task, claim.clone(), run);
        let sending = item.sending();
        let change = sending.as_ref().map(Unwrapped::begin);
        match ledger.replace(&key, found.as_ref(), Some(&claim), change.as_ref()).await {
            Ok(()) => return Ok(()),
            Err(NotReplaced::Changed(current)) => {
                item.forget_claim();
                found = current;
            }
            Err(NotReplaced::Fault(fault)) => {
                if !fault.passes {
                    item.forget_claim();
                }
                return Err(NotClaimed::Unknown(fault));
            }
        }
    }
    let message = "the claim changed each time it was looked at".to_owned();
    Err(NotClaimed::Unknown(StoreFault { passes: true, code: None, message }))
}

/// Holds a claim, and notes what is about to be sent without an envelope. It is written with the claim, so that the
/// record of its failure is recognized even if this handler dies.
fn hold<L, C: Clock>(task: &Task<'_>, claim: Claim, run: &Run<'_, L, C>) {
    let item = task.item;
    item.hold(claim.clone(), None);
    // An operator's order in the claim may have changed the decision.
    if task.decision() == Decision::Invoke {
        let sending = item.unwrapped(&claim, run.clock.now());
        item.hold(claim, sending);
    }
}

/// Judges the claim that was found for the item, if there is one.
pub(crate) fn judge<L, C>(
    item: &Item<'_>,
    found: Option<&Claim>,
    now: Timestamp,
    run: &Run<'_, L, C>,
) -> Verdict {
    let owner = owner(item, run);
    let claimant = Claimant { owner: &owner, deadline: run.deadline, retention: RETENTION_MAX };
    claimant.judge(found, now)
}

/// The unique name under which this invocation acts on the item.
pub(crate) fn owner<L, C>(item: &Item<'_>, run: &Run<'_, L, C>) -> String {
    format!("{}/{}", run.id, item.nth)
}

/// Records that the item's failure was acted on.
pub(crate) async fn mark<L: Ledger, C: Clock>(item: &Item<'_>, run: &Run<'_, L, C>) {
    let done = |held: &Claim| Some(held.done());
    match rewrite(item, done, run).await {
        Ok(()) => {}
        Err(NotReplaced::Changed(_)) => log::claim_lost(item),
        Err(NotReplaced::Fault(fault)) => {
            item.note_obstacle(Some(Obstacle::Ledger));
            log::not_written(item, decision::MARK, &fault);
        }
    }
}

/// Releases the claim, so that the next delivery may act. If another invocation has taken it over by now, it stays as
/// it is.
pub(crate) async fn release<L: Ledger, C: Clock>(item: &Item<'_>, run: &Run<'_, L, C>) {
    // An operator's order has to stay for the invocation that acts next.
    let ordered =
        |held: &Claim| held.order.map(|_| Claim { state: State::Waiting, ..held.clone() });
    if let Err(NotReplaced::Fault(fault)) = rewrite(item, ordered, run).await {
        item.note_obstacle(Some(Obstacle::Ledger));
        log::not_written(item, decision::RELEASE, &fault);
    }
}

/// Replaces the claim that the item holds, if it holds one.
async fn rewrite<L: Ledger, C: Clock>(
    item: &Item<'_>,
    next: impl FnOnce(&Claim) -> Option<Claim>,
    run: &Run<'_, L, C>,
) -> Result<(), NotReplaced> {
    let (Some(ledger), Some(failure)) = (run.ledger, item.accepted()) else { return Ok(()) };
    let Some(held) = item.held() else { return Ok(()) };
    let next = next(&held);
    debug_assert!(
        next.as_ref().is_none_or(|next| next.token == held.token),
        "another owner's claim"
    );
    let sending = item.sending();
    let change = sending.as_ref().map(|it| it.end(run.clock.now()));
    // Held until the answer arrives, so that a mark which is cut off is logged.
    let written =
        ledger.replace(&failure.claim_key(), Some(&held), next.as_ref(), change.as_ref()).await;
    item.forget_claim();
    match written {
        // If the answer was lost and the SDK has repeated the write, it finds its own first write.
        Err(NotReplaced::Changed(there)) if is_same(there.as_ref(), next.as_ref()) => Ok(()),
        written => written,
    }
}
