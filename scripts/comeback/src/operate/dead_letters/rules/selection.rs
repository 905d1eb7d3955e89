//! The operator's filter for dead letters.

use std::{ops::RangeInclusive, time::Duration};

use comeback_core::{Timestamp, reason::Reason, time::between};

use super::{
    letter::{Facts, Letter, NO_REASON, Origin},
    pointer::PointerValue,
};
use crate::operate::rules::filter::{any, contains, is_error_of, is_function};

/// A filter for letters. All conditions that are set must be met. For a list, one matching entry is enough.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selection {
    /// Message ids or request ids of events, or prefixes of them.
    pub ids: Vec<String>,
    /// Reasons, or [`NO_REASON`].
    pub reasons: Vec<String>,
    /// Names or ARNs of functions; `*` matches any characters.
    pub functions: Vec<String>,
    /// Error types, whole or their last segments, or `none`; `*` matches any characters.
    pub errors: Vec<String>,
    /// A part of the error message, ignoring case.
    pub message: Option<String>,
    pub older_than: Option<Duration>,
    /// The maximum time since the last failure.
    pub newer_than: Option<Duration>,
    pub attempts: Option<RangeInclusive<u32>>,
    /// Values in the payload, which must all be present.
    pub places: Vec<PointerValue>,
}

impl Selection {
    /// Whether this letter meets all conditions.
    pub fn matches(&self, letter: &Letter, facts: &Facts, now: Timestamp) -> bool {
        any(&self.ids, |id| {
            letter.id.starts_with(id)
                || facts.request_id.as_ref().is_some_and(|it| it.starts_with(id))
        }) && any(&self.reasons, |reason| facts.reason.as_deref().unwrap_or(NO_REASON) == reason)
            && any(&self.functions, |wanted| {
                facts.function.as_ref().is_some_and(|it| is_function(it, wanted))
            })
            && any(&self.errors, |wanted| is_error_of(facts.error_type.as_deref(), wanted))
            && self.message.as_ref().is_none_or(|part| {
                contains(facts.error_message.as_deref().unwrap_or_default(), part)
            })
            && self.is_of_age(letter, facts, now)
            && self.attempts.as_ref().is_none_or(|range| {
                facts.attempts.is_some_and(|attempts| range.contains(&attempts))
            })
            && self
                .places
                .iter()
                .all(|place| facts.payload.as_deref().is_some_and(|payload| place.holds(payload)))
    }

    fn is_of_age(&self, letter: &Letter, facts: &Facts, now: Timestamp) -> bool {
        let Some(failed_at) = letter.failed_at(facts) else {
            return self.older_than.is_none() && self.newer_than.is_none();
        };
        let age = between(failed_at, now);
        self.older_than.is_none_or(|least| age >= least)
            && self.newer_than.is_none_or(|most| age <= most)
    }

    /// Whether the letter may be redriven to the function that it names. The handler vouches for the function of each
    /// letter that it has sent, unless it was not allowed to invoke that function. Of other letters, whoever may write
    /// to a retry queue has written all that they say. So the operator must name the function.
    pub(super) fn trusts(&self, facts: &Facts) -> bool {
        let refused = Some(Reason::TargetNotAllowed.as_str());
        let is_vouched = facts.origin == Origin::GivenUp && facts.reason.as_deref() != refused;
        is_vouched || !self.functions.is_empty()
    }
}

/// Parses a number of attempts or an inclusive range: `3`, `3..`, `..5` or `3..5`.
pub fn attempts(text: &str) -> Option<RangeInclusive<u32>> {
    let bound = |text: &str, open| {
        if text.is_empty() { Some(open) } else { text.parse().ok() }
    };
    match text.split_once("..") {
        Some((from, to)) if !text.starts_with("..") || !to.is_empty() => {
            let (from, to) = (bound(from, 0)?, bound(to, u32::MAX)?);
            (from <= to).then_some(from..=to)
        }
        Some(_) => None,
        None => text.parse().ok().map(|exactly| exactly..=exactly),
    }
}

