//! What letters are grouped by.

use comeback_core::time::rfc3339;

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

    /// What this letter has in common with the others of its group.
    pub fn key(self, letter: &Letter, facts: &Facts<'_>) -> String {
        let key = match self {
            Self::Reason => facts.reason.map(str::to_owned),
            Self::Function => facts.function.as_ref().map(|it| it.name().to_owned()),
            Self::Error => facts.error_type.clone(),
            Self::Attempts => facts.attempts.map(|attempts| attempts.to_string()),
            Self::Day => letter.failed_at(facts).map(|at| rfc3339(at)[..10].to_owned()),
        };
        key.unwrap_or_else(|| NO_REASON.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::letter::tests::{bare, given_up};

    #[test]
    fn every_letter_has_a_group() {
        let letter = given_up("1", &[]);
        let bare = bare("4", &[]);
        for (by, expected) in [
            (GroupBy::Reason, ["max_age_exceeded", NO_REASON]),
            (GroupBy::Function, ["orders", NO_REASON]),
            (GroupBy::Error, ["app.PaymentError", NO_REASON]),
            (GroupBy::Attempts, ["7", NO_REASON]),
            (GroupBy::Day, ["2026-01-01", "2026-01-01"]),
        ] {
            let keys = [&letter, &bare].map(|letter| by.key(letter, &letter.facts()));
            assert_eq!(keys, expected, "{}", by.name());
        }
    }
}
