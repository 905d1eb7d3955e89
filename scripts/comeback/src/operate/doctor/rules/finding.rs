//! A finding: a problem of one part of a retry system, and how to fix it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use crate::operate::doctor::rules::kinds::Verdict;

use crate::{
    account::{
        fault::{Answer, Fault},
        policy::{policy_of, statement},
    },
    operate::doctor::rules::{
        fix::Fix,
        kinds::{self, Kind},
    },
};

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Finding {
    /// A stable name, such as `retention_short`.
    pub name: &'static str,
    pub verdict: Verdict,
    /// What was found.
    pub says: String,
    pub why: &'static str,
    #[serde(skip)]
    pub fix: Option<Fix>,
}

impl Finding {
    /// It is not as bad as findings of its kind are at worst.
    pub fn only_warns(&mut self) -> &mut Self {
        self.verdict = Verdict::Warning;
        self
    }

    pub fn why(&mut self, why: &'static str) -> &mut Self {
        self.why = why;
        self
    }

    pub fn fix(&mut self, fix: Fix) {
        self.fix = Some(fix);
    }

    pub fn by_hand(&mut self, command: impl Into<String>) {
        self.fix(Fix::ByHand(command.into()));
    }

    /// Is fixed by a policy that allows a role these actions on these resources. `purpose` becomes part of its name.
    pub fn allow(&mut self, role: &str, purpose: &str, actions: &[&str], resources: &[&str]) {
        self.grant(role, purpose, &[statement(actions, resources)]);
    }

    pub fn grant(&mut self, role: &str, purpose: &str, statements: &[Value]) {
        let (role, policy) = (role.to_owned(), format!("comeback-{purpose}"));
        self.fix(Fix::Permission { role, policy, document: policy_of(statements) });
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
    pub fn new(part: String) -> Self {
        Self { part, good: String::new(), findings: Vec::new() }
    }

    pub fn found(&mut self, kind: Kind, says: impl Into<String>) -> &mut Finding {
        let Kind { name, verdict, why, .. } = kind;
        self.findings.push_mut(Finding { name, verdict, says: says.into(), why, fix: None })
    }

    /// The fact, if it is known. A fault is recorded as a finding, but only once if several calls failed with it.
    pub fn known<'a, T>(&mut self, fact: &'a Answer<T>) -> Option<&'a T> {
        match fact {
            Ok(fact) => Some(fact),
            Err(fault) => {
                self.unknown(fault);
                None
            }
        }
    }

    pub fn unknown(&mut self, fault: &Fault) {
        let Fault { action, resource, message, .. } = fault;
        // Without a code, the message is followed by the whole response.
        let message = message.split(" (").next().unwrap_or_default();
        let got = fault.code.as_deref().unwrap_or(message);
        let says = if fault.code.is_some() && fault.is_unsupported() {
            format!("can't be checked here, because this endpoint has no {action}")
        } else {
            format!("can't be checked without {action} on {resource}: got {got}")
        };
        self.unchecked(says);
    }

    /// Says what can't be checked, once.
    pub fn unchecked(&mut self, says: String) {
        if self.findings.iter().all(|finding| finding.says != says) {
            self.found(kinds::UNCHECKED, says);
        }
    }
}
