//! The operator's filter for dead letters.

use std::{ops::RangeInclusive, time::Duration};

use comeback_core::{
    Timestamp,
    json::{self, Object, Pointer},
    reason::Reason,
    time::between,
};
use serde_json::value::RawValue;

use crate::operate::{
    dead_letters::rules::letter::{Facts, Letter, NO_REASON, Origin},
    rules::filter::{any, contains, is_error_of, is_target},
};

/// A filter for letters. All conditions that are set must be met. For a list, one matching entry is enough.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selection {
    /// Message ids or request ids of events, or prefixes of them.
    pub ids: Vec<String>,
    /// Reasons, or [`NO_REASON`].
    pub reasons: Vec<String>,
    /// Names or ARNs of functions and queues; `*` matches any characters.
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
                facts.target.as_ref().is_some_and(|it| is_target(it, wanted))
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

    /// Whether the letter may be redriven to the target that it names. The handler vouches for the target of each
    /// letter that it has sent, unless it was not allowed to retry that target. Of other letters, whoever may write
    /// to a retry queue has written all that they say. So the operator must name the target.
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

/// A JSON pointer and a value, as in `/order/country=DE`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PointerValue {
    pub pointer: Pointer,
    /// The value to find or to set: JSON, or a string without quotes.
    pub value: String,
}

/// A text that is not a [`PointerValue`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected a JSON pointer and a value, such as /order/country=DE")]
pub struct InvalidPointerValue;

impl PointerValue {
    /// Parses `POINTER=VALUE`. The pointer ends at the first equals sign.
    pub fn parse(text: &str) -> Result<Self, InvalidPointerValue> {
        let (pointer, value) = text.split_once('=').ok_or(InvalidPointerValue)?;
        let pointer = Pointer::parse(pointer).ok_or(InvalidPointerValue)?;
        Ok(Self { pointer, value: value.to_owned() })
    }

    /// Whether the payload has the value at the pointer: the same JSON text, or a string with this text.
    pub fn holds(&self, payload: &str) -> bool {
        let Some(found) = self.pointer.find(payload) else { return false };
        found.get() == self.value
            || json::bytes(found).is_some_and(|bytes| *bytes == *self.value.as_bytes())
    }

    /// The payload with the value at the pointer. The value replaces an existing one or is added to an existing object;
    /// `None` if neither exists.
    pub fn set(&self, payload: &str) -> Option<String> {
        let is_json = serde_json::from_str::<&RawValue>(&self.value).is_ok();
        let value = if is_json { self.value.clone() } else { quoted(&self.value) };
        if let Some(old) = self.pointer.find(payload) {
            let start = offset(payload, old);
            return Some(spliced(payload, start, start + old.get().len(), &value));
        }
        let (parent, name) = self.pointer.split()?;
        let object = parent.find(payload)?;
        let is_empty = Object::read(object.get())?.into_members().next().is_none();
        let end = offset(payload, object) + object.get().len() - 1;
        let comma = if is_empty { "" } else { "," };
        let member = format!("{comma}{}:{value}", quoted(&name));
        Some(spliced(payload, end, end, &member))
    }
}

fn offset(text: &str, part: &RawValue) -> usize {
    part.get().as_ptr().addr() - text.as_ptr().addr()
}

fn spliced(text: &str, start: usize, end: usize, part: &str) -> String {
    [&text[..start], part, &text[end..]].concat()
}

fn quoted(text: &str) -> String {
    // Serializing a string can't fail.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use comeback_core::time;
    use proptest::prelude::*;

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

    const PAYLOAD: &str = r#" {"order" : {"country":"D\u0045","n":12345678901234567890123,"lines":[1.0,{"a/b":null}]},
        "empty":{ }, "order2":"x"} "#;

    fn place(text: &str) -> PointerValue {
        PointerValue::parse(text).unwrap()
    }

    #[test]
    fn a_place_holds_a_value_by_its_text() {
        for (text, expected) in [
            ("/order/country=DE", true),
            (r#"/order/country="D\u0045""#, true),
            ("/order/country=FR", false),
            ("/order/n=12345678901234567890123", true),
            ("/order/n=12345678901234567890124", false),
            ("/order/lines/0=1.0", true),
            ("/order/lines/0=1", false),
            ("/order/lines/00=1.0", false),
            ("/order/lines/1/a~1b=null", true),
            ("/order/lines/2=1", false),
            ("/order/missing=", false),
            ("/order2=x", true),
        ] {
            assert_eq!(place(text).holds(PAYLOAD), expected, "{text}");
        }
        assert!(!place("/a=1").holds("no JSON"));
        assert!(place("=7").holds("7"), "the empty pointer is the whole payload");
        for text in ["order=DE", "/order", ""] {
            assert_eq!(PointerValue::parse(text), Err(InvalidPointerValue), "{text}");
        }
    }

    #[test]
    fn setting_a_value_leaves_every_other_byte() {
        let set = |text: &str| place(text).set(PAYLOAD).unwrap();
        assert_eq!(set("/order/country=FR"), PAYLOAD.replace(r#""D\u0045""#, r#""FR""#));
        assert_eq!(set("/order/n=7"), PAYLOAD.replace("12345678901234567890123", "7"));
        assert_eq!(set(r#"/order/n="7""#), PAYLOAD.replace("12345678901234567890123", r#""7""#));
        assert_eq!(set("/empty/new~0=true"), PAYLOAD.replace("{ }", r#"{ "new~":true}"#));
        assert_eq!(set("/order/new=1"), PAYLOAD.replace("]}", r#"],"new":1}"#));
        assert_eq!(place("=[]").set("7"), Some("[]".to_owned()));
        for text in ["/order2/x=1", "/none/x=1", "/order/lines/7=1"] {
            assert_eq!(place(text).set(PAYLOAD), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_value_that_was_set_is_found(name in "[a-z~/\"\\\\é]{0,8}", value in "[a-zé\"{}]{0,8}", payload in "\\{(\"a\":1)?\\}") {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            let place = PointerValue { pointer: Pointer::parse(&format!("/{escaped}")).unwrap(), value };
            let set = place.set(&payload).unwrap();
            prop_assert!(place.holds(&set), "{set}");
        }
    }
}
