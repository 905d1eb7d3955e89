//! As many events are brought forward as are to be tried, and no more.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::{
    happens::{Move, Turn},
    known::{Concluded, Known, Phase},
};

/// How many events are brought forward when CloudWatch opens a circuit, and for one slice.
const WAKE_UPS: u32 = 10;
const BROUGHT_MAX: u32 = 2_000;

/// An event that is brought forward becomes visible within this many seconds.
const BROUGHT_WITHIN: u32 = 300;

/// What each run may bring forward, by circuit.
#[derive(Default)]
pub struct Brings(FxHashMap<u64, BTreeMap<String, Owed>>);

#[derive(Default)]
struct Owed {
    /// How many events it may bring forward, with which circuit, and whether it still has to. It doesn't know of a
    /// write whose answer was lost.
    most: u32,
    with: String,
    is_owed: bool,
    /// The receipt handles of those that it may bring forward.
    listed: BTreeSet<String>,
    /// Whether the circuit ramps, and whether the run has to note that nothing could be brought forward.
    ramps: bool,
    owes_note: bool,
    took_probe: bool,
}

impl Owed {
    fn turned(&mut self, Turn { was, is, text, .. }: Turn<'_>) {
        // A run that had taken the probe gives it back with this write, and nothing else changes.
        let most = if self.took_probe { 0 } else { brought_for(is, was) };
        if most > 0 {
            (self.most, self.with) = (most, text.to_owned());
        }
        self.ramps = is.is("ramping");
        if !(was.is("probing") && is.is("probing")) {
            self.took_probe = is.is("probing");
        }
    }
}

impl Brings {
    /// Whether a run may bring the message with this handle forward, to be visible after `seconds`.
    pub fn may_bring(&mut self, run: u64, handle: &str, seconds: u32) -> bool {
        let mut of_run = self.0.get_mut(&run).into_iter().flatten();
        seconds <= BROUGHT_WITHIN && of_run.any(|(_, owed)| owed.listed.remove(handle))
    }
}

impl Promise for Brings {
    fn on(&mut self, happens: Happens<'_>, _: &Known) -> Kept {
        if let Happens::Ends(run) = happens {
            self.0.remove(&run);
        }
        let Happens::Circuit(run, circuit, step) = happens else { return Ok(()) };
        let owed = self.0.entry(run).or_default().entry(circuit.to_owned()).or_default();
        match step {
            Move::Reads(phase) => *owed = Owed { ramps: phase.is("ramping"), ..Owed::default() },
            Move::Turns(next) => owed.owes_note &= !next.is_missed(),
            Move::Turned(turn) => owed.turned(turn),
            Move::NotTurned(there) => {
                owed.ramps = there.is("ramping");
                owed.owes_note &= owed.ramps;
            }
            Move::ToldOfTurn(text) => owed.is_owed |= owed.most > 0 && owed.with == text,
            // If the circuit ramps, the run notes that more wait, so that the next slice tries again.
            Move::MoreWait => owed.owes_note = owed.ramps,
            Move::Lists(listed) => {
                owed.listed.extend(listed.iter().map(|listed| listed.receipt_handle.clone()));
            }
            Move::AsksFor(count) => {
                let most = std::mem::take(&mut owed.most);
                owed.is_owed = false;
                return ensure(count <= most, Check::BringsForward, || {
                    format!("run {run} asks for {count} events of {circuit}, and may for {most}")
                });
            }
            Move::Concludes(Concluded { has_register, .. }) => {
                ensure(!owed.owes_note, Check::BringsForward, || {
                    format!("run {run} could bring nothing of {circuit} forward, silently")
                })?;
                return ensure(!owed.is_owed || !has_register, Check::BringsForward, || {
                    format!("run {run} brings nothing of {circuit} forward")
                });
            }
        }
        Ok(())
    }
}

/// How many events the writer of a phase must bring forward, after a phase `was`.
fn brought_for(is: &Phase, was: &Phase) -> u32 {
    match &*is.name {
        "open" if was.is("closed") || was.is("suspected") => WAKE_UPS,
        "ramping" if is.is_new_slice(was) => (is.permits() as u32).min(BROUGHT_MAX),
        "closed" if was.is("ramping") && is.fields["cleared"].is_object() => BROUGHT_MAX,
        _ => 0,
    }
}
