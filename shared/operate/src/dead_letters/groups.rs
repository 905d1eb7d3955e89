//! Letters counted by what they have in common.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, time::rfc3339};
use serde::Serialize;

use super::{
    letter::{Facts, Letter},
    selection::NO_REASON,
};

/// What letters are grouped by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GroupBy {
    /// The reason.
    Reason,
    /// The function.
    Function,
    /// The error type.
    Error,
    /// The number of attempts.
    Attempts,
    /// The day of the last failure.
    Day,
}

impl GroupBy {
    /// All of them, by their names.
    pub const ALL: [(&str, Self); 5] = [
        ("reason", Self::Reason),
        ("function", Self::Function),
        ("error", Self::Error),
        ("attempts", Self::Attempts),
        ("day", Self::Day),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }

    fn key(self, facts: &Facts<'_>, failed_at: Option<Timestamp>) -> String {
        let key = match self {
            Self::Reason => facts.reason.map(str::to_owned),
            Self::Function => facts.function.as_ref().map(|it| it.name().to_owned()),
            Self::Error => facts.error_type.clone(),
            Self::Attempts => facts.attempts.map(|attempts| attempts.to_string()),
            Self::Day => failed_at.map(|at| rfc3339(at)[..10].to_owned()),
        };
        key.unwrap_or_else(|| NO_REASON.to_owned())
    }
}

/// Letters counted by what they have in common.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Groups {
    by: Vec<GroupBy>,
    groups: BTreeMap<Vec<String>, Group>,
}

/// The letters of one group.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Group {
    /// How many there are.
    pub letters: u64,
    /// The earliest of their last failures.
    pub first_at: Option<Timestamp>,
    /// The latest of their last failures.
    pub last_at: Option<Timestamp>,
}

impl Groups {
    /// No letters yet, grouped by these.
    pub fn by(by: &[GroupBy]) -> Self {
        Self { by: by.to_vec(), groups: BTreeMap::new() }
    }

    /// Counts a letter.
    pub fn count(&mut self, letter: &Letter, facts: &Facts<'_>) {
        let failed_at = facts.last_failure_at.or(letter.sent_at);
        let key = self.by.iter().map(|by| by.key(facts, failed_at)).collect();
        let group = self.groups.entry(key).or_default();
        group.letters += 1;
        group.first_at = group.first_at.into_iter().chain(failed_at).min();
        group.last_at = group.last_at.max(failed_at);
    }

    /// What they are grouped by.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.by.iter().map(|by| by.name())
    }

    /// The groups and what their letters have in common, the largest first.
    pub fn largest_first(&self) -> Vec<(&[String], Group)> {
        let mut groups: Vec<_> =
            self.groups.iter().map(|(key, group)| (key.as_slice(), *group)).collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.letters));
        groups
    }
}

#[cfg(test)]
mod tests {
    use comeback_core::time;

    use super::*;
    use crate::dead_letters::letter::tests::{bare, given_up};

    #[test]
    fn letters_are_counted_by_each_combination() {
        let later = [("LastFailureAt", "2026-01-03T00:00:00.000Z")];
        let letters = [
            given_up("1", &[]),
            given_up("2", &later),
            given_up("3", &[("ErrorType", "Timeout")]),
            bare("4", &[]),
        ];
        let count = |by: &[GroupBy]| {
            let mut groups = Groups::by(by);
            letters.iter().for_each(|letter| groups.count(letter, &letter.facts()));
            groups
        };
        let groups = count(&[GroupBy::Reason, GroupBy::Error]);
        let keys: Vec<_> = groups
            .largest_first()
            .into_iter()
            .map(|(key, it)| (key.join(" "), it.letters))
            .collect();
        let expected = [
            ("max_age_exceeded app.PaymentError", 2),
            ("max_age_exceeded Timeout", 1),
            ("none none", 1),
        ];
        assert_eq!(keys, expected.map(|(key, count)| (key.to_owned(), count)));
        let (_, largest) = groups.largest_first()[0];
        assert_eq!(largest.first_at, time::parse("2026-01-01T10:00:00Z"));
        assert_eq!(largest.last_at, time::parse("2026-01-03T00:00:00Z"));

        for (name, by) in GroupBy::ALL {
            let groups = count(&[by]);
            assert_eq!(groups.names().collect::<Vec<_>>(), [name]);
            let total: u64 = groups.largest_first().iter().map(|(_, group)| group.letters).sum();
            assert_eq!(total, 4, "{name}");
        }
        let days = count(&[GroupBy::Day]);
        assert_eq!(days.largest_first()[0].0, ["2026-01-01"]);
    }
}
