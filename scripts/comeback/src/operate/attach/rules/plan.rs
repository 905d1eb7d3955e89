//! A plan, which is made of what is still missing.

use serde_json::Value;

use crate::{
    account::{
        fault::Answer,
        function::Function,
        policy::unexempt,
        tags::{Previous, Tags},
    },
    operate::attach::rules::{
        settings::VariablesChange,
        steps::{Planned, Step},
    },
};

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    pub queue: String,
    pub steps: Vec<Planned>,
    pub warnings: Vec<String>,
    /// The number of messages that must leave the queue before the rest can be restored; 0 if the plan is complete.
    pub waiting: u64,
}

impl Plan {
    pub fn add(&mut self, step: Step, is: impl Into<String>, becomes: impl Into<String>) {
        self.steps.push(Planned::new(step, is, becomes));
    }

    /// The fact, or `None` with a warning if an emulator lacks its API: the steps that need it are left out.
    pub fn known<'a, T>(&mut self, fact: &'a Answer<T>) -> Answer<Option<&'a T>> {
        let fault = match fact {
            Ok(fact) => return Ok(Some(fact)),
            Err(fault) if fault.is_unsupported() => fault,
            Err(fault) => return Err(fault.clone()),
        };
        let warning = format!(
            "steps that need {} are left out, because this endpoint doesn't have that API",
            fault.action
        );
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        Ok(None)
    }

    pub fn allow(
        &mut self,
        existing: &Answer<Option<String>>,
        role: &str,
        policy: &str,
        document: String,
    ) -> Answer<()> {
        let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
        let Some(existing) = self.known(existing)? else { return Ok(()) };
        if existing.as_deref().and_then(parsed) != parsed(&document) {
            let is = existing.as_deref().unwrap_or("no policy").to_owned();
            let (role, policy) = (role.to_owned(), policy.to_owned());
            self.add(Step::Allow { role, policy, document: document.clone() }, is, document);
        }
        Ok(())
    }

    pub fn disallow(
        &mut self,
        existing: &Answer<Option<String>>,
        role: &str,
        policy: String,
    ) -> Answer<()> {
        if let Some(Some(document)) = self.known(existing)? {
            let step = Step::Disallow { role: role.to_owned(), policy };
            self.add(step, document.clone(), "no policy");
        }
        Ok(())
    }

    /// Sets the policy of a queue that lets the role send.
    pub fn admit(&mut self, url: &str, role: &str, policy: Option<String>) {
        let Some(policy) = policy else { return };
        let step = Step::QueuePolicy { url: url.to_owned(), policy };
        self.add(step, "denies its role to send", format!("lets {role} send"));
    }

    /// Restores the policy of a queue that lets the role send.
    pub fn unadmit(&mut self, url: &str, role: &str, policy: Option<&str>) {
        let old = policy.unwrap_or_default();
        let new = unexempt(old, role, "sqs:SendMessage").filter(|new| new != old);
        if let Some(policy) = new {
            let step = Step::QueuePolicy { url: url.to_owned(), policy };
            self.add(step, format!("lets {role} send"), "does not");
        }
    }

    pub fn set(&mut self, handler: &Function, change: Option<VariablesChange>) {
        let Some((environment, is, becomes)) = change else { return };
        let (function, revision) = (handler.name().to_owned(), handler.revision.clone());
        self.add(Step::Configure { function, environment, revision }, is, becomes);
    }

    pub fn allow_loop(&mut self, function: &str, may_loop: &Answer<bool>) -> Answer<()> {
        if self.known(may_loop)? == Some(&false) {
            let step = Step::Loop { function: function.to_owned(), allow: true };
            self.add(step, "Terminate", "Allow");
        }
        Ok(())
    }

    pub fn untag(&mut self, arn: &str, tags: &Tags, qualifier: Option<&str>, before: &Previous) {
        let keys = Previous::keys(qualifier).into_iter().filter(|key| tags.contains_key(key));
        let step = Step::Untag { resource: arn.to_owned(), keys: keys.collect() };
        self.add(step, before.to_string(), "no tag");
    }
}
