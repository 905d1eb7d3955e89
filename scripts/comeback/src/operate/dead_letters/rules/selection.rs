//! Which letters a command is about.

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use clap::builder::PossibleValuesParser;
use comeback_core::{Timestamp, reason::Reason, time::between};

use super::{
    letter::{Facts, Letter, Origin},
    pointer::PointerValue,
};

use crate::{
    filter::{FailureFilter, any},
    typed::{NONE, duration, not_empty},
};

/// Filters on letters. All filters must match. A repeatable filter matches if one of its values does.
#[derive(Clone, Debug, Default, Eq, PartialEq, clap::Args)]
#[command(next_help_heading = "Filters")]
pub struct Selection {
    /// The beginning of a message id or request id; repeatable.
    #[arg(long = "id", value_name = "ID", value_parser = not_empty)]
    pub ids: Vec<String>,
    /// A reason, such as max_age_exceeded, or none for letters that SQS or Lambda sent; repeatable.
    #[arg(long = "reason", value_name = "REASON", value_parser = PossibleValuesParser::new(reasons()))]
    pub reasons: Vec<String>,
    #[command(flatten)]
    pub failures: FailureFilter,
    /// The last failure is at least this long ago.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// The last failure is at most this long ago.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub newer_than: Option<Duration>,
    /// How many attempts were made: 3, 3.., ..5 or 3..5.
    #[arg(long, value_name = "N|FROM..TO", value_parser = attempts)]
    pub attempts: Option<RangeInclusive<u32>>,
    /// A value in the payload, by a JSON pointer, such as /order/country=DE; repeatable, and all must be there.
    #[arg(long = "where", value_name = "/POINTER=VALUE", value_parser = PointerValue::parse)]
    pub places: Vec<PointerValue>,
    /// The message ids of the only letters to select, if a plan has named them.
    #[arg(skip)]
    pub named: Option<BTreeSet<String>>,
}

/// The names that `--reason` takes.
pub fn reasons() -> impl Iterator<Item = &'static str> {
    Reason::ALL.iter().map(|reason| reason.as_str()).chain([NONE])
}

/// Parses a number of attempts or an inclusive range: `3`, `3..`, `..5` or `3..5`.
fn attempts(text: &str) -> Result<RangeInclusive<u32>, &'static str> {
    let bound = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
    let range = match text.split_once("..") {
        Some(("", "")) => None,
        Some((from, to)) => bound(from, 0).zip(bound(to, u32::MAX)),
        None => text.parse().ok().map(|exactly| (exactly, exactly)),
    };
    let range = range.filter(|(from, to)| from <= to).map(|(from, to)| from..=to);
    range.ok_or("expected a number or a range, such as 3, 3.., ..5 or 3..5")
}

impl Selection {
    pub fn matches(&self, letter: &Letter, facts: &Facts, now: Timestamp) -> bool {
        self.matches_facts(&letter.id, facts)
            && self.is_of_age(letter, facts, now)
            && self
                .places
                .iter()
                .all(|place| facts.payload.as_deref().is_some_and(|payload| place.holds(payload)))
    }

    /// Whether the letter meets all conditions except those about its age and its payload.
    pub fn matches_facts(&self, id: &str, facts: &Facts) -> bool {
        let request_id = facts.request_id.as_deref().unwrap_or_default();
        self.named.as_ref().is_none_or(|named| named.contains(id))
            && any(&self.ids, |wanted| id.starts_with(wanted) || request_id.starts_with(wanted))
            && any(&self.reasons, |reason| facts.reason.as_deref().unwrap_or(NONE) == reason)
            && self.failures.matches(
                facts.target.as_ref(),
                facts.error_type.as_deref(),
                facts.error_message.as_deref(),
            )
            && self.attempts.as_ref().is_none_or(|range| {
                facts.attempts.is_some_and(|attempts| range.contains(&attempts))
            })
    }

    fn is_of_age(&self, letter: &Letter, facts: &Facts, now: Timestamp) -> bool {
        let Some(failed_at) = letter.failed_at(facts) else {
            return self.older_than.is_none() && self.newer_than.is_none();
        };
        let age = between(failed_at, now);
        self.older_than.is_none_or(|least| age >= least)
            && self.newer_than.is_none_or(|most| age <= most)
    }

    /// Whether the letter may be redriven to the target that it names. The handler vouches for the target of each
    /// letter that it has sent, unless it was not allowed to retry that target. Anybody who may write to a retry queue
    /// can forge the other letters, so the operator must name their target.
    pub(super) fn trusts(&self, facts: &Facts) -> bool {
        let refused = Some(Reason::TargetNotAllowed.as_str());
        let is_vouched = facts.origin == Origin::GivenUp && facts.reason.as_deref() != refused;
        is_vouched || !self.failures.functions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};
    use comeback_core::time;

    use super::*;
    use crate::operate::dead_letters::rules::letter::tests::{bare, given_up};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        selection: Selection,
    }

    #[test]
    fn every_filter_must_match_and_one_value_of_a_repeated_filter() {
        let letter = given_up(r#"{"order":{"country":"DE"}}"#, &[]);
        let empty = bare("no JSON", &[]);
        let now = time::parse("2026-01-01T12:00:00Z").unwrap();
        for (options, is_letter, is_empty) in [
            ("", true, true),
            ("--id mess", true, true),
            ("--id x --id first-id", true, false),
            ("--id essage", false, false),
            ("--reason max_age_exceeded", true, false),
            ("--reason not_retryable --reason none", false, true),
            ("--function orders", true, false),
            ("--function ord*", true, false),
            ("--function arn:aws:lambda:us-east-1:123456789012:function:orders", true, false),
            ("--function *:live", false, false),
            ("--function *", true, false),
            ("--function none", false, true),
            ("--error PaymentError", true, false),
            ("--error app.*", true, false),
            ("--error Payment", false, false),
            ("--error none", false, true),
            ("--message DECLINED", true, false),
            ("--message approved", false, false),
            // The age of a letter without a failure counts from when it was sent.
            ("--older-than 1h", true, true),
            ("--older-than 2h", true, false),
            ("--older-than 3h", false, false),
            ("--newer-than 2h", true, true),
            ("--newer-than 1h", false, false),
            ("--attempts 7", true, false),
            ("--attempts 7..", true, false),
            ("--attempts 0..", true, false),
            ("--attempts ..6", false, false),
            ("--attempts 6..7", true, false),
            ("--where /order/country=DE", true, false),
            ("--where /order/country=DE --where /x=1", false, false),
            ("--id mess --reason none", false, true),
        ] {
            let line = Line::parse_from(["dead"].into_iter().chain(options.split_whitespace()));
            let found = [&letter, &empty].map(|it| line.selection.matches(it, &it.facts(), now));
            assert_eq!(found, [is_letter, is_empty], "{options}");
        }
        for text in ["5..3", "..", "x", ""] {
            assert!(Line::try_parse_from(["dead", "--attempts", text]).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_filter_refuses_an_empty_value_and_a_misspelt_reason_is_refused_with_the_nearest() {
        let filters = Line::command();
        let filters: Vec<_> = filters.get_arguments().filter_map(|it| it.get_long()).collect();
        assert!(filters.len() > 8, "{filters:?}");
        for filter in filters {
            let refused = Line::try_parse_from(["dead", &format!("--{filter}"), ""]);
            assert!(refused.is_err(), "--{filter}");
        }
        let refused = Line::try_parse_from(["dead", "--reason", "not_retriable"]);
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("a similar value exists: 'not_retryable'"), "{refused}");
    }
}
