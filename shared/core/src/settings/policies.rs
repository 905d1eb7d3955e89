//! The policies of a retry handler: the general one, and those of the targets that have their own.

use std::collections::BTreeMap;

use super::{
    bad_settings::Fault,
    contract::SETTINGS,
    error_policies::ErrorPolicies,
    policy::{ErrorPolicy, Policy},
    reading::{plain, read_members},
    setting::{FunctionsOnly, Scope, Setting},
    targets::{names_queue, queue_target},
    values::Values,
};
use crate::{arn::is_function_name, json::Object};

/// The key of what holds for all functions.
const ALL: &str = "*";

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

    /// The policies of errors, those of all functions first. Of a function with a policy of its own, there are only
    /// those of its own errors.
    pub fn of_errors(&self) -> impl Iterator<Item = &ErrorPolicy> {
        let own = self
            .by_target
            .iter()
            .flat_map(|(target, policy)| policy.errors.iter().filter(move |own| own.of == *target));
        self.general.errors.iter().chain(own)
    }

    /// Reads `POLICIES`. What a target's own policy doesn't set is that of the `general` one.
    pub(crate) fn read(
        text: Option<&str>,
        general: Policy,
        is_set: impl Fn(&str) -> bool,
        faults: &mut Vec<Fault>,
    ) -> Self {
        let alone = Self { general, by_target: BTreeMap::new() };
        let Some(text) = text else { return alone };
        let Some(targets) = Object::read(text) else {
            let expected = r#"a JSON object such as {"orders":{"MAX_AGE":"7d"}}"#;
            faults.push(Fault::new("POLICIES", expected, text));
            return alone;
        };
        read(&targets, alone.general, is_set, faults)
    }
}

fn read(
    targets: &Object<'_>,
    mut general: Policy,
    is_set: impl Fn(&str) -> bool,
    faults: &mut Vec<Fault>,
) -> Policies {
    let of_all = errors_of_all(targets, faults);
    let of_all = of_all.as_deref().map(|text| ErrorPolicies::read(ALL, text, faults));
    let mut bad = Vec::new();
    let errors = of_all.as_ref().map(|errors| errors.within(&general, &is_set, &mut bad));
    faults.extend(bad.iter().cloned());
    let mut by_target = BTreeMap::new();
    for (target, values) in targets.members().filter(|(target, _)| *target != ALL) {
        let queue = queue_target(target);
        if !is_function_name(target) && queue.is_none() {
            let expected = if names_queue(target) {
                "an object whose keys name queues as sqs:NAME or by their ARNs, without *"
            } else {
                "an object whose keys are function names, not ARNs or aliases"
            };
            faults.push(Fault::new("POLICIES", expected, target));
        }
        let prefix = format!("POLICIES.{target}");
        let Some(values) = Object::read(values.get()) else {
            let expected = r#"an object such as {"MAX_AGE":"7d"}"#;
            faults.push(Fault::new(prefix, expected, values.get()));
            continue;
        };
        let known = SETTINGS.iter().filter(|it| matches!(it.scope, Scope::Policy | Scope::Member));
        let is_refused = |it: &&Setting| it.functions_only == Some(FunctionsOnly::Refused);
        for Setting { name, .. } in known.clone().filter(is_refused) {
            if let Some(value) = values.get(name).filter(|_| queue.is_some()) {
                let expected = "absent, because it is about functions only";
                faults.push(Fault::new(format!("{prefix}.{name}"), expected, plain(value)));
            }
        }
        let mut own = Values { policy: general.clone(), ..Values::unset() };
        faults.extend(read_members(&values, known, &is_set, &mut own, &prefix));
        // A queue's own `ERRORS` were refused above. Those under `*` count for events that EventBridge could not
        // deliver to the queue.
        let errors = own.errors.as_deref().filter(|_| queue.is_none());
        let errors = errors.map(|text| ErrorPolicies::read(target, text, faults));
        let errors = errors.map(|errors| errors.within(&own.policy, &is_set, faults));
        let mut with_own = Vec::new();
        let of_all = of_all.as_ref().map(|it| it.within(&own.policy, &is_set, &mut with_own));
        own.policy.errors = errors.into_iter().chain(of_all).flatten().collect();
        // Faults in the errors of all functions were reported above.
        let news = with_own.into_iter().filter(|fault| !bad.contains(fault));
        faults.extend(news.map(|fault| fault.of(target)));
        by_target.insert(queue.unwrap_or_else(|| target.to_owned()), own.policy);
    }
    general.errors = errors.unwrap_or_default();
    Policies { general, by_target }
}

/// The text of `ERRORS` for all functions. Nothing else can stand under `*`.
fn errors_of_all(targets: &Object<'_>, faults: &mut Vec<Fault>) -> Option<String> {
    let prefix = format!("POLICIES.{ALL}");
    let mut all = targets.members().filter(|(target, _)| *target == ALL).map(|(_, value)| value);
    let value = all.next()?;
    if all.next().is_some() {
        faults.push(Fault::new("POLICIES", "an object that has * once", ALL));
    }
    let Some(values) = Object::read(value.get()) else {
        let expected = r#"an object such as {"ERRORS":{"RateLimited*":{"BASE_BACKOFF":"1m"}}}"#;
        faults.push(Fault::new(prefix, expected, value.get()));
        return None;
    };
    let known = SETTINGS.iter().filter(|setting| setting.scope == Scope::Member);
    let mut own = Values::unset();
    faults.extend(read_members(&values, known, |_| true, &mut own, &prefix));
    own.errors
}
