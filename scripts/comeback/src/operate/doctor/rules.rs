//! Finds problems in a retry system, and says why each one matters and how to fix it.
//!
//! [`diagnose`] is a function of [`Facts`]. It examines each part of the system separately: the handler, its mappings,
//! the retry queues, the dead-letter queue, the functions whose failures are retried, and the ledger. A fact that is
//! unknown, because a call failed, is a finding of its own and doesn't affect the others.

mod facts;
mod fix;
mod handler;
mod ledger;
mod queues;
mod targets;
#[cfg(test)]
pub(crate) mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use comeback_core::arn::FunctionArn;
pub use facts::{
    EARLIER, Fact, Facts, InvokeConfig, KnownBy, Ledger, Mapping, Metric, Queue, QueueAttributes,
    RetryQueue, Running, State, Table, Target, queue_arn,
};
pub use fix::{BATCH_SIZE, EXPIRES_AT, Fix};
pub use ledger::actions_on_ledger;
use serde::Serialize;
pub(crate) use {
    fix::allow,
    targets::{WRAPPER, WRAPPER_VARIABLE},
};

use crate::operate::rules::ports::Fault;

pub const ACTIONS_ON_RETRY_QUEUE: [&str; 5] = [
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:SendMessage",
];

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    /// The call that checks it failed.
    Unknown,
    /// The system works, but not as well as it could, or not for long.
    Warning,
    /// Events are lost, or don't come back as they should.
    Bad,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// A stable name, such as `retention_short`.
    pub name: &'static str,
    pub verdict: Verdict,
    pub says: String,
    pub why: &'static str,
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
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Examined {
    /// The part: `function orders`.
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
    fn known<'a, T>(&mut self, fact: &'a Fact<T>) -> Option<&'a T> {
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
        let says = format!("can't be checked without {action} on {resource}: got {got}");
        if self.findings.iter().all(|finding| finding.says != says) {
            self.found(Verdict::Unknown, "unchecked", says);
        }
    }
}

/// Examines a retry system, part by part.
pub fn diagnose(facts: &Facts) -> Vec<Examined> {
    let settings = facts.settings();
    let known = settings.as_ref().ok();
    let mut all = vec![handler::examine(facts, settings.as_ref())];
    all.extend(handler::mappings(facts));
    all.extend(facts.queues.iter().map(|queue| queues::examine(facts, known, queue)));
    all.push(queues::dead_letters(facts));
    all.extend(facts.targets.iter().map(|target| targets::examine(facts, known, target)));
    all.extend(facts.ledger.iter().map(|ledger| ledger::examine(facts, known, ledger)));
    once(&mut all);
    all
}

/// Removes repeated `unchecked` findings: the first part that has one keeps it.
fn once(all: &mut [Examined]) {
    let mut seen = BTreeSet::new();
    for examined in all {
        examined.findings.retain(|finding| {
            finding.verdict != Verdict::Unknown || seen.insert(finding.says.clone())
        });
    }
}

/// The functions that may use each queue, from `QUEUE_TARGETS` in the handler's environment.
pub fn queue_targets(environment: &BTreeMap<String, String>) -> BTreeMap<String, Vec<String>> {
    let text = environment.get("QUEUE_TARGETS");
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The functions that settings in the handler's environment name. Patterns are left out.
pub fn named_targets(environment: &BTreeMap<String, String>) -> BTreeSet<String> {
    let list = |name| environment.get(name).into_iter().flat_map(|text: &String| text.split(','));
    let bound = queue_targets(environment).into_values().flatten();
    let listed = list("TARGET_FUNCTIONS").chain(list("DLQ_TARGET")).map(|it| it.trim().to_owned());
    listed
        .chain(bound)
        .filter(|name| !name.is_empty() && !name.contains('*'))
        .map(|name| FunctionArn::parse(&name).map_or(name, |arn| arn.name().to_owned()))
        .collect()
}

/// Formats a duration in the largest unit that divides it evenly.
fn span(duration: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let seconds = duration.as_secs();
    let unit = UNITS.iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{seconds} s"), |(unit, name)| format!("{} {name}", seconds / unit))
}
