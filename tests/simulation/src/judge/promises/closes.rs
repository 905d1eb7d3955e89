//! No event is held back once events have come for long without a fault.

use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, ensure};
use crate::{judge::known::Known, policy::Millis};

/// A circuit must have closed after events have arrived for this long without a fault.
const CLOSED_WITHIN: Millis = 2 * 3_600_000;

/// An event that is held back is back within this time.
const HOLD_MAX: Millis = 480_000;

/// For how long the events of each target have arrived since the last fault, and when the last one arrived.
#[derive(Default)]
pub struct Closes(FxHashMap<String, (Millis, Millis)>);

impl Promise for Closes {
    fn on(&mut self, happens: Happens<'_>, _: &Known) -> Kept {
        if let Happens::Comes(circuit, at) = happens {
            let (lasts, last) = self.0.entry(circuit.to_owned()).or_default();
            // Only handlers with an event at hand close a circuit, so longer gaps don't count in full.
            *lasts += (at - *last).min(HOLD_MAX);
            *last = at;
        }
        let Happens::HeldBack(circuit) = happens else { return Ok(()) };
        let lasts = self.0.get(circuit).map_or(0, |(lasts, _)| *lasts);
        ensure(lasts <= CLOSED_WITHIN, Check::ClosesInTheEnd, || {
            format!("it is held back after {} minutes without a fault", lasts / 60_000)
        })
    }
}
