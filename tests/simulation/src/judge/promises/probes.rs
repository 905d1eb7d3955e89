//! While a target is down, only its probe is invoked. A probe is given back if it can't be made, and somebody waits for
//! the next one.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, broken, ensure};
use crate::judge::{
    happens::{Move, Turn},
    known::{Known, Phase, Why},
};

/// The probes that each run has taken, by circuit.
#[derive(Default)]
pub struct Probes(FxHashMap<u64, BTreeMap<String, Probe>>);

#[derive(Default)]
struct Probe {
    is_taken: bool,
    /// Whether the run must still give it back if it can't make it.
    is_owed: bool,
}

impl Promise for Probes {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Ends(run) => drop(self.0.remove(&run)),
            Happens::Circuit(run, circuit, step) => return self.moves(run, circuit, step),
            Happens::Invokes(run, Some(of), _, invoke) => {
                let case = &known.cases[of.case];
                let Some(circuit) = known.limit(run, &invoke.target, case) else { return Ok(()) };
                let may = circuit.is_free || circuit.has_permits || known.is_probe(circuit, case);
                return ensure(may, Check::ProbesAlone, || {
                    format!("run {run} invokes a target that is down: {circuit:?}")
                });
            }
            // Nobody is held back for long unless others wait for the next step, if it can be taken before.
            Happens::Waits(wait, Why::Down { is_unwatched: true }) => {
                let seconds = wait.seconds;
                let what =
                    format!("it is held back for {seconds} s, and nobody waits for the step");
                return broken(Check::ProbesInTime, None, what);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Probes {
    fn moves(&mut self, run: u64, circuit: &str, step: Move<'_>) -> Kept {
        let probe = self.0.entry(run).or_default().entry(circuit.to_owned()).or_default();
        match step {
            Move::Reads(_) => *probe = Probe::default(),
            Move::Turns(next) => probe.is_owed &= next.name != "open",
            Move::Turned(Turn { was, is, .. }) if !(was.is("probing") && is.is("probing")) => {
                probe.is_taken = is.is("probing");
            }
            Move::ToldOfTurn(text) => {
                probe.is_owed = probe.is_taken && Phase::read(Some(text)).is("probing");
            }
            Move::Concludes(it) => {
                return ensure(!probe.is_owed || it.has_invoked, Check::ProbesEnd, || {
                    format!("run {run} keeps the probe of {circuit}, and did not make it")
                });
            }
            _ => {}
        }
        Ok(())
    }
}
