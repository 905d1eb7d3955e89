//! Each failure is acted on once: it is claimed before, and marked after.
//!
//! Without a ledger everybody may act. With one, a message whose failure was acted on already is
//! dropped; one whose failure another invocation is acting on waits until that one has surely ended;
//! and one of which nobody can tell waits until somebody can, or until SQS would delete it. A claim that could not be marked ends with
//! its lease: then a further delivery of the same failure, should there be one, acts again.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    claim::{Claim, Claimant, LOOKS_MAX, Verdict, is_same},
    fault::StoreFault,
};

use crate::{
    batch::{Context, Handler},
    item::Item,
    log,
    ports::{Clock, Ledger, NotReplaced},
    report::Obstacle,
};

/// How long a claim is remembered: SQS keeps no message for longer.
const KEPT: Duration = Duration::from_hours(14 * 24);

/// Why a message may not be acted on now.
pub(crate) enum Barred {
    /// Its failure was acted on already.
    Done,
    /// Another invocation of the handler is at work.
    Held {
        /// When it has surely ended.
        until: Timestamp,
    },
    /// Nobody can tell.
    Unknown(StoreFault),
}

impl<Q, F, L: Ledger, C: Clock> Handler<Q, F, L, C> {
    /// Claims an item's failure. What no failure could be read of has nothing to claim by.
    pub(crate) async fn claim(&self, item: &Item<'_>, context: &Context<'_>) -> Result<(), Barred> {
        let (Some(ledger), Some(failure)) = (&self.ledger, item.failure()) else { return Ok(()) };
        let owner = format!("{}/{}", context.request_id, item.nth);
        let claimant = Claimant { owner: &owner, deadline: context.deadline, kept: KEPT };
        let mut found = None;
        for _ in 0..LOOKS_MAX {
            let claim = match claimant.judge(found.as_ref(), self.clock.now()) {
                Verdict::Own(claim) => {
                    item.hold(claim);
                    return Ok(());
                }
                Verdict::Take(claim) => claim,
                Verdict::Held { until } => return Err(Barred::Held { until }),
                Verdict::Done => return Err(Barred::Done),
            };
            // Before the write: it may be made though its answer is lost, and is to be released then.
            item.hold(claim.clone());
            match ledger.replace(failure.claim_key(), found.as_ref(), Some(&claim)).await {
                Ok(()) => return Ok(()),
                Err(NotReplaced::Changed(now_there)) => {
                    item.let_go();
                    found = now_there;
                }
                Err(NotReplaced::Fault(fault)) => {
                    if !fault.passes {
                        item.let_go();
                    }
                    return Err(Barred::Unknown(fault));
                }
            }
        }
        let message = "the claim changed each time it was looked at".to_owned();
        Err(Barred::Unknown(StoreFault { passes: true, code: None, message }))
    }

    /// Notes that the item's failure was acted on.
    pub(crate) async fn mark(&self, item: &Item<'_>) {
        let done = |held: &Claim| Some(held.done());
        match self.rewrite(item, done).await {
            Ok(()) => {}
            Err(NotReplaced::Changed(_)) => log::claim_lost(item),
            Err(NotReplaced::Fault(fault)) => {
                item.met(Obstacle::Ledger);
                log::not_marked(item, &fault);
            }
        }
    }

    /// Notes that it was not acted on, so that the next delivery may. What another has taken over by
    /// now is that one's affair.
    pub(crate) async fn release(&self, item: &Item<'_>) {
        if let Err(NotReplaced::Fault(fault)) = self.rewrite(item, |_| None).await {
            item.met(Obstacle::Ledger);
            log::not_released(item, &fault);
        }
    }

    /// Writes what becomes of the claim that the item holds, if it holds one.
    async fn rewrite(
        &self,
        item: &Item<'_>,
        next: impl FnOnce(&Claim) -> Option<Claim>,
    ) -> Result<(), NotReplaced> {
        let (Some(ledger), Some(failure)) = (&self.ledger, item.failure()) else { return Ok(()) };
        let Some(held) = item.held() else { return Ok(()) };
        let next = next(&held);
        // It is held until the answer is there: a mark that is cut off is told of.
        let written = ledger.replace(failure.claim_key(), Some(&held), next.as_ref()).await;
        item.let_go();
        match written {
            // A write whose answer was lost, and that was made again, finds what it has written.
            Err(NotReplaced::Changed(there)) if is_same(there.as_ref(), next.as_ref()) => Ok(()),
            written => written,
        }
    }
}
