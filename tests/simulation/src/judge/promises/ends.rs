//! Everything settles, and each event ends exactly once, and once more for each counted fork of its chain.

use super::{Check, Happens, Kept, Promise, broken};
use crate::judge::known::{Event, Known};

#[derive(Default)]
pub struct Ends;

impl Promise for Ends {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::GoesOn(steps) => {
                let what = format!("after {steps} steps there is still something to do");
                broken(Check::Settles, None, what)
            }
            Happens::Rests => {
                settles(known)?;
                let off = known.events.iter().position(|event| event.ends != 1 + event.forks);
                off.map_or(Ok(()), |index| {
                    let Event { ends, forks, .. } = known.events[index];
                    let what =
                        format!("it ended {ends} times, and its chain was forked {forks} times");
                    broken(Check::EndsOneWay, index, what)
                })
            }
            _ => Ok(()),
        }
    }
}

fn settles(known: &Known) -> Kept {
    if let Some(event) = known.open.values().map(|open| open.event).min() {
        return broken(Check::Settles, event, "an invocation of it has not ended".to_owned());
    }
    let Some(case) = known.cases.iter().find(|case| case.acts == 0) else { return Ok(()) };
    let (event, attempt, at) = (case.of.event, case.of.attempt, case.at);
    let what = format!("nothing became of the failure of attempt {attempt} at {at}");
    broken(Check::Settles, event, what)
}
