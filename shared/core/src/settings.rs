//! The settings of the retry handler, read once at its start.
//!
//! All bad values are reported in one message, so that they can be fixed with one deployment.

use std::{fmt, num::NonZeroU32};

pub use crate::rules::{DlqTarget, Policies, QueueTargets, Rules, Targets};
use crate::{
    contract::{Fault, SETTINGS},
    in_flight::IN_FLIGHT_MAX,
    rules::FLAG,
};

const URL: &str =
    "the URL of a queue, such as https://sqs.us-east-1.amazonaws.com/123456789012/name";
const TABLE: &str = "the name or the ARN of a DynamoDB table";
const FUNCTION: &str = "the name or the ARN of a function";

#[derive(Clone, Debug)]
pub struct Settings {
    pub rules: Rules,
    pub dead_letter_queue_url: String,
    /// The retry queue, where its URL can't be derived from the ARN in a message.
    pub retry_queue_url: Option<String>,
    /// How many messages of a queue may wait in flight.
    pub in_flight_max: NonZeroU32,
    /// The table in which each failure is claimed before it is acted on.
    pub ledger_table: Option<String>,
    /// Whether waiting events are listed in that table, and an operator's orders are read from it.
    pub register: bool,
    /// Whether a target that is down is probed instead of retried at every due time.
    pub probe: bool,
}

impl Settings {
    /// Reads the settings from environment variables. An empty variable counts as unset, because templates set one for
    /// an optional parameter without a value.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let mut faults = Vec::new();
        let url = |name: &str, faults: &mut Vec<Fault>| {
            let value = lookup(name)?;
            is_queue_url(&value).then(|| value.clone()).or_else(|| fault(faults, name, URL, &value))
        };
        let dead_letter_queue_url = url("DEAD_LETTER_QUEUE_URL", &mut faults);
        if lookup("DEAD_LETTER_QUEUE_URL").is_none() {
            faults.push(Fault::missing("DEAD_LETTER_QUEUE_URL", URL));
        }
        let retry_queue_url = url("RETRY_QUEUE_URL", &mut faults);
        if let Some(url) =
            dead_letter_queue_url.as_ref().filter(|_| dead_letter_queue_url == retry_queue_url)
        {
            faults.push(Fault::new(
                "DEAD_LETTER_QUEUE_URL",
                "another queue than RETRY_QUEUE_URL",
                url,
            ));
        }
        let targets = lookup("TARGET_FUNCTIONS")
            .map_or(Targets::Home, |list| Targets::read(&list, &mut faults));
        let queue_targets =
            lookup("QUEUE_TARGETS").map(|text| QueueTargets::read(&text, &mut faults));
        let in_flight_max = lookup("IN_FLIGHT_MAX").and_then(|text| {
            text.trim()
                .parse()
                .ok()
                .or_else(|| fault(&mut faults, "IN_FLIGHT_MAX", "a whole number from 1", &text))
        });
        let dlq_target = lookup("DLQ_TARGET").and_then(|text| {
            DlqTarget::parse(&text).or_else(|| fault(&mut faults, "DLQ_TARGET", FUNCTION, &text))
        });
        let ledger_table = lookup("LEDGER_TABLE");
        if let Some(table) = ledger_table.as_ref().filter(|table| !is_table(table)) {
            faults.push(Fault::new("LEDGER_TABLE", TABLE, table));
        }
        let mut with_ledger = |name: &str| {
            let Some(value) = lookup(name) else { return false };
            match value.trim() {
                "true" if ledger_table.is_none() => {
                    let expected = format!("{TABLE} if {name} is true");
                    faults.push(Fault::missing("LEDGER_TABLE", &expected));
                }
                "true" | "false" => {}
                _ => faults.push(Fault::new(name, FLAG, &value)),
            }
            value.trim() == "true"
        };
        let (register, probe) = (with_ledger("REGISTER"), with_ledger("PROBE"));
        let policies = Policies::read(&lookup, &mut faults);
        let rules = Rules { targets, queue_targets, dlq_target, policies };
        let own_queues = [retry_queue_url.as_deref(), dead_letter_queue_url.as_deref()];
        rules.refuse_loops(own_queues, &mut faults);
        match dead_letter_queue_url {
            Some(dead_letter_queue_url) if faults.is_empty() => Ok(Self {
                rules,
                dead_letter_queue_url,
                retry_queue_url,
                in_flight_max: in_flight_max.unwrap_or(IN_FLIGHT_MAX),
                ledger_table,
                register,
                probe,
            }),
            _ => Err(BadSettings(faults)),
        }
    }
}

fn is_queue_url(value: &str) -> bool {
    let rest = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
    let path = rest.and_then(|rest| rest.split_once('/'));
    path.is_some_and(|(host, name)| !host.is_empty() && !name.trim_matches('/').is_empty())
        && !value.contains(char::is_whitespace)
}

/// DynamoDB's own rule for table names; an ARN names a table of another account.
fn is_table(value: &str) -> bool {
    let named = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_name = |name: &str| (3..=255).contains(&name.len()) && name.chars().all(named);
    match value.strip_prefix("arn:") {
        Some(rest) => rest
            .split_once(":table/")
            .is_some_and(|(owner, name)| owner.contains(":dynamodb:") && is_name(name)),
        None => is_name(value),
    }
}

/// Errors in settings. Each names the variable, the expected value and the actual value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct BadSettings(pub(crate) Vec<Fault>);

impl BadSettings {
    /// The names of the invalid variables. A value within `POLICIES` is named by its path.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|fault| fault.name.as_str())
    }
}

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

/// Adds a fault, and returns `None` in place of the value.
pub(crate) fn fault<T>(
    faults: &mut Vec<Fault>,
    name: &str,
    expected: &str,
    got: &str,
) -> Option<T> {
    faults.push(Fault::new(name, expected, got));
    None
}

/// A variable counts as a misspelt setting if at most this many edits turn it into one, and at most one edit for each
/// four characters of the setting's name.
const EDITS_MAX: usize = 2;

/// A variable that was probably meant to be a setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Misspelt {
    variable: String,
    pub(crate) setting: &'static str,
}

impl Misspelt {
    /// Finds misspelt settings among the names of an environment's variables.
    pub fn among(variables: impl IntoIterator<Item = String>) -> Vec<Self> {
        let settings = || SETTINGS.iter().map(|setting| setting.name);
        let others = variables.into_iter().filter(|name| !settings().any(|known| known == name));
        let misspelt = |variable: String| {
            let upper = variable.to_ascii_uppercase();
            // If the lengths differ by more than that, so do the names.
            let near = |known: &&str| known.len().abs_diff(upper.len()) <= EDITS_MAX;
            let edits = |known| (strsim::osa_distance(&upper, known), known);
            let (edits, setting) = settings().filter(near).map(edits).min()?;
            (edits <= EDITS_MAX.min(setting.len() / 4)).then_some(Self { variable, setting })
        };
        others.filter_map(misspelt).collect()
    }
}

impl fmt::Display for Misspelt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, setting } = self;
        write!(f, "{variable} is not a setting and is ignored; did you mean {setting}?")
    }
}

#[cfg(test)]
mod tests;
