//! A message waits for as long as it has to, and no longer: until it is due, or for what its cause asks for.

use super::{Check, Happens, Kept, Promise, broken, ensure};
use crate::{
    judge::known::{Cause, Fetch, Known, WAIT_MAX, Waits as Wait, Why},
    policy::Millis,
};

#[derive(Default)]
pub struct Waits;

impl Promise for Waits {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Waits(_, Why::Unknown) => Ok(()),
            Happens::Waits(wait, why) => {
                may_wait(known, wait)?;
                match why {
                    Why::Cause(cause, range) => is_in(cause, range, wait),
                    Why::Due => is_until_due(known, wait),
                    _ => Ok(()),
                }
            }
            Happens::ShowsDue(case, due) => {
                let Ok(next) = known.cases[case].verdict() else { return Ok(()) };
                let (low, high) = next.due;
                ensure((low..=high).contains(&due), Check::BackoffInRange, || {
                    format!("due at {due}, expected from {low} to {high}")
                })
            }
            _ => Ok(()),
        }
    }
}

/// Nothing waits that is known to be over.
fn may_wait(known: &Known, wait: &Wait) -> Kept {
    let Some(message) = known.message(wait.of) else { return Ok(()) };
    let seconds = wait.seconds;
    if message.fetch == Fetch::Gone {
        let what = format!("it waits for {seconds} s, and its record is gone");
        return broken(Check::RightReason, None, what);
    }
    // Another copy in its batch may be known to be acted on. This one is not known as long as its record is unread, or
    // the ledger has not said which event it continues.
    let is_known = message.is_read() && !message.recall.is_in_vain();
    ensure(!(is_known && message.listing.must_be_dropped()), Check::DropsTheDone, || {
        format!("it waits for {seconds} s, and its failure was acted on")
    })
}

fn is_in(cause: Cause, (low, high): (Millis, Millis), wait: &Wait) -> Kept {
    let check = match cause {
        Cause::Fault => Check::FaultWaits,
        Cause::Note => Check::WaitsForNote,
        Cause::Pause => Check::PausesHold,
    };
    ensure(wait.is_within((low, high)), check, || {
        format!("it waits for {} s, expected {low} to {high} ms", wait.seconds)
    })
}

fn is_until_due(known: &Known, wait: &Wait) -> Kept {
    let verdict = known.cases[wait.of.case].verdict();
    let (Ok(next), 0..=WAIT_MAX) = (verdict, wait.seconds) else {
        let what = format!("it waits for {} s, expected {verdict:?}", wait.seconds);
        return broken(Check::WaitsUntilDue, None, what);
    };
    let (from, until) = wait.shows();
    ensure(until >= next.due.0 && from < next.due.1, Check::BackoffInRange, || {
        format!("it waits until {}, expected {:?}", wait.end(), next.due)
    })
}
