//! Finds problems in a retry system, and says why each one matters and how to fix it.
//!
//! [`diagnose`] is a function of [`Facts`]. It examines each part of the system separately: the handler, its mappings,
//! the retry queues, the dead-letter queue, the functions and queues whose failures are retried, the queues' consumers,
//! and the ledger. A fact that is unknown, because a call failed, is a finding of its own, and affects no other.

mod facts;
mod functions;
mod queues;
mod sources;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeSet, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};

use crate::operate::{
    doctor::rules::sources::Role,
    rules::{Answer, Fault},
};

pub(crate) use crate::operate::doctor::rules::functions::{WRAPPER, WRAPPER_VARIABLE};
pub use crate::operate::doctor::rules::{
    facts::{
        Consumer, EARLIER, Facts, InvokeConfig, Keys, KnownBy, Layer, Ledger, Mapping, Metric,
        Queue, QueueAttributes, Redrive, RetryQueue, Running, Source, State, Table, Target,
    },
    queues::{RECEIVES, RETENTION, VISIBILITY_PER_TIMEOUT, actions_on_ledger},
    sources::VISIBILITY_LONG,
};

pub const ACTIONS_ON_RETRY_QUEUE: [&str; 5] = [
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:SendMessage",
];

/// To send to a queue with a key, both are needed; to receive from it, the second.
pub const ACTIONS_ON_KEY: [&str; 2] = ["kms:GenerateDataKey", "kms:Decrypt"];

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    Unknown,
    /// The system works, but not as well as it could, or not for long.
    Warning,
    /// Events are lost, or don't come back as they should.
    Bad,
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// A stable name, such as `retention_short`.
    pub name: &'static str,
    pub verdict: Verdict,
    pub says: String,
    pub why: &'static str,
    #[serde(skip)]
    pub fix: Option<Fix>,
}

impl Finding {
    fn why(&mut self, why: &'static str) -> &mut Self {
        self.why = why;
        self
    }

    fn fix(&mut self, fix: Fix) {
        self.fix = Some(fix);
    }

    fn by_hand(&mut self, command: impl Into<String>) {
        self.fix(Fix::ByHand(command.into()));
    }

    /// Is fixed by a policy that allows a role these actions on these resources. `purpose` becomes part of its name.
    fn allow(&mut self, role: &str, purpose: &str, actions: &[&str], resources: &[&str]) {
        let (role, policy) = (role.to_owned(), format!("comeback-{purpose}"));
        self.fix(Fix::Permission { role, policy, document: allow(actions, resources) });
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Examined {
    pub part: String,
    /// A summary to show if there are no findings.
    pub good: String,
    pub findings: Vec<Finding>,
}

impl Examined {
    fn new(part: String) -> Self {
        Self { part, good: String::new(), findings: Vec::new() }
    }

    fn found(
        &mut self,
        verdict: Verdict,
        name: &'static str,
        says: impl Into<String>,
    ) -> &mut Finding {
        self.findings.push_mut(Finding { name, verdict, says: says.into(), why: "", fix: None })
    }

    fn bad(&mut self, name: &'static str, says: impl Into<String>) -> &mut Finding {
        self.found(Verdict::Bad, name, says)
    }

    fn warn(&mut self, name: &'static str, says: impl Into<String>) -> &mut Finding {
        self.found(Verdict::Warning, name, says)
    }

    /// The fact, if it is known. A fault is recorded as a finding, but only once if several calls failed with it.
    fn known<'a, T>(&mut self, fact: &'a Answer<T>) -> Option<&'a T> {
        match fact {
            Ok(fact) => Some(fact),
            Err(fault) => {
                self.unknown(fault);
                None
            }
        }
    }

    fn unknown(&mut self, fault: &Fault) {
        let Fault { action, resource, message, .. } = fault;
        // Without a code, the message is followed by the whole response.
        let message = message.split(" (").next().unwrap_or_default();
        let got = fault.code.as_deref().unwrap_or(message);
        let says = if fault.code.is_some() && fault.is_unsupported() {
            format!("can't be checked here, because this endpoint has no {action}")
        } else {
            format!("can't be checked without {action} on {resource}: got {got}")
        };
        if self.findings.iter().all(|finding| finding.says != says) {
            self.found(Verdict::Unknown, "unchecked", says);
        }
    }
}

