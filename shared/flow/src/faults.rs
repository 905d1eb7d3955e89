//! What becomes of a message after a fault of what it needs: it waits, for longer the longer the fault lasts.

use comeback_core::{
    decision::Settlement,
    fault::{FaultKind, InvokeFault, StoreFault},
    settings::Settings,
};

use crate::{item::Item, log, outages::LEDGER, ports::Clock, report::Obstacle, run::Run};

/// The fault of a call that was given up because there was no time left for it.
pub(crate) fn out_of_time(before: &str) -> StoreFault {
    let message = format!("the handler ran out of time before {before}");
    StoreFault { is_transient: true, code: None, message }
}

/// The same message, which waits because its record can't be read, or its notices can't be sent, at this place.
pub(crate) fn unfetched<'e, L, C: Clock>(
    item: Item<'e>,
    fault: &StoreFault,
    place: &str,
    settings: &'e Settings,
    run: &Run<'_, L, C>,
) -> Item<'e> {
    let obstacle = if fault.is_transient { Obstacle::Throttled } else { Obstacle::Configuration };
    let now = run.clock.now();
    let since = run.outages.met(place, now);
    let judgement = item.judgement.clone().unfetched(fault.is_transient, since, now);
    item.judged_again(settings, judgement).hindered(obstacle)
}

/// How to settle a message of which the ledger can't say anything now.
pub(crate) fn unclaimed<L, C: Clock>(
    item: &Item<'_>,
    fault: &StoreFault,
    run: &Run<'_, L, C>,
) -> Settlement {
    let now = run.clock.now();
    let since = run.outages.met(LEDGER, now);
    item.judgement.after_unclaimed(fault.is_transient, since, now)
}

/// How to settle a message whose retry was not accepted, and the obstacle, if a later retry may be accepted.
pub(crate) fn not_accepted<L, C: Clock>(
    item: &Item<'_>,
    fault: &InvokeFault,
    run: &Run<'_, L, C>,
) -> (Settlement, Option<Obstacle>) {
    let now = run.clock.now();
    let obstacle = match fault.kind {
        FaultKind::Transient { .. } => Some(Obstacle::Throttled),
        FaultKind::Configuration => Some(Obstacle::Configuration),
        FaultKind::Refused(_) => None,
    };
    let since = match (obstacle, item.failure()) {
        (Some(_), Some(failure)) => run.outages.met(failure.target.as_str(), now),
        _ => now,
    };
    log::not_accepted(item, fault);
    (item.judgement.after_fault(fault.kind, since, now), obstacle)
}
