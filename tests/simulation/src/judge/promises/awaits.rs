//! A handler waits for the answer to an act, unless it was lost: what was accepted is not reported as failed.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, broken};
use crate::judge::known::Known;

/// The messages about which answers are on their way to each run, by their places.
#[derive(Default)]
pub struct Awaits(FxHashMap<u64, BTreeSet<usize>>);

impl Promise for Awaits {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::WillBeTold(of) => drop(self.0.entry(of.run).or_default().insert(of.place)),
            Happens::Told(of) => {
                self.0.get_mut(&of.run).map(|awaited| awaited.remove(&of.place));
            }
            Happens::Ends(run) => drop(self.0.remove(&run)),
            Happens::Answers(run, _) => {
                let batch = known.batch(run);
                let mut awaited = self.0.get(&run).into_iter().flatten().map(|&it| &batch[it]);
                // What follows a fault may begin too late.
                if let Some(message) = awaited.find(|message| message.fault.is_none()) {
                    let what =
                        format!("run {run} has answered, and an answer was on its way to it");
                    return broken(Check::AwaitsAnswers, known.event_of(message.case), what);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
