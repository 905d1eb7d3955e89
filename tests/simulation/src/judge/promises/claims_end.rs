//! No claim is left by a handler that has acted, or that has put its message back.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, broken};
use crate::judge::known::Known;

/// The messages whose claims each run has marked or released, by their places.
#[derive(Default)]
pub struct ClaimsEnd(FxHashMap<u64, BTreeSet<usize>>);

impl Promise for ClaimsEnd {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Concludes(of) => drop(self.0.entry(of.run).or_default().insert(of.place)),
            Happens::Ends(run) => drop(self.0.remove(&run)),
            Happens::Answers(run, _) => {
                for (place, message) in known.batch(run).iter().enumerate() {
                    let has_ended = self.0.get(&run).is_some_and(|ended| ended.contains(&place));
                    let is_over = message.done || message.put_back;
                    if message.claim.is_some() && is_over && !has_ended {
                        let what =
                            format!("run {run} has acted or put it back, and leaves its claim");
                        return broken(Check::ClaimsEnd, known.event_of(message.case), what);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
