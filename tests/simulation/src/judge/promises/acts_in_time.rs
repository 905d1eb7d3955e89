//! A handler begins no act for whose answer and follow-ups it may have no time.

use std::time::Duration;

use comeback_core::{Timestamp, time::later};
use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::known::Known;

/// The time that a handler keeps for its answer, and for what follows an act. Times are in whole milliseconds here.
const ANSWER: Duration = Duration::from_millis(500);
const FOLLOW_UP: Duration = Duration::from_secs(3);
const ROUNDING: Duration = Duration::from_millis(1);

/// When each run begins no more acts.
#[derive(Default)]
pub struct ActsInTime(FxHashMap<u64, Timestamp>);

impl Promise for ActsInTime {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Begun(run, timeout) => {
                // Half a second or a quarter is for the answer, and three seconds or a third of the rest for what
                // follows an act.
                let all = timeout - ANSWER.min(timeout / 4);
                let until = later(known.now, all - FOLLOW_UP.min(all / 3) + ROUNDING);
                self.0.insert(run, until);
            }
            Happens::Ends(run) => drop(self.0.remove(&run)),
            Happens::Begins(of) => {
                let (run, until) = (of.run, self.0.get(&of.run).copied().unwrap_or_default());
                return ensure(known.now <= until, Check::ActsInTime, || {
                    format!("run {run} begins to act on it, and had time for that until {until}")
                });
            }
            _ => {}
        }
        Ok(())
    }
}
