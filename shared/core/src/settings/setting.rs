//! A setting: its name, bounds, default and meaning, and the place where the handler keeps its value.
//!
//! The handler reads all of this. Deployments and documents read it as JSON, which has no places.

use std::{num::NonZeroU32, time::Duration};

use serde::{Serialize, Serializer};

use super::{bad_settings::Fault, values::Values};
use crate::{backoff::Backoffs, duration, json::Pointer};

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Setting {
    pub name: &'static str,
    pub scope: Scope,
    /// For a setting that is about functions only, what becomes of it in the policy of a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions_only: Option<FunctionsOnly>,
    /// Whether an error may have a value of its own, in `ERRORS`.
    #[serde(skip_serializing_if = "is_false")]
    pub for_errors: bool,
    /// The setting that it is another name of. That one comes first in the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias_of: Option<&'static str>,
    #[serde(flatten)]
    pub value: Value,
    /// What it means. A name between backticks is another setting.
    pub meaning: &'static str,
    /// The section of the documents that says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<&'static str>,
}

/// What a setting is about, and so who sets it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// How events are retried. `POLICIES` can override it for one function or queue.
    Policy,
    /// A part of a policy in `POLICIES`, which is no variable.
    Member,
    Handler,
    /// What the handler retries. A deployment derives it from the functions and queues that are attached.
    Functions,
    /// A queue or a table, which a deployment creates.
    Resource,
}

/// What the handler does with a setting about functions in the policy of a queue. It would have no effect there, so CDK
/// and Terraform refuse it in either case.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionsOnly {
    Refused,
    /// The handler has always accepted it, so to refuse it now would stop running deployments.
    Ignored,
}

/// What values a setting has. A function, `place` or `put`, says where the value is kept.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Value {
    Duration {
        #[serde(serialize_with = "written")]
        min: Duration,
        /// A setting whose value is the lower bound if it is above `min`.
        #[serde(skip_serializing_if = "Option::is_none")]
        at_least: Option<&'static str>,
        #[serde(serialize_with = "written")]
        max: Duration,
        #[serde(serialize_with = "written")]
        default: Duration,
        #[serde(skip)]
        place: fn(&mut Values) -> &mut Duration,
    },
    /// Durations, separated by commas.
    Durations {
        #[serde(serialize_with = "written")]
        min: Duration,
        #[serde(serialize_with = "written")]
        max: Duration,
        example: &'static str,
        /// The settings that it replaces. It is refused beside them, and overrides those that are inherited, as they
        /// override it.
        instead_of: &'static [&'static str],
        #[serde(skip)]
        place: fn(&mut Values) -> &mut Backoffs,
    },
    /// A whole number from 1.
    Whole {
        max: u32,
        default: Option<u32>,
        #[serde(skip)]
        put: fn(&mut Values, NonZeroU32),
    },
    /// One of these texts, with what each puts into its place.
    Choice {
        #[serde(serialize_with = "names")]
        options: &'static [Choice],
        default: &'static str,
    },
    /// `true` or `false`.
    Flag {
        default: bool,
        /// A setting of the handler without which `true` is refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        needs: Option<&'static str>,
        #[serde(skip)]
        place: fn(&mut Values) -> &mut bool,
    },
    /// Texts, separated by commas.
    List {
        /// What holds without a value, for the documents.
        default: Option<&'static str>,
        #[serde(skip)]
        put: PutText,
    },
    Json {
        example: &'static str,
        #[serde(skip)]
        put: PutText,
    },
    /// A JSON pointer into a payload.
    Pointer {
        pattern: &'static str,
        #[serde(skip)]
        put: fn(&mut Values, Pointer),
    },
    Text {
        /// What holds without a value, for the documents.
        default: Option<&'static str>,
        is_required: bool,
        /// What a good text is.
        #[serde(skip)]
        expected: &'static str,
        /// Returns false if the text is not good.
        #[serde(skip)]
        put: fn(&mut Values, &str) -> bool,
    },
}

/// A text, and what puts the choice of it into its place.
type Choice = (&'static str, fn(&mut Values));

/// Puts a text of several parts into its place, and reports what is wrong with each.
type PutText = fn(&mut Values, &str, &mut Vec<Fault>);

fn written<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&duration::format(*value))
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn names<S: Serializer>(options: &[Choice], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(options.iter().map(|(name, _)| name))
}

