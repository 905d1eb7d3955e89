//! The policies of a retry handler: the general one, and those of the targets that have their own.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::{
    arn::is_function_name,
    bad_settings::Fault,
    contract::SETTINGS,
    json::{self, Object},
    policy::Policy,
    reading,
    setting::{FunctionsOnly, Scope, Setting},
    targets::{names_queue, queue_target},
    values::Values,
};

/// The general policy, and those of the targets that have their own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Policies {
    general: Policy,
    by_target: BTreeMap<String, Policy>,
}

impl Policies {
    pub fn of(&self, target: &str) -> &Policy {
        self.by_target.get(target).unwrap_or(&self.general)
    }

    /// The targets that have a policy of their own, with that.
    pub fn own(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.by_target.iter().map(|(target, policy)| (target.as_str(), policy))
    }

    /// Reads `POLICIES`. What a target's own policy doesn't set is that of the `general` one.
    pub(crate) fn read(
        text: Option<&str>,
        general: Policy,
        is_set: impl Fn(&str) -> bool,
        faults: &mut Vec<Fault>,
    ) -> Self {
        let by_target = text.map(|text| by_target(text, &general, is_set, faults));
        let by_target = by_target.unwrap_or_default();
        Self { general, by_target }
    }
}

fn by_target(
    text: &str,
    general: &Policy,
    is_set: impl Fn(&str) -> bool,
    faults: &mut Vec<Fault>,
) -> BTreeMap<String, Policy> {
    let Some(targets) = Object::read(text) else {
        let expected = r#"a JSON object such as {"orders":{"MAX_AGE":"7d"}}"#;
        faults.push(Fault::new("POLICIES", expected, text));
        return BTreeMap::new();
    };
    let mut policies = BTreeMap::new();
    for (target, values) in targets.members() {
        let prefix = format!("POLICIES.{target}");
        let queue = queue_target(target);
        if !is_function_name(target) && queue.is_none() {
            let expected = if names_queue(target) {
                "an object whose keys name queues as sqs:NAME or by their ARNs, without *"
            } else {
                "an object whose keys are function names, not ARNs or aliases"
            };
            faults.push(Fault::new("POLICIES", expected, target));
        }
        let Some(values) = Object::read(values.get()) else {
            let expected = r#"an object such as {"MAX_AGE":"7d"}"#;
            faults.push(Fault::new(prefix, expected, values.get()));
            continue;
        };
        let known = SETTINGS.iter().filter(|setting| setting.scope == Scope::Policy);
        let names: Vec<_> = known.clone().map(|setting| setting.name).collect();
        for (name, _) in values.members().filter(|(name, _)| !names.contains(name)) {
            faults.push(Fault::new(prefix.clone(), format!("one of {}", names.join(", ")), name));
        }
        let prefix = format!("{prefix}.");
        let is_refused = |it: &&Setting| it.functions_only == Some(FunctionsOnly::Refused);
        for Setting { name, .. } in known.clone().filter(is_refused) {
            if let Some(value) = values.get(name).filter(|_| queue.is_some()) {
                let expected = "absent, because it is about functions only";
                faults.push(Fault::new(format!("{prefix}{name}"), expected, plain(value)));
            }
        }
        let mut own = Values { policy: general.clone(), ..Values::unset() };
        let bad = reading::read(known, |name| values.get(name).map(plain), &is_set, &mut own);
        faults.extend(bad.into_iter().map(|fault| fault.within(&prefix)));
        policies.insert(queue.unwrap_or_else(|| target.to_owned()), own.policy);
    }
    policies
}

/// A value in `POLICIES` as text: a string or a number as it is, a list joined by commas.
fn plain(value: &RawValue) -> String {
    json::text(value)
        .map(Into::into)
        .or_else(|| Some(serde_json::from_str::<Vec<String>>(value.get()).ok()?.join(",")))
        .unwrap_or_else(|| value.get().to_owned())
}
