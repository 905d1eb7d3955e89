//! How many letters an order is for, and what became of them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::order::{StayReason, Step};

use crate::{
    account::names::target_name,
    notice::{Notice, Tone},
    text::letters,
    untrusted,
};

#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Plan {
    pub redrive: BTreeMap<String, u64>,
    pub purge: u64,
    pub leave: BTreeMap<StayReason, u64>,
}

impl Plan {
    pub fn count(&mut self, step: &Step) {
        match step {
            Step::Redrive(redrive) => {
                *self.redrive.entry(redrive.target.clone()).or_default() += 1;
            }
            Step::Delete => self.purge += 1,
            Step::Leave(left) => *self.leave.entry(*left).or_default() += 1,
        }
    }

    /// The number of letters that leave the queue.
    pub fn letters(&self) -> u64 {
        self.redrive.values().sum::<u64>() + self.purge
    }

    pub fn notices(&self) -> Vec<Notice> {
        let words = ["to redrive to", "to delete for good"];
        let (redrive, purge, leave) = (&self.redrive, self.purge, &self.leave);
        notices(redrive, purge, leave, Tone::Plain, words, Notice::nothing_to_do())
    }
}

/// The lines about letters that are redriven or deleted, in `words`, and about those that stay.
fn notices(
    redrive: &BTreeMap<String, u64>,
    purge: u64,
    leave: &BTreeMap<StayReason, u64>,
    tone: Tone,
    words: [&str; 2],
    nothing: Notice,
) -> Vec<Notice> {
    let notice = |text| Notice { tone, text };
    let line = |(target, number): (&String, &u64)| {
        notice(format!("{} {} {}", letters(*number), words[0], target_name(target)))
    };
    let mut notices: Vec<_> = redrive.iter().map(line).collect();
    notices.extend((purge > 0).then(|| notice(format!("{} {}", letters(purge), words[1]))));
    if notices.is_empty() {
        notices.push(nothing);
    }
    notices.extend(leave.iter().map(|(left, number)| {
        let tone = if left.is_selected() { Tone::Bad } else { Tone::Faint };
        let verb = if *number == 1 { "stays" } else { "stay" };
        Notice { tone, text: format!("{} {verb}: {}", letters(*number), left.text()) }
    }));
    notices
}

#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Tally {
    pub redriven: BTreeMap<String, u64>,
    pub purged: u64,
    /// The number of letters that could not be deleted, redriven or to be purged. They stay in the queue.
    pub not_deleted: u64,
    pub left: BTreeMap<StayReason, u64>,
    /// The number of calls that were throttled or failed with another transient fault.
    pub throttled: u64,
    #[schemars(with = "BTreeSet<untrusted::Text>")]
    pub faults: BTreeSet<String>,
}

impl Tally {
    pub fn done(&self) -> u64 {
        self.redriven.values().sum::<u64>() + self.purged
    }

    /// The number of selected letters that are still in the queue.
    pub fn kept_back(&self) -> u64 {
        let left = self.left.iter().filter(|(left, _)| left.is_selected());
        left.map(|(_, letters)| letters).sum::<u64>() + self.not_deleted
    }

    pub fn notices(&self) -> Vec<Notice> {
        let words = ["redriven to", "deleted"];
        let (redriven, purged, left) = (&self.redriven, self.purged, &self.left);
        let mut notices =
            notices(redriven, purged, left, Tone::Good, words, Notice::nothing_done());
        if self.not_deleted > 0 {
            let letters = letters(self.not_deleted);
            notices.push(Notice::bad(if self.redriven.is_empty() {
                format!("{letters} could not be deleted")
            } else {
                format!("{letters} redriven but not deleted: another redrive would repeat them")
            }));
        }
        notices.extend(self.faults.iter().map(Notice::bad));
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::dead_letters::rules::order::{Call, Redrive};

    #[test]
    fn a_plan_counts_the_steps() {
        let redrive = || {
            let (target, payload) = ("orders".to_owned(), "1".to_owned());
            Step::Redrive(Redrive { target, payload, call: Call::default() })
        };
        let leave = Step::Leave;
        let mut plan = Plan::default();
        for step in [
            redrive(),
            leave(StayReason::NotSelected),
            redrive(),
            Step::Delete,
            leave(StayReason::NoPayload),
        ] {
            plan.count(&step);
        }
        let told: Vec<_> = plan.notices().into_iter().map(|it| it.text).collect();
        let expected = [
            "2 letters to redrive to orders",
            "1 letter to delete for good",
            "1 letter stays: not selected",
            "1 letter stays: has no JSON payload",
        ];
        assert_eq!((told, plan.letters()), (expected.map(str::to_owned).into(), 3));
    }
}
