//! How many runs failed, were retried and succeeded, and how many events were given up, by second and by minute.

use std::collections::BTreeMap;

use crate::{
    life::{Step, StepKind},
    operate::status::rules::{Facts, Runs},
};

pub const PARTS: usize = 60;

/// How many seconds, and how many minutes of a function are counted.
const COUNTED_MAX: [usize; 2] = [2 * PARTS, 24 * 60];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Range {
    Minute,
    Hour,
    Day,
}

impl Range {
    pub const ALL: [(Self, &str); 3] =
        [(Self::Minute, "1 minute"), (Self::Hour, "1 hour"), (Self::Day, "24 hours")];
}

/// Failed runs, retries, successes, and events given up.
pub type Counts = [u32; 4];

/// Counts for each of [`PARTS`] equal parts of a range, the latest last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pulse(pub [Counts; PARTS]);

impl Pulse {
    pub fn sum(&self) -> Counts {
        let add = |sum: Counts, part: &Counts| std::array::from_fn(|kind| sum[kind] + part[kind]);
        self.0.iter().fold(Counts::default(), add)
    }

    /// The counts of the latest quarter, or of the whole range if there was no run in it.
    pub fn recent(&self) -> Counts {
        let mut parts = [Counts::default(); PARTS];
        let latest = PARTS - PARTS / 4;
        parts[latest..].copy_from_slice(&self.0[latest..]);
        let [failed, retried, succeeded, given_up] = Self(parts).sum();
        if failed + succeeded == 0 { self.sum() } else { [failed, retried, succeeded, given_up] }
    }
}

/// The facts about a function with what is known of its last minute. CloudWatch's numbers are for five minutes, so by
/// these alone a function would seem to fail for minutes after it has recovered. Successes are known only in the local
/// cloud.
pub fn as_of_now(facts: &Facts, minute: Counts, waiting: u64, is_local: bool) -> Facts {
    let [failed, _, succeeded, _] = minute.map(u64::from);
    let recent = match facts.recent {
        _ if is_local => Runs { invocations: failed + succeeded, errors: failed },
        recent if failed == 0 => Runs { errors: 0, ..recent },
        recent => recent,
    };
    let (in_flight, delayed, due) = (waiting, 0, 0);
    Facts { recent, in_flight, delayed, due, ..facts.clone() }
}

/// Adds a step to the counts of its second and its minute, and drops old ones.
pub(super) fn count_step(counted: &mut [BTreeMap<i64, Counts>; 2], step: &Step) {
    let kind = match step.what {
        StepKind::Failed { .. } => 0,
        StepKind::Retried { .. } => 1,
        StepKind::Succeeded => 2,
        StepKind::GivenUp { .. } => 3,
        StepKind::Waits { .. } | StepKind::Dropped | StepKind::Trouble { .. } => return,
    };
    for ((counted, max), unit) in counted.iter_mut().zip(COUNTED_MAX).zip([1, 60]) {
        counted.entry(step.at.timestamp().div_euclid(unit)).or_default()[kind] += 1;
        if counted.len() > max {
            counted.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::status::rules::State;

    #[test]
    fn a_function_is_judged_by_its_latest_runs() {
        let mut pulse = Pulse([Counts::default(); PARTS]);
        pulse.0[PARTS - 20] = [9, 0, 1, 0];
        assert_eq!(pulse.recent(), [9, 0, 1, 0], "nothing has run since");
        pulse.0[PARTS - 5] = [0, 2, 2, 0];
        assert_eq!(pulse.recent(), [0, 2, 2, 0]);
    }

    #[test]
    fn a_function_that_has_recovered_is_not_failing() {
        let failing = Runs { invocations: 9, errors: 9 };
        let facts = Facts { recent: failing, hour: failing, in_flight: 7, ..Facts::default() };
        for (minute, waiting, is_local, expected) in [
            ([0, 0, 0, 0], 0, true, State::Well),
            ([0, 0, 3, 0], 2, true, State::Recovering),
            ([0, 0, 0, 0], 2, true, State::Waiting),
            ([2, 0, 0, 0], 2, true, State::Failing),
            ([2, 0, 1, 0], 2, true, State::Failing),
            ([1, 0, 2, 0], 2, true, State::SomeFail),
            ([0, 0, 0, 0], 2, false, State::Recovering),
            ([1, 0, 0, 0], 2, false, State::Failing),
        ] {
            let state = as_of_now(&facts, minute, waiting, is_local).state();
            assert_eq!(state, expected, "{minute:?} {waiting} {is_local}");
        }
    }
}
