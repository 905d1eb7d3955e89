//! Each failure is acted on once: it is claimed before, and marked after.
//!
//! Without a ledger everybody may act. With one, a message whose failure was acted on already is
//! dropped, and one whose failure another invocation is acting on waits until that one has surely
//! ended. A claim that could not be marked ends with its lease: then a further delivery of the same
//! failure, should there be one, acts again. Lost is never worse than twice.

use comeback_core::{
    Timestamp,
    claim::{Claim, Claimant, Verdict},
    fault::{FaultKind, InvokeFault},
};

use crate::{
    batch::{Context, Handler},
    item::Item,
    log,
    ports::{Clock, Ledger, NotReplaced},
};

/// How often a claim that changes under our eyes is looked at, at most: whoever changes it is at work.
const LOOKS_MAX: u32 = 3;

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
    Unknown(InvokeFault),
}

impl<Q, F, L: Ledger, C: Clock> Handler<Q, F, L, C> {
    /// Claims an item's failure. What no failure could be read of has nothing to claim by.
    pub(crate) async fn claim(&self, item: &Item<'_>, context: &Context<'_>) -> Result<(), Barred> {
        let (Some(ledger), Some(failure)) = (&self.ledger, item.failure()) else { return Ok(()) };
        let owner = format!("{}/{}", context.request_id, item.nth);
        let claimant = Claimant { owner: &owner, deadline: context.deadline };
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
            match ledger.replace(&failure.request_id, found.as_ref(), Some(&claim)).await {
                Ok(()) => {
                    item.hold(claim);
                    return Ok(());
                }
                Err(NotReplaced::Changed(now_there)) => found = now_there,
                Err(NotReplaced::Fault(fault)) => return Err(Barred::Unknown(fault)),
            }
        }
        Err(Barred::Unknown(InvokeFault {
            kind: FaultKind::Transient { retry_after: None },
            code: None,
            message: "the claim changed each time it was looked at".to_owned(),
        }))
    }

    /// Notes that the item's failure was acted on.
    pub(crate) async fn mark(&self, item: &Item<'_>) {
        let done = item.claim().map(Claim::done);
        self.follow_up(item, done.as_ref()).await;
    }

    /// Notes that it was not acted on, so that the next delivery may.
    pub(crate) async fn release(&self, item: &Item<'_>) {
        self.follow_up(item, None).await;
    }

    /// Writes what becomes of the claim that the item holds, if there is a ledger and it holds one.
    async fn follow_up(&self, item: &Item<'_>, next: Option<&Claim>) {
        let (Some(ledger), Some(failure), Some(held)) =
            (&self.ledger, item.failure(), item.claim())
        else {
            return;
        };
        match ledger.replace(&failure.request_id, Some(held), next).await {
            Ok(()) => {}
            Err(NotReplaced::Changed(there)) => {
                // A write whose answer was lost, and that was made again, finds what it wrote.
                let written = match (&there, next) {
                    (Some(there), Some(next)) => there.is(next),
                    (there, next) => there.is_none() && next.is_none(),
                };
                if !written {
                    log::claim_lost(item);
                }
            }
            Err(NotReplaced::Fault(fault)) => log::claim_left(item, &fault),
        }
    }
}
