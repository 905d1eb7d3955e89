//! A message that its queue may not send counts for no function: no claim, no item, no circuit, no metric.

use comeback_flow::report::Report;

use super::{Check, Happens, Kept, Promise, broken, ensure};
use crate::judge::known::{Delivery, Known};

#[derive(Default)]
pub struct Refused;

impl Promise for Refused {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::LooksUp(run, _, _, targets) => {
                let unnamed = targets.iter().find(|target| !may_speak(known, run, target));
                let what =
                    |target| format!("run {run} looks up {target}, for which no message may speak");
                unnamed.map_or(Ok(()), |it| broken(Check::RefusedCountsForNone, None, what(it)))
            }
            Happens::WritesCircuit(run, exchange) => {
                let target = &exchange.target;
                ensure(may_speak(known, run, target), Check::RefusedCountsForNone, || {
                    format!("run {run} writes the circuit of {target}")
                })
            }
            Happens::Answers(run, report) => counts_for_none(known, run, report),
            _ => Ok(()),
        }
    }
}

/// Whether a run has a message that may speak for this target.
fn may_speak(known: &Known, run: u64, target: &str) -> bool {
    let may_speak = |message: &Delivery| {
        let case = &known.cases[message.case];
        !case.is_refused && case.arn(&known.plan) == target
    };
    known.batch(run).iter().any(may_speak)
}

fn counts_for_none(known: &Known, run: u64, report: &Report) -> Kept {
    for (message, entry) in known.batch(run).iter().zip(&report.entries) {
        let case = &known.cases[message.case];
        // As long as a record is unread, only its notice can be judged.
        let is_known = message.is_read() || !case.strange;
        if case.is_refused && is_known && (entry.target.is_some() || entry.age.is_some()) {
            let what = format!("run {run} counts it for {:?}", entry.target);
            return broken(Check::RefusedCountsForNone, case.of.event, what);
        }
    }
    Ok(())
}
