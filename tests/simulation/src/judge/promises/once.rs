//! A failure is acted on once, unless there is a counted cause for a repetition.

use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::known::Known;

/// How many causes for a repetition each case has that has any.
#[derive(Default)]
pub struct Once(FxHashMap<usize, u16>);

impl Promise for Once {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::MayRepeat(case) => *self.0.entry(case).or_default() += 1,
            Happens::Forgets(case) => drop(self.0.remove(&case)),
            Happens::Acts(of, _) => {
                let acts = known.cases[of.case].acts;
                let causes = self.0.get(&of.case).copied().unwrap_or_default();
                return ensure(acts <= 1 + causes, Check::OncePerFailure, || {
                    format!("acted on {acts} times, with {causes} causes for a repetition")
                });
            }
            _ => {}
        }
        Ok(())
    }
}
