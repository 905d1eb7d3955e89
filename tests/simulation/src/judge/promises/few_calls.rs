//! The register is written once for a wait, and only what can have an order is read.

use std::collections::BTreeSet;

use comeback_core::lineage::Key;
use wire::Entry;

use super::{Check, Happens, Kept, Promise, broken, ensure};
use crate::{
    judge::known::{Case, Delivery, Known, Subject, came_back},
    policy::Millis,
};

/// How often the messages of each case were received, and how often handlers wrote its item.
#[derive(Default)]
pub struct FewCalls(Vec<(u16, u16)>);

impl FewCalls {
    fn of(&mut self, case: usize) -> &mut (u16, u16) {
        self.0.resize(self.0.len().max(case + 1), (0, 0));
        &mut self.0[case]
    }
}

impl Promise for FewCalls {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Received(Some(case), _) => self.of(case).0 += 1,
            Happens::Writes(of) => self.of(of.case).1 += 1,
            // Two runs may have received an event that others have brought forward, and one of them is refused.
            Happens::WritesInVain(of) => self.of(of.case).1 -= 1,
            Happens::Forgets(case) => *self.of(case) = (0, 0),
            Happens::Rests if known.plan.flawless => return self.are_few(known),
            Happens::LooksCloser(run, None, key) => {
                let what = format!("run {run} asks for the runs beside {key:?}, which it knows");
                return broken(Check::FewCalls, None, what);
            }
            Happens::Compares(run, None, key) => {
                let what = format!("run {run} reads the runs beside {key:?}");
                return broken(Check::FewCalls, None, what);
            }
            Happens::LooksUp(run, at, events, targets) => {
                return is_needed(known, run, at, events, targets);
            }
            Happens::Lists(of, entry) => return is_new(known, of, entry),
            _ => {}
        }
        Ok(())
    }
}

impl FewCalls {
    /// One write for each wait, one for the claim and one for the mark.
    fn are_few(&self, known: &Known) -> Kept {
        let Some(case) = self.0.iter().position(|(receives, writes)| *writes > receives + 1) else {
            return Ok(());
        };
        let (receives, writes) = self.0[case];
        let what = format!("{writes} writes to the ledger, and only {receives} receives");
        broken(Check::FewCalls, known.event_of(case), what)
    }
}

/// Whether a look-up asks once, for what it needs and for nothing else.
fn is_needed(known: &Known, run: u64, at: Millis, events: &[Key], targets: &[String]) -> Kept {
    let batch = known.batch(run);
    let case_of = |message: &Delivery| &known.cases[message.case];
    let expected = sought(known, batch);
    let may_be_due = |case: &&Case| case.verdict().is_ok_and(|it| at >= case.due_range(it).0);
    let due = batch.iter().map(case_of).filter(may_be_due);
    let due: BTreeSet<&str> = due.map(|case| case.arn(&known.plan)).collect();
    let is_again = batch.iter().any(|message| message.listing.looks_up);
    let has_register = batch.iter().any(|message| known.has_register(case_of(message)));
    // Handlers that count the failures of a target need its circuit also when no message is due.
    let probes = batch.iter().any(|it| known.plan.handler_of(case_of(it).of.target).probes);
    let asked: BTreeSet<_> = events.iter().cloned().collect();
    let is_right = asked == expected
        && asked.len() == events.len()
        && (probes || targets.iter().all(|target| due.contains(target.as_str())))
        && (!events.is_empty() || !targets.is_empty());
    ensure(!is_again && (has_register || probes) && is_right, Check::FewCalls, || {
        format!(
            "run {run} looks up {events:?} and {targets:?}, expected {expected:?} and some of {due:?}"
        )
    })
}

/// The items of events for which a look-up must ask.
fn sought(known: &Known, batch: &[Delivery]) -> BTreeSet<Key> {
    let is_sought = |message: &&Delivery| {
        let is_known = message.is_read() && known.wait_for_note(message, 0).is_none();
        let is_new = !message.listing.is_recalled && came_back(message.record());
        is_known && is_new && known.has_register(&known.cases[message.case])
    };
    let sought = batch.iter().filter(is_sought);
    sought.map(|message| known.key(&known.cases[message.case])).collect()
}

/// Whether the register doesn't say yet what a handler lists.
fn is_new(known: &Known, of: Subject, entry: &Entry) -> Kept {
    let Some(message) = known.message(of) else { return Ok(()) };
    let listing = &message.listing;
    let is_listed = entry.receipt_handle.is_none()
        && message.held().is_none()
        && listing.read().and_then(|read| read.delayed_until) == Some(entry.due.timestamp_millis());
    let (writes, changes) = (listing.writes, listing.changes);
    let has_register = known.has_register(&known.cases[message.case]);
    ensure(has_register && !is_listed && writes <= changes, Check::FewCalls, || {
        format!("it is listed, after {writes} writes of which {changes} failed")
    })
}
