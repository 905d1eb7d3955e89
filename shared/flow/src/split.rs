//! Split: the phase that sends S3's notices of several objects again, as one notice for each object, and those of
//! batches that are too large for one invocation, as one notice for each part.
//!
//! Each of these objects and parts is an event of its own, with its wait, its attempts and its end, so each needs a
//! message of its own. The whole notice is done once all of these were sent. If one could not be sent, the whole notice
//! comes back, and those that were sent come twice. With a ledger, each failure is still acted on once.

use comeback_core::{
    Timestamp,
    fault::{FaultKind, InvokeFault, StoreFault},
    settings::Settings,
};
use futures_util::{StreamExt, stream};

use crate::{
    answers::Answered,
    budget::within,
    faults::{out_of_time, unfetched},
    item::Item,
    log,
    message::Source,
    phase::Done,
    ports::{Clock, Queues},
    report::Outcome,
    run::Run,
    sends::{CALLS_AT_ONCE, by_size},
};

/// Splits these notices until this time. Those that can't be split now are to wait.
pub(crate) async fn split<'e, Q: Queues, L, C: Clock>(
    items: Vec<Item<'e>>,
    queues: &Q,
    settings: &'e Settings,
    until: Timestamp,
    run: &Run<'_, L, C>,
) -> Vec<Done<'e>> {
    let split = items.into_iter().map(async |item| {
        let sent = within(run.clock, until, send(&item, queues)).await;
        let Err(fault) = sent.unwrap_or_else(|| Err(out_of_time("the notices were sent"))) else {
            return Done::Ended(item, Outcome::Split);
        };
        log::not_split(&item, &fault);
        let queue = item.source().and_then(Source::url).unwrap_or_default();
        Done::Settled(unfetched(item, &fault, &queue, settings, run))
    });
    stream::iter(split).buffer_unordered(CALLS_AT_ONCE).collect().await
}

/// Sends the notices that replace this one. The error is the first fault.
async fn send<Q: Queues>(item: &Item<'_>, queues: &Q) -> Result<(), StoreFault> {
    let Some(url) = item.source().and_then(Source::url) else {
        let message = "its eventSourceARN names no queue: set RETRY_QUEUE_URL".to_owned();
        return Err(StoreFault { is_transient: false, code: None, message });
    };
    let notices = item.replacements();
    let calls = by_size(&notices, |notice| notice.size()).into_iter().map(async |part| {
        let entries: Vec<_> = part.iter().collect();
        let answers = queues.send_again(&url, &entries).await;
        Answered::of(part, answers).pairs().find_map(|(_, answer)| answer.err())
    });
    let faults = stream::iter(calls).buffer_unordered(CALLS_AT_ONCE);
    let faults: Vec<InvokeFault> = faults.filter_map(async |fault| fault).collect().await;
    match faults.into_iter().next() {
        None => Ok(()),
        Some(InvokeFault { kind, code, message }) => {
            let is_transient = matches!(kind, FaultKind::Transient { .. });
            Err(StoreFault { is_transient, code, message })
        }
    }
}
