//! How many runs failed, were retried and succeeded, and how many events were given up, by second and by minute.

use std::collections::BTreeMap;

use crate::life::{Step, StepKind};

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
}

/// Adds a step to the counts of its second and its minute, and drops old ones.
pub(super) fn count_step(counted: &mut [BTreeMap<i64, Counts>; 2], step: &Step) {
    let kind = match step.what {
        StepKind::Failed { .. } => 0,
        StepKind::Retried { .. } | StepKind::Delivered { .. } => 1,
        StepKind::Succeeded => 2,
        StepKind::GivenUp { .. } => 3,
        StepKind::NotRun { .. }
        | StepKind::Undelivered { .. }
        | StepKind::Waits { .. }
        | StepKind::Dropped
        | StepKind::Trouble { .. } => return,
    };
    for ((counted, max), unit) in counted.iter_mut().zip(COUNTED_MAX).zip([1, 60]) {
        counted.entry(step.at.timestamp().div_euclid(unit)).or_default()[kind] += 1;
        if counted.len() > max {
            counted.pop_first();
        }
    }
}
