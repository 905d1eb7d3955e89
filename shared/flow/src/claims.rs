//! Claims each failure before it is acted on and marks it afterwards, so that it is acted on once.
//!
//! Without a ledger, every invocation may act. With one, a message whose failure was already acted on is dropped. If
//! another invocation is acting on the failure, the message waits until that invocation has surely ended. If the ledger
//! is unavailable, the message waits until it works again, or until SQS would delete the message.
//!
//! A claim that could not be marked ends with its lease. If the same failure is then delivered again, it is
//! acted on again.

use std::borrow::Cow;

use comeback_core::{
    Timestamp,
    claim::{Claim, Claimant, LOOKS_MAX, Verdict, is_same},
    decision::Decision,
    fault::StoreFault,
    lineage::{Known, Note, Parent, RETENTION, Write},
    log_line::decision,
};

use crate::{
    held::{After, Held, Progress},
    item::Item,
    log,
    ports::{Clock, Ledger, NotReplaced},
    report::Obstacle,
    run::Run,
    task::{Act, Task},
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
    Unknown {
        fault: StoreFault,
        /// The claim whose write may have succeeded although its answer is lost. It has to be released or marked.
        held: Option<Box<Held>>,
    },
}

impl NotClaimed {
    fn unasked(fault: StoreFault) -> Self {
        Self::Unknown { fault, held: None }
    }
}

/// Claims a task's failure. An unreadable message has no request id, so there is nothing to claim, as without a ledger.
pub(crate) async fn claim<L: Ledger, C: Clock>(
    task: &Task<'_>,
    run: &Run<'_, L, C>,
) -> Result<Option<Held>, NotClaimed> {
    let item = task.item;
    let (Some(ledger), Some(_)) = (run.ledger, item.accepted()) else { return Ok(None) };
    let mut found = task.entered.map(|entered| Cow::Borrowed(&entered.known));
    for _ in 0..LOOKS_MAX {
        let known = found.as_deref();
        let claim = match judge(item, known.map(|known| &known.claim), run.clock.now(), run) {
            Verdict::Own(claim) => return Ok(Some(hold(task, claim, known, run))),
            Verdict::Take(claim) => claim,
            Verdict::Held { until } => return Err(NotClaimed::Held { until }),
            Verdict::Done => return Err(NotClaimed::Done),
        };
        if let Some(known) = known.filter(|known| known.may_be_retried()) {
            // Another handler may have retried it. The item of the run that it has started says so.
            let siblings = ledger.siblings(item.key(), true).await.map_err(NotClaimed::unasked)?;
            if siblings.answers(&item.key().run, &known.calls) {
                return Err(NotClaimed::Done);
            }
        }
        let held = hold(task, claim, known, run);
        let removed = known.filter(|_| held.call.is_some());
        let removed = removed.map_or_else(Vec::new, |known| known.calls_over(run.clock.now()));
        let write = Write {
            seen: known.map(|known| &known.claim),
            next: Some(&held.claim),
            metadata: item.noted(),
            calls: held.call.as_slice(),
            removed: &removed,
            ..Write::default()
        };
        match ledger.write(item.key(), &write).await {
            Ok(()) => return Ok(Some(held)),
            Err(NotReplaced::Changed(current)) => {
                found = current.map(|current| Cow::Owned(*current));
            }
            Err(NotReplaced::Fault(fault)) => {
                let held = fault.is_transient.then(|| Box::new(held));
                return Err(NotClaimed::Unknown { fault, held });
            }
        }
    }
    let message = "the claim changed each time it was looked at".to_owned();
    Err(NotClaimed::unasked(StoreFault { is_transient: true, code: None, message }))
}

/// A claim, with the call that is about to be made under it without an envelope. It is written with the claim, so
/// that the record of its run is recognized even if this handler dies.
fn hold<L, C: Clock>(
    task: &Task<'_>,
    claim: Claim,
    found: Option<&Known>,
    run: &Run<'_, L, C>,
) -> Held {
    let item = task.item;
    Held {
        // An operator's order in the claim may have changed the decision.
        call: match task.decision_under(&claim) {
            Decision::Invoke => item.call(&claim, run.clock.now()),
            Decision::Settle(_) => None,
        },
        is_alone: found.is_none_or(|known| known.note.is_none() && known.calls.is_empty())
            && item.noted().is_none(),
        claim,
        progress: Progress::NotAccepted,
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
    let claimant = Claimant { owner: &owner, deadline: run.context.deadline, retention: RETENTION };
    claimant.judge(found, now)
}

/// The unique name under which this invocation acts on the item.
pub(crate) fn owner<L, C>(item: &Item<'_>, run: &Run<'_, L, C>) -> String {
    format!("{}/{}", run.context.request_id, item.nth)
}

/// Records that the item's failure was acted on. Of a retry without an envelope, the note of the run that it has
/// started says so.
pub(crate) async fn mark<L: Ledger, C: Clock>(act: &Act<'_>, run: &Run<'_, L, C>) {
    let (Some(ledger), Some(held)) = (run.ledger, &act.held) else { return };
    let item = act.item();
    let now = run.clock.now();
    let written = match (&held.call, &held.progress) {
        (Some(call), Progress::Accepted { request_id: Some(request_id), unanswered }) => {
            let (parent, metadata) = (item.key(), call.metadata.clone());
            let key = parent.sibling(request_id);
            let parent = Some(Parent { run: parent.run.clone(), call: call.name.clone() });
            let note = Note { metadata, parent };
            let known = Known::noted(note, call, call.repeats(*unanswered, now));
            ledger.note(&key, &known).await.map_err(NotReplaced::Fault)
        }
        _ => rewrite(item, held, Some(&held.claim.done()), &held.after(now), run).await,
    };
    run.results.mark(item);
    match written {
        Ok(()) => {}
        Err(NotReplaced::Changed(_)) => log::claim_lost(item),
        Err(NotReplaced::Fault(fault)) => {
            run.results.meet(item, Some(Obstacle::Ledger));
            log::ledger_failed(item, decision::MARK, &fault);
        }
    }
}

/// Releases the claim, so that the next delivery may act. If another invocation has taken it over by now, it stays as
/// it is.
pub(crate) async fn release<L: Ledger, C: Clock>(
    item: &Item<'_>,
    held: Option<&Held>,
    run: &Run<'_, L, C>,
) {
    let Some(held) = held else { return };
    let after = held.after(run.clock.now());
    let released = held.released(&after.calls);
    let written = rewrite(item, held, released.as_ref(), &after, run).await;
    if let Err(NotReplaced::Fault(fault)) = written {
        run.results.meet(item, Some(Obstacle::Ledger));
        log::ledger_failed(item, decision::RELEASE, &fault);
    }
}

/// Replaces a claim that is held, for the last time.
async fn rewrite<L: Ledger, C: Clock>(
    item: &Item<'_>,
    held: &Held,
    next: Option<&Claim>,
    After { calls, removed }: &After,
    run: &Run<'_, L, C>,
) -> Result<(), NotReplaced> {
    let (Some(ledger), Some(_)) = (run.ledger, item.accepted()) else { return Ok(()) };
    debug_assert!(next.is_none_or(|next| next.token == held.claim.token), "another owner's claim");
    let seen = Some(&held.claim);
    let write = Write { seen, next, calls, removed, ..Write::default() };
    match ledger.write(item.key(), &write).await {
        // If the answer was lost and the SDK has repeated the write, it finds its own first write.
        Err(NotReplaced::Changed(there))
            if is_same(there.as_ref().map(|known| &known.claim), next) =>
        {
            Ok(())
        }
        written => written,
    }
}
