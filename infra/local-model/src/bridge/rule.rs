//! Rules of the default event bus, and which events they match.
//!
//! Of EventBridge's patterns, the exact values are here: the lists that most rules consist of. A pattern with anything
//! else, such as a prefix, is refused, and so is a target that is given something else than the event.

use std::{collections::BTreeMap, sync::Arc};

use chrono::SecondsFormat;
use comeback_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    error::BridgeError,
    target::{DeadLetterConfig, Destination, json_text},
};
use crate::{ACCOUNT, Payload, REGION, is_name};

/// The longest name of a rule or a target, in characters.
const NAME_MAX: usize = 64;

const BUS: &str = "default";

#[derive(Clone, Debug)]
pub struct Rule {
    pub name: Arc<str>,
    pub arn: Arc<str>,
    /// The pattern as it was put.
    pub pattern: String,
    pub description: Option<String>,
    pub is_enabled: bool,
    pub targets: Vec<Target>,
    matches: Value,
}

/// A target in EventBridge's own form. A retry policy and a role are kept without effect.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Target {
    pub id: String,
    pub arn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_config: Option<DeadLetterConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_policy: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct PutRule {
    name: String,
    event_pattern: Option<String>,
    description: Option<String>,
    state: Option<String>,
    event_bus_name: Option<String>,
}

/// An event of a `PutEvents` request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Entry {
    source: String,
    detail_type: String,
    detail: String,
    resources: Vec<String>,
    event_bus_name: Option<String>,
}

#[derive(Debug, Default)]
pub struct Rules(BTreeMap<Arc<str>, Rule>);

impl Rules {
    /// Creates a rule, or replaces what it matches. Its targets stay.
    pub fn put(&mut self, put: PutRule) -> Result<&Rule, BridgeError> {
        check_bus(put.event_bus_name.as_deref())?;
        if !is_name(&put.name.replace('.', "_"), NAME_MAX) {
            return Err(BridgeError::Validation(format!(
                "a rule's name must be 1 to {NAME_MAX} letters, digits, dots, hyphens and underscores, got {:?}",
                put.name
            )));
        }
        let pattern = put.event_pattern.ok_or_else(|| {
            BridgeError::Validation(
                "a rule needs an EventPattern here: use EventBridge Scheduler for schedules".into(),
            )
        })?;
        let matches: Value = serde_json::from_str(&pattern).map_err(|error| {
            BridgeError::Validation(format!("EventPattern is not JSON: {error}"))
        })?;
        check_pattern(&matches)?;
        let name: Arc<str> = put.name.into();
        let targets = self.0.remove(&name).map(|old| old.targets).unwrap_or_default();
        let rule = Rule {
            arn: format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}").into(),
            name: Arc::clone(&name),
            pattern,
            description: put.description,
            is_enabled: put.state.as_deref() != Some("DISABLED"),
            targets,
            matches,
        };
        Ok(self.0.entry(name).or_insert(rule))
    }

    pub fn get(&self, name: &str, bus: Option<&str>) -> Result<&Rule, BridgeError> {
        check_bus(bus)?;
        self.0.get(name).ok_or_else(|| no_rule(name))
    }

    /// The rules whose names begin with `prefix`.
    pub fn named<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Rule> {
        self.0.values().filter(move |rule| rule.name.starts_with(prefix))
    }

    /// Deletes a rule. It is no error if there is none.
    pub fn delete(&mut self, name: &str) -> Result<(), BridgeError> {
        if self.0.get(name).is_some_and(|rule| !rule.targets.is_empty()) {
            let why = "Rule can't be deleted since it has targets.";
            return Err(BridgeError::Validation(why.to_owned()));
        }
        self.0.remove(name);
        Ok(())
    }

    /// Adds targets to a rule. One with the id of another replaces it.
    pub fn put_targets(
        &mut self,
        name: &str,
        bus: Option<&str>,
        targets: Vec<Target>,
    ) -> Result<(), BridgeError> {
        check_bus(bus)?;
        for target in &targets {
            Destination::parse(&target.arn)?;
        }
        let rule = self.0.get_mut(name).ok_or_else(|| no_rule(name))?;
        rule.targets.retain(|old| targets.iter().all(|new| new.id != old.id));
        rule.targets.extend(targets);
        Ok(())
    }

    pub fn remove_targets(&mut self, name: &str, ids: &[String]) -> Result<(), BridgeError> {
        let rule = self.0.get_mut(name).ok_or_else(|| no_rule(name))?;
        rule.targets.retain(|target| !ids.contains(&target.id));
        Ok(())
    }

    pub(super) fn matching(&self, event: &Payload) -> impl Iterator<Item = &Rule> {
        let event: Value = serde_json::from_str(event.get()).unwrap_or_default();
        self.0.values().filter(move |rule| rule.is_enabled && matches(&rule.matches, &event))
    }
}