pub fn diagnose(facts: &Facts) -> Vec<Examined> {
    let mut all = vec![functions::examine_handler(facts)];
    all.extend(functions::mappings(facts));
    // A queue of another kind is reported with its mapping, or as what it is. Nothing of it is changed.
    let is_retry_queue =
        |it: &&RetryQueue| matches!(Role::of(facts, &it.queue.arn), Role::Retry | Role::Unbound);
    let retry_queues = facts.queues.iter().filter(is_retry_queue);
    all.extend(retry_queues.map(|queue| queues::examine_queue(facts, queue)));
    all.push(queues::dead_letters(facts));
    all.extend(facts.targets.iter().map(|target| functions::examine_target(facts, target)));
    for source in &facts.sources {
        all.push(sources::examine_source(facts, source));
        all.extend(source.consumers.iter().map(|it| sources::examine_consumer(source, it)));
    }
    all.extend(facts.ledger.iter().map(|ledger| queues::examine_ledger(facts, ledger)));
    all.extend(queues::examine_keys(facts));
    // Of repeated `unchecked` findings, the first part that has one keeps it.
    let mut seen = BTreeSet::new();
    for examined in &mut all {
        examined.findings.retain(|finding| {
            finding.verdict != Verdict::Unknown || seen.insert(finding.says.clone())
        });
    }
    all
}

/// Formats a duration in the largest unit that divides it evenly.
pub fn span(duration: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let seconds = duration.as_secs();
    let unit = UNITS.iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{seconds} s"), |(unit, name)| format!("{} {name}", seconds / unit))
}

/// What mends a finding. A command by hand is only shown, because the operator must decide whether to run it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Fix {
    Mapping { uuid: String },
    Queue { url: String, attribute: &'static str, value: String },
    Retries { function: String, qualifier: Option<String> },
    Loop { function: String },
    Permission { role: String, policy: String, document: String },
    Expiry { table: String },
    ByHand(String),
}

/// The batch size of a mapping: Lambda's maximum without a batching window.
pub const BATCH_SIZE: u32 = 10;

pub const EXPIRES_AT: &str = comeback_core::contract::TABLE.expiry;

impl Fix {
    pub fn is_automatic(&self) -> bool {
        !matches!(self, Self::ByHand(_))
    }

    /// The command of the AWS CLI, or of this program.
    pub fn command(&self) -> String {
        match self {
            Self::Mapping { uuid } => format!(
                "aws lambda update-event-source-mapping --uuid {uuid} --enabled --batch-size {BATCH_SIZE} \
                 --maximum-batching-window-in-seconds 0 --function-response-types ReportBatchItemFailures"
            ),
            Self::Queue { url, attribute, value } => {
                let attributes = quoted(&json!({ *attribute: value }).to_string());
                let url = word(url);
                format!("aws sqs set-queue-attributes --queue-url {url} --attributes {attributes}")
            }
            Self::Retries { function, qualifier } => {
                let qualifier = qualifier.as_ref().map(|it| format!(" --qualifier {it}"));
                format!(
                    "aws lambda update-function-event-invoke-config --function-name {function}{} \
                     --maximum-retry-attempts 0",
                    qualifier.unwrap_or_default()
                )
            }
            Self::Loop { function } => format!(
                "aws lambda put-function-recursion-config --function-name {function} --recursive-loop Allow"
            ),
            Self::Permission { role, policy, document } => format!(
                "aws iam put-role-policy --role-name {role} --policy-name {policy} --policy-document {}",
                quoted(document)
            ),
            Self::Expiry { table } => format!(
                "aws dynamodb update-time-to-live --table-name {} --time-to-live-specification \
                 Enabled=true,AttributeName={EXPIRES_AT}",
                word(table)
            ),
            Self::ByHand(command) => command.clone(),
        }
    }
}

pub(crate) fn allow(actions: &[&str], resources: &[&str]) -> String {
    policy_of(&[json!({ "Effect": "Allow", "Action": actions, "Resource": resources })])
}

pub(crate) fn policy_of(statements: &[Value]) -> String {
    json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
}

/// A name as one shell word. Names from settings may contain any characters, so they may need quotes.
pub(super) fn word(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:".contains(it);
    if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
