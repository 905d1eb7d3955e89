//! An event makes its own attempts, all of them: each failure continues the run of which it is, with its attempt, age
//! and id, unless nobody could know. What the ledger did not say is not guessed.

use super::{Check, Happens, Kept, Promise, broken, ensure};
use crate::{ids::Id, judge::known::Known};

#[derive(Default)]
pub struct Recalls;

impl Promise for Recalls {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        const CHECK: Check = Check::RecallsTruly;
        match happens {
            Happens::Begins(of) => {
                let guessed = known.message(of).filter(|message| known.is_guessed(message));
                guessed.map_or(Ok(()), |message| {
                    let (run, knows) = (of.run, message.recall);
                    let what = format!("run {run} acts on it, and knows of its run: {knows:?}");
                    broken(CHECK, None, what)
                })
            }
            Happens::Learns(case, said) => {
                ensure(known.run_said(case, said).is_some(), CHECK, || {
                    let right = known.metadata_of_truth(case);
                    format!("it is taken for {}, and is {right}", said.to_json())
                })
            }
            Happens::TakesForFirst(index, root, is_cut) => {
                let case = &known.cases[index];
                let truth = case.truth();
                let now = known.now.timestamp_millis();
                let may_be = !truth.is_unwrapped
                    || !known.plan.flawless
                        && (!case.of.is_unwrapped
                            || is_cut
                            || known.calls.may_begin_anew(case, root, now));
                ensure(may_be, CHECK, || {
                    format!("attempt {} is taken for a first one", truth.attempt)
                })
            }
            Happens::Takes(taker, call) if known.plan.flawless => {
                let Some(taken) = known.calls.named(&call.name) else { return Ok(()) };
                let is_own = known.calls.started(&Id::from(taker)) == Some(taken);
                ensure(is_own, CHECK, || {
                    format!("{taker} takes {call:?} of another, and nothing has gone wrong")
                })
            }
            _ => Ok(()),
        }
    }
}
