//! Recall: the phase that finds out which failures are those of retries without an envelope. Only functions with
//! `TRANSPARENT` need it.
//!
//! The notes for all failures of a batch are read in one consistent read, before anything is done about them. What is
//! found replaces what an envelope would have said, so the phases after this one know of no difference. If it can't be
//! known yet which attempt has failed, the message waits for a short time, and no attempt is counted.

use std::collections::HashMap;

use comeback_core::{
    Timestamp,
    decision::Judgement,
    fault::StoreFault,
    log_line::decision,
    note::{self, Found, Keys},
    settings::Rules,
};
use futures_util::future::join_all;

use crate::{
    budget::within,
    item::Item,
    log,
    outages::LEDGER,
    ports::{Clock, Ledger},
    report::Obstacle,
    run::Run,
};

/// The items of a batch, after the notes for their failures were read.
pub(crate) struct Recalled<'e> {
    pub(crate) items: Vec<Item<'e>>,
    /// Those of which it is unknown which attempt has failed.
    pub(crate) unknown: Vec<Item<'e>>,
}

/// What is known about an item.
enum Known<'e> {
    Judged {
        judgement: Box<Judgement<'e>>,
        /// The senders of its payload whose sendings no record needs any more.
        over: Vec<String>,
    },
    /// Its note may be about to be written.
    NotYet {
        again_at: Timestamp,
    },
    Failed(StoreFault),
}

/// Reads the notes for these items until this time, as far as their functions are retried without an envelope.
pub(crate) async fn recall<'e, L: Ledger, C: Clock>(
    items: Vec<Item<'e>>,
    rules: &Rules,
    until: Timestamp,
    run: &Run<'_, L, C>,
) -> Recalled<'e> {
    let sought = items.iter().filter_map(|it| Some((it, it.judgement.note_keys()?)));
    let (of, keys): (Vec<&Item<'e>>, Vec<Keys>) = sought.unzip();
    let (Some(ledger), false) = (run.ledger, keys.is_empty()) else {
        return Recalled { items, unknown: Vec::new() };
    };
    let found = within(run.clock, until, read(&keys, ledger)).await;
    let found = found.unwrap_or_else(|| vec![Err(cut_off()); keys.len()]);
    let informed = of.iter().zip(&keys).zip(found);
    let informed = informed.map(async |((item, keys), found)| {
        let known = match found {
            Ok(found) => inform(item, keys, found, rules, ledger, until, run).await,
            Err(fault) => Known::Failed(fault),
        };
        (item.nth, known)
    });
    let mut known: HashMap<_, _> = join_all(informed).await.into_iter().collect();
    let mut sought: HashMap<_, _> = of.into_iter().map(|item| item.nth).zip(keys).collect();
    let mut recalled = Recalled { items: Vec::with_capacity(items.len()), unknown: Vec::new() };
    for item in items {
        let Some(Keys { sendings, .. }) = sought.remove(&item.nth) else {
            recalled.items.push(item);
            continue;
        };
        match known.remove(&item.nth).unwrap_or_else(|| Known::Failed(cut_off())) {
            Known::Judged { judgement, over } => {
                recalled.items.push(item.recalled(*judgement, sendings, over));
            }
            Known::NotYet { again_at } => {
                log::not_yet_recalled(&item, again_at);
                let settlement = item.judgement.after_held(again_at, run.clock.now());
                recalled.unknown.push(item.unknown(settlement));
            }
            Known::Failed(fault) => {
                item.note_obstacle(Some(Obstacle::Ledger));
                log::not_written(&item, decision::RECALL, &fault);
                let now = run.clock.now();
                let since = run.outages.met(LEDGER, now);
                let settlement = item.judgement.after_unclaimed(fault.passes, since, now);
                recalled.unknown.push(item.unknown(settlement));
            }
        }
    }
    recalled
}

/// The fault of a call that was given up, so that other messages need not wait for it.
fn cut_off() -> StoreFault {
    let message = "the ledger did not answer in time".to_owned();
    StoreFault { passes: true, code: None, message }
}

/// Reads what there is for each of these keys.
async fn read<L: Ledger>(keys: &[Keys], ledger: &L) -> Vec<Result<Found, StoreFault>> {
    let fault = match ledger.recall(keys).await {
        Ok(found) if found.len() == keys.len() => return found.into_iter().map(Ok).collect(),
        Ok(found) => {
            let message =
                format!("expected notes for {} failures, got {}", keys.len(), found.len());
            StoreFault { passes: false, code: None, message }
        }
        Err(fault) => fault,
    };
    vec![Err(fault); keys.len()]
}

async fn inform<'e, L: Ledger, C: Clock>(
    item: &Item<'e>,
    keys: &Keys,
    found: Found,
    rules: &Rules,
    ledger: &L,
    until: Timestamp,
    run: &Run<'_, L, C>,
) -> Known<'e> {
    let now = run.clock.now();
    let Some(failure) = item.accepted() else { return Known::NotYet { again_at: now } };
    let (judgement, over) = (item.judgement.clone(), found.over(now));
    match found.recall(&failure.request_id, failure.failed_at, now) {
        note::Recalled::Nothing => Known::Judged { judgement: Box::new(judgement), over },
        note::Recalled::Retry(metadata) => {
            let judgement = Box::new(judgement.continuing(metadata, rules, now));
            Known::Judged { judgement, over }
        }
        note::Recalled::Unknown { again_at } => Known::NotYet { again_at },
        note::Recalled::Orphan(orphan) => {
            let judgement = judgement.continuing(orphan.metadata.clone(), rules, now);
            let adopted = within(run.clock, until, ledger.adopt(&keys.adopt(&orphan, now))).await;
            match adopted.unwrap_or_else(|| Err(cut_off())) {
                Ok(true) => Known::Judged { judgement: Box::new(judgement), over },
                // The record of another event with the same payload has just taken it.
                Ok(false) => Known::NotYet { again_at: now },
                Err(fault) => Known::Failed(fault),
            }
        }
    }
}