impl Entry {
    /// The event as EventBridge delivers it. The detail keeps its bytes.
    pub(super) fn event(&self, now: Timestamp, id: &str) -> Result<Payload, BridgeError> {
        #[derive(Serialize)]
        #[serde(rename_all = "kebab-case")]
        struct Event<'a> {
            version: &'static str,
            id: &'a str,
            detail_type: &'a str,
            source: &'a str,
            account: &'static str,
            time: String,
            region: &'static str,
            resources: &'a [String],
            detail: &'a RawValue,
        }
        check_bus(self.event_bus_name.as_deref())?;
        for (name, value) in [("Source", &self.source), ("DetailType", &self.detail_type)] {
            if value.is_empty() {
                let why = format!(
                    "Parameter {name} is not valid. Reason: {name} is a required argument."
                );
                return Err(BridgeError::Validation(why));
            }
        }
        let detail = json_text("Detail", &self.detail).map_err(|_| BridgeError::MalformedDetail)?;
        let detail = serde_json::from_str::<&RawValue>(detail.get())
            .ok()
            .filter(|detail| detail.get().starts_with('{'))
            .ok_or(BridgeError::MalformedDetail)?;
        Ok(Payload::of(&Event {
            version: "0",
            id,
            detail_type: &self.detail_type,
            source: &self.source,
            account: ACCOUNT,
            time: now.to_rfc3339_opts(SecondsFormat::Secs, true),
            region: REGION,
            resources: &self.resources,
            detail,
        }))
    }
}

/// A pattern matches if each of its members does. A list matches the values in it, alone or in a list.
fn matches(pattern: &Value, value: &Value) -> bool {
    if let Some(members) = pattern.as_object() {
        let has = |(name, pattern)| value.get(name).is_some_and(|value| matches(pattern, value));
        return members.iter().all(has);
    }
    let wanted = pattern.as_array().map_or(&[][..], Vec::as_slice);
    match value.as_array() {
        Some(values) => values.iter().any(|value| wanted.contains(value)),
        None => wanted.contains(value),
    }
}

fn check_pattern(pattern: &Value) -> Result<(), BridgeError> {
    let members = pattern.as_object().filter(|members| !members.is_empty());
    let wanted = pattern.as_array().filter(|wanted| !wanted.is_empty());
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    match (members, wanted) {
        (Some(members), _) => members.values().try_for_each(check_pattern),
        (None, Some(wanted)) if wanted.iter().all(is_scalar) => Ok(()),
        (None, _) => Err(BridgeError::Validation(format!(
            "this local cloud matches lists of exact values, such as {{\"source\":[\"shop\"]}}, got {pattern} in \
             the EventPattern"
        ))),
    }
}

fn check_bus(bus: Option<&str>) -> Result<(), BridgeError> {
    let is_default = |bus: &str| bus == BUS || bus.ends_with(":event-bus/default");
    match bus.filter(|bus| !is_default(bus)) {
        None => Ok(()),
        Some(bus) => Err(BridgeError::ResourceNotFound(format!("Event bus {bus} does not exist."))),
    }
}

fn no_rule(name: &str) -> BridgeError {
    BridgeError::ResourceNotFound(format!("Rule {name} does not exist on EventBus {BUS}."))
}