#[cfg(test)]
mod tests {
    use comeback_core::time;

    use super::*;
    use crate::operate::dead_letters::rules::letter::tests::{bare, given_up};

    fn one(set: impl FnOnce(&mut Selection)) -> Selection {
        let mut selection = Selection::default();
        set(&mut selection);
        selection
    }

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|&entry| entry.to_owned()).collect()
    }

    #[test]
    fn every_condition_that_is_set_must_be_met() {
        let letter = given_up(r#"{"order":{"country":"DE"}}"#, &[]);
        let now = time::parse("2026-01-01T12:00:00Z").unwrap();
        let hours = |hours| Some(Duration::from_hours(hours));
        let place = |text: &str| PointerValue::parse(text).unwrap();
        let table = [
            (Selection::default(), true),
            (one(|it| it.ids = list(&["mess"])), true),
            (one(|it| it.ids = list(&["x", "first-id"])), true),
            (one(|it| it.ids = list(&["essage"])), false),
            (one(|it| it.reasons = list(&["max_age_exceeded"])), true),
            (one(|it| it.reasons = list(&["not_retryable", "none"])), false),
            (one(|it| it.functions = list(&["orders"])), true),
            (one(|it| it.functions = list(&["ord*"])), true),
            (
                one(|it| {
                    it.functions = list(&["arn:aws:lambda:us-east-1:123456789012:function:orders"])
                }),
                true,
            ),
            (one(|it| it.functions = list(&["*:live"])), false),
            (one(|it| it.errors = list(&["PaymentError"])), true),
            (one(|it| it.errors = list(&["app.*"])), true),
            (one(|it| it.errors = list(&["Payment"])), false),
            (one(|it| it.message = Some("DECLINED".into())), true),
            (one(|it| it.message = Some("approved".into())), false),
            (one(|it| it.older_than = hours(2)), true),
            (one(|it| it.older_than = hours(3)), false),
            (one(|it| it.newer_than = hours(2)), true),
            (one(|it| it.newer_than = hours(1)), false),
            (one(|it| it.attempts = attempts("7..")), true),
            (one(|it| it.attempts = attempts("..6")), false),
            (one(|it| it.places = vec![place("/order/country=DE")]), true),
            (one(|it| it.places = vec![place("/order/country=DE"), place("/x=1")]), false),
        ];
        for (selection, expected) in table {
            assert_eq!(selection.matches(&letter, &letter.facts(), now), expected, "{selection:?}");
        }
        let both = Selection { reasons: list(&["none"]), ..one(|it| it.ids = list(&["mess"])) };
        assert!(!both.matches(&letter, &letter.facts(), now));
    }

    #[test]
    fn a_letter_that_lacks_a_fact_does_not_meet_its_condition() {
        let letter = bare("no JSON", &[]);
        let facts = letter.facts();
        let now = time::parse("2026-01-01T12:00:00Z").unwrap();
        for selection in [
            one(|it| it.functions = list(&["*"])),
            one(|it| it.errors = list(&["PaymentError"])),
            one(|it| it.message = Some("x".into())),
            one(|it| it.attempts = attempts("0..")),
            one(|it| it.places = vec![PointerValue::parse("/a=1").unwrap()]),
        ] {
            assert!(!selection.matches(&letter, &facts, now), "{selection:?}");
        }
        assert!(one(|it| it.reasons = list(&[NO_REASON])).matches(&letter, &facts, now));
        assert!(one(|it| it.errors = list(&["none"])).matches(&letter, &facts, now));
        let sent = one(|it| it.older_than = Some(Duration::from_hours(1)));
        assert!(sent.matches(&letter, &facts, now), "its age counts from when it was sent");
    }

    #[test]
    fn attempts_are_a_number_or_a_range() {
        for (text, expected) in [
            ("3", Some(3..=3)),
            ("3..", Some(3..=u32::MAX)),
            ("..5", Some(0..=5)),
            ("3..5", Some(3..=5)),
            ("5..3", None),
            ("..", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(attempts(text), expected, "{text:?}");
        }
    }
}
