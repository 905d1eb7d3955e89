//! An attempt is made when it is due, if nothing prevents it.

use comeback_core::Timestamp;
use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, ensure};
use crate::{
    judge::known::{Delivery, Known, Subject},
    policy::Millis,
};

/// How late an attempt may be if nothing prevents it: visibility timeouts are in whole seconds, and the previous batch
/// takes some time.
const LATENESS_MAX: Millis = 5_000;

/// Since when the mapping of each message of a run had had no place for it when it was received, if it had none.
#[derive(Default)]
pub struct OnTime(FxHashMap<u64, Vec<Option<Timestamp>>>);

impl Promise for OnTime {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Delivered(run) if known.plan.flawless => {
                let behind_since = |message: &Delivery| {
                    let target = known.cases[message.case].of.target;
                    known.figures.backlogs[known.plan.targets[target].queue].since
                };
                self.0.insert(run, known.batch(run).iter().map(behind_since).collect());
            }
            Happens::Ends(run) => drop(self.0.remove(&run)),
            Happens::Invokes(_, Some(of), at, _) if known.plan.flawless => {
                let case = &known.cases[of.case];
                let Ok(next) = case.verdict() else { return Ok(()) };
                let (_, latest) = case.due_range(next);
                let by = latest
                    .max(case.seen_at())
                    .max(self.place_since(known, of, latest).unwrap_or(latest))
                    .max(known.noted_by(case).unwrap_or(latest));
                let is_probed = known.plan.handler_of(case.of.target).probes;
                return ensure(is_probed || at <= by + LATENESS_MAX, Check::OnTime, || {
                    format!("it is invoked at {at}, and was due at {latest} at the latest")
                });
            }
            _ => {}
        }
        Ok(())
    }
}

impl OnTime {
    /// Since when its mapping has had a place for a message, if it had none when the message became due.
    fn place_since(&self, known: &Known, of: Subject, latest: Millis) -> Option<Millis> {
        let behind_since = (*self.0.get(&of.run)?.get(of.place)?)?.timestamp_millis();
        let was_behind = behind_since <= latest + LATENESS_MAX;
        let received_at = known.message(of)?.received_at;
        was_behind.then(|| received_at.timestamp_millis())
    }
}
