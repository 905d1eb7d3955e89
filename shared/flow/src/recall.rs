//! Recall: the phase that finds out which failures are those of retries without an envelope. Only functions with
//! `TRANSPARENT` need it.
//!
//! What the ledger knows of the runs of a batch is read in one call, before anything is done about them. It replaces
//! what an envelope would have said, so the phases after this one know of no difference. That call may miss what was
//! written just before. So if it finds nothing, the ledger is asked again, consistently, for this run and for all
//! others with its payload. If it can't be known yet which run has failed, the message waits for a short time, and no
//! attempt is counted.

use comeback_core::{
    Timestamp,
    fault::StoreFault,
    lineage::{self, Key, Note, Sought, root},
    log_line::decision,
    settings::Rules,
};
use futures_util::future::join_all;

use crate::{
    budget::within,
    faults::unclaimed,
    item::Item,
    log,
    phase::{Done, Phase},
    ports::{Clock, Entered, Ledger, Wanted},
    report::Obstacle,
    run::Run,
};

/// A failure is that of the run with this note, or a first one.
#[derive(Default)]
struct Found {
    note: Option<Note>,
    /// The item of its run, if there is one.
    entered: Option<Entered>,
}

/// What is known about an item.
enum Known {
    Run(Box<Found>),
    /// Its note may be about to be written.
    NotYet {
        again_at: Timestamp,
    },
    Failed(StoreFault),
}

/// Asks for the runs of these items until this time, as far as their functions are retried without an envelope. Those
/// of which it is unknown which run has failed wait.
pub(crate) async fn recall<'e, L: Ledger, C: Clock>(
    items: Vec<Item<'e>>,
    rules: &Rules,
    until: Timestamp,
    run: &Run<'_, L, C>,
) -> Phase<Item<'e>, Done<'e>> {
    let keyed = items.into_iter().map(|item| (item.noted_key(), item));
    let (sought, others): (Vec<_>, Vec<_>) = keyed.partition(|(key, _)| key.is_some());
    let others = others.into_iter().map(|(_, item)| item).collect();
    let (Some(ledger), false) = (run.ledger, sought.is_empty()) else {
        let sought = sought.into_iter().map(|(_, item)| item);
        return Phase { go_on: sought.chain(others).collect(), done: Vec::new() };
    };
    let runs = sought.iter().filter_map(|(key, _)| key.clone()).collect();
    let wanted = Wanted { runs, ..Wanted::default() };
    let found = within(run.clock, until, ledger.look_up(&wanted)).await;
    let found = found.unwrap_or_else(|| Err(cut_off())).map(|found| found.runs);
    let (mut known, mut missed) = (Vec::with_capacity(sought.len()), Vec::new());
    for (key, item) in sought.into_iter().filter_map(|(key, item)| Some((key?, item))) {
        match &found {
            Err(fault) => known.push((item, Known::Failed(fault.clone()))),
            Ok(found) => match found.get(&key) {
                Some(entered) => known.push((item, Known::of(entered))),
                None => missed.push((key, item)),
            },
        }
    }
    let asked = missed.into_iter().map(async |(key, item)| {
        let known = ask(&item, &key, ledger, until, run).await;
        (item, known)
    });
    known.extend(join_all(asked).await);
    let mut recalled = Phase { go_on: others, done: Vec::new() };
    for (item, known) in known {
        let now = run.clock.now();
        match known {
            Known::Run(found) => {
                let Found { note, entered } = *found;
                recalled.go_on.push(item.recalled(note, entered, rules, now));
            }
            Known::NotYet { again_at } => {
                log::not_yet_recalled(&item, again_at);
                let settlement = item.judgement.after_held(again_at, now);
                recalled.done.push(Done::Settled(item.unknown(settlement)));
            }
            Known::Failed(fault) => {
                log::ledger_failed(&item, decision::RECALL, &fault);
                let settlement = unclaimed(&item, &fault, run);
                let item = item.unknown(settlement).hindered(Obstacle::Ledger);
                recalled.done.push(Done::Settled(item));
            }
        }
    }
    recalled.go_on.sort_unstable_by_key(|item| item.nth);
    recalled
}

/// The fault of a call that was given up, so that other messages need not wait for it.
fn cut_off() -> StoreFault {
    let message = "the ledger did not answer in time".to_owned();
    StoreFault { is_transient: true, code: None, message }
}

impl Known {
    /// Metadata never change, so what the first look has found needs no second one. An item without a note was written
    /// by a handler that has found none, or doesn't ask.
    fn of(entered: &Entered) -> Self {
        let (note, entered) = (entered.known.note.clone(), Some(entered.clone()));
        Self::Run(Box::new(Found { note, entered }))
    }
}

/// Asks for the item of a run, which the first look has not found, and for those of all others with its payload.
async fn ask<L: Ledger, C: Clock>(
    item: &Item<'_>,
    key: &Key,
    ledger: &L,
    until: Timestamp,
    run: &Run<'_, L, C>,
) -> Known {
    let Some(failure) = item.accepted() else {
        return Known::Run(Box::default());
    };
    let siblings = within(run.clock, until, ledger.siblings(key, false)).await;
    let siblings = match siblings.unwrap_or_else(|| Err(cut_off())) {
        Ok(siblings) => siblings,
        Err(fault) => return Known::Failed(fault),
    };
    let root = item.trace_header().and_then(root);
    let sought = Sought { run: &key.run, failed_at: failure.failed_at, root };
    let own = siblings.own(&key.run).cloned();
    let entered = own.map(|known| Entered { known, delayed_until: None });
    let now = run.clock.now();
    let metadata = match siblings.recall(&sought, now) {
        lineage::Recalled::Nothing => {
            return Known::Run(Box::new(Found { note: None, entered }));
        }
        lineage::Recalled::Unknown { again_at } => return Known::NotYet { again_at },
        lineage::Recalled::Retry(metadata) => metadata,
        lineage::Recalled::Orphan { run: of, call } => {
            let of = key.sibling(&of);
            let taken = ledger.take(&of, &call.name, &key.run);
            match within(run.clock, until, taken).await.unwrap_or_else(|| Err(cut_off())) {
                Ok(true) => call.metadata,
                // The record of another run has just taken it.
                Ok(false) => return Known::NotYet { again_at: now },
                Err(fault) => return Known::Failed(fault),
            }
        }
    };
    let note = Some(Note { metadata, parent: None });
    Known::Run(Box::new(Found { note, entered }))
}