impl Setting {
    /// Puts the default into its place, if the setting has one.
    pub(crate) fn put_default(&self, values: &mut Values) {
        match self.value {
            Value::Duration { default, place, .. } => *place(values) = default,
            Value::Whole { default, put, .. } => {
                if let Some(default) = default.and_then(NonZeroU32::new) {
                    put(values, default);
                }
            }
            Value::Choice { options, default } => {
                if let Some((_, put)) = options.iter().find(|(name, _)| *name == default) {
                    put(values);
                }
            }
            Value::Flag { default, place, .. } => *place(values) = default,
            Value::Durations { .. }
            | Value::List { .. }
            | Value::Json { .. }
            | Value::Pointer { .. }
            | Value::Text { .. } => {}
        }
    }

    /// Puts a value into its place. A bad one is reported, and the place stays unchanged.
    pub(crate) fn put(&self, text: &str, values: &mut Values, faults: &mut Vec<Fault>) {
        if self.try_put(text, values, faults).is_none() {
            faults.push(Fault::new(self.name, self.expected(text), text));
        }
    }

    fn try_put(&self, text: &str, values: &mut Values, faults: &mut Vec<Fault>) -> Option<()> {
        let trimmed = text.trim();
        match self.value {
            Value::Duration { min, max, place, .. } => {
                let value = duration::parse(trimmed)?;
                *place(values) = (min..=max).contains(&value).then_some(value)?;
            }
            Value::Durations { min, max, place, .. } => {
                let bounds = min..=max;
                let read = |entry| duration::parse(entry).filter(|it| bounds.contains(it));
                *place(values) = trimmed.split(',').map(read).collect::<Option<_>>()?;
            }
            Value::Whole { max, put, .. } => {
                let value: NonZeroU32 = trimmed.parse().ok()?;
                put(values, (value.get() <= max).then_some(value)?);
            }
            Value::Choice { options, .. } => {
                let (_, put) = options.iter().find(|(name, _)| *name == trimmed)?;
                put(values);
            }
            Value::Flag { place, .. } => *place(values) = trimmed.parse().ok()?,
            Value::List { put, .. } | Value::Json { put, .. } => put(values, text, faults),
            Value::Pointer { put, .. } => {
                put(values, Pointer::parse(trimmed).filter(|_| !trimmed.is_empty())?);
            }
            Value::Text { put, .. } => return put(values, text).then_some(()),
        }
        Some(())
    }

    /// The fault of not being set.
    pub(crate) fn missing(&self) -> Option<Fault> {
        match self.value {
            Value::Text { is_required: true, expected, .. } => {
                Some(Fault::missing(self.name, expected))
            }
            Value::Text { is_required: false, .. }
            | Value::Duration { .. }
            | Value::Durations { .. }
            | Value::Whole { .. }
            | Value::Choice { .. }
            | Value::Flag { .. }
            | Value::List { .. }
            | Value::Json { .. }
            | Value::Pointer { .. } => None,
        }
    }

    /// What the setting must be instead of this text.
    fn expected(&self, got: &str) -> String {
        match self.value {
            Value::Duration { .. } if duration::parse(got).is_none() => {
                "a duration such as 90, 90s, 15m, 24h or 7d".to_owned()
            }
            Value::Duration { min, at_least, max, .. } => {
                let least = at_least.map_or_else(|| duration::format(min), str::to_owned);
                format!("from {least} to {}", duration::format(max))
            }
            Value::Durations { min, max, example, .. } => {
                let (min, max) = (duration::format(min), duration::format(max));
                format!("durations from {min} to {max}, separated by commas, such as {example}")
            }
            Value::Whole { max: u32::MAX, .. } => "a whole number from 1".to_owned(),
            Value::Whole { max, .. } => format!("a whole number from 1 to {max}"),
            Value::Choice { options, .. } => {
                let names: Vec<_> = options.iter().map(|(name, _)| *name).collect();
                match names.split_last() {
                    Some((last, others)) => format!("{} or {last}", others.join(", ")),
                    None => String::new(),
                }
            }
            Value::Flag { .. } => "true or false".to_owned(),
            Value::Pointer { .. } => "a JSON pointer such as /tenant/id".to_owned(),
            Value::Text { expected, .. } => expected.to_owned(),
            // These report the parts that are wrong.
            Value::List { .. } | Value::Json { .. } => String::new(),
        }
    }
}
