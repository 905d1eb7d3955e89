//! The settings of the retry handler, read once at its start.
//!
//! All bad values are reported in one message, so that they can be fixed with one deployment.

use std::num::NonZeroU32;

pub use crate::{
    bad_settings::BadSettings,
    misspelt::Misspelt,
    rules::{DlqTarget, Policies, QueueTargets, Rules, Targets},
};
use crate::{
    bad_settings::{Fault, fault},
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
            let good = is_queue_url(&value);
            good.then_some(()).or_else(|| fault(faults, name, URL, &value))?;
            Some(value)
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

#[cfg(test)]
mod tests;
