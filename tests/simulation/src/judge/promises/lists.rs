//! The register lists each event that waits, with the time of its return and the way to its message.

use wire::Entry;

use super::{Check, Happens, Kept, Promise, broken, ensure};
use crate::judge::known::{Delivery, Known, LOOKS_MAX, Subject, is_free};

#[derive(Default)]
pub struct Lists;

impl Promise for Lists {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Lists(of, entry) => is_true(known, of, entry),
            Happens::Answers(run, _) => known.batch(run).iter().try_for_each(|message| {
                if !is_unlisted(known, message) {
                    return Ok(());
                }
                let what = format!("run {run} lets it wait, and does not list it");
                broken(Check::ListsTruly, known.event_of(message.case), what)
            }),
            _ => Ok(()),
        }
    }
}

/// Whether an entry says what a message waits for.
fn is_true(known: &Known, of: Subject, entry: &Entry) -> Kept {
    let Some(message) = known.message(of) else { return Ok(()) };
    let case = &known.cases[of.case];
    let due = entry.due.timestamp_millis();
    let is_delay = entry.receipt_handle.is_none();
    // A batch may have copies of one message.
    let waits = |other: &Delivery| {
        let wait = other.wait.filter(|wait| wait.is_delay == is_delay && wait.is_until(due));
        other.case == of.case && wait.is_some()
    };
    let batch = known.batch(of.run);
    let has_handle = entry.receipt_handle.as_deref().is_none_or(|it| it == message.handle());
    let is_true = batch.iter().any(waits)
        && has_handle
        && entry.target == case.arn(&known.plan)
        && entry.queue_url.ends_with(&format!("/{}", message.queue()))
        && message.next.as_ref().is_some_and(|(of, attempt)| {
            let id = known.event_id(of).unwrap_or_else(|| case.request_id.to_string());
            entry.event_id == id && entry.attempt == *attempt
        });
    ensure(is_true, Check::ListsTruly, || {
        let waits: Vec<_> = batch.iter().filter_map(|it| it.wait).map(|it| it.until).collect();
        format!("{entry:?} is listed, due at {due}, with waits until {waits:?}")
    })
}

/// Whether a message waits and is not listed, although nothing prevented it.
fn is_unlisted(known: &Known, message: &Delivery) -> bool {
    let listing = &message.listing;
    let case = &known.cases[message.case];
    let Some(wait) = message.wait.filter(|_| message.put_back || message.copy_accepted) else {
        return false;
    };
    let listed_before = listing.read().and_then(|read| read.delayed_until);
    let is_written = listing.writes > listing.changes || listing.writes == LOOKS_MAX;
    let is_anothers =
        listing.read().and_then(|read| read.state).is_some_and(|state| !is_free(state));
    let is_excused = !message.is_read()
        || known.wait_for_note(message, 0).is_some()
        || listing.excused
        || is_anothers
        || listed_before.is_some_and(|due| wait.is_until(due));
    known.has_register(case) && case.verdict().is_ok() && !is_written && !is_excused
}
