//! Reads `ERRORS`: the settings of events by the error with which they failed last.
//!
//! A function's own errors come first, and then those of all functions, which stand under `*`. What an error doesn't
//! set is that of the function's policy. So the errors of all functions are read anew for each function that has a
//! policy of its own.

use super::{
    bad_settings::Fault,
    contract::SETTINGS,
    policy::{ErrorPolicy, Policy},
    reading,
    setting::Setting,
    values::Values,
};
use crate::json::Object;

/// `ERRORS` as it is written in the policy of one function, or in that of all, `*`.
pub(crate) struct ErrorPolicies<'a> {
    of: &'a str,
    /// The pattern of each error, and its settings.
    written: Vec<(String, Object<'a>)>,
}

impl<'a> ErrorPolicies<'a> {
    /// Reads the patterns in their order. The settings of each are read when the rest of the policy is known.
    pub(crate) fn read(of: &'a str, text: &'a str, faults: &mut Vec<Fault>) -> Self {
        let mut written: Vec<(String, Object<'_>)> = Vec::new();
        let name = format!("POLICIES.{of}.ERRORS");
        let Some(errors) = Object::read(text) else {
            let expected = r#"an object such as {"RateLimited*":{"BASE_BACKOFF":"1m"}}"#;
            faults.push(Fault::new(name, expected, text));
            return Self { of, written };
        };
        for (pattern, settings) in errors.members() {
            let expected = if pattern.is_empty() || pattern.trim() != pattern {
                "an object whose keys are error types without spaces around, in which * matches any characters"
            } else if written.iter().any(|(other, _)| other == pattern) {
                "an object that has each error type once"
            } else {
                match Object::read(settings.get()) {
                    Some(settings) => written.push((pattern.to_owned(), settings)),
                    None => {
                        let expected = r#"an object such as {"BASE_BACKOFF":"1m"}"#;
                        let name = format!("{name}.{pattern}");
                        faults.push(Fault::new(name, expected, settings.get()));
                    }
                }
                continue;
            };
            faults.push(Fault::new(name.clone(), expected, pattern));
        }
        Self { of, written }
    }

    /// The policies of the errors of a function with this policy.
    pub(crate) fn within(
        &self,
        policy: &Policy,
        is_set: impl Fn(&str) -> bool,
        faults: &mut Vec<Fault>,
    ) -> Vec<ErrorPolicy> {
        let known = SETTINGS.iter().filter(|setting: &&Setting| setting.for_errors);
        let of_error = |(pattern, settings): &(String, Object<'_>)| {
            let mut own = Values { policy: policy.clone(), ..Values::unset() };
            let prefix = format!("POLICIES.{}.ERRORS.{pattern}", self.of);
            faults.extend(reading::read_members(
                settings,
                known.clone(),
                &is_set,
                &mut own,
                &prefix,
            ));
            let name = format!("{pattern} of {}", self.of);
            ErrorPolicy {
                pattern: pattern.clone(),
                of: self.of.to_owned(),
                name,
                policy: own.policy,
            }
        };
        self.written.iter().map(of_error).collect()
    }
}

#[cfg(test)]
mod tests;
