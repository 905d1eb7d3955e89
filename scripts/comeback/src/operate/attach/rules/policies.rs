//! One setting of one target in the handler's `POLICIES`.
//!
//! All other members stay as they are written, in their order.

use std::collections::BTreeMap;

use comeback_core::json::Object;
use serde_json::value::{RawValue, to_raw_value};

pub const POLICIES: &str = "POLICIES";

/// Sets a setting in a target's own policy, or removes it.
pub fn change(
    environment: &mut BTreeMap<String, String>,
    target: &str,
    setting: &str,
    value: Option<&str>,
) {
    let text = environment.get(POLICIES).map_or("{}", String::as_str);
    let own = members(text).into_iter().find(|(name, _)| name == target).map(|(_, own)| own);
    let own = own.unwrap_or_else(|| "{}".to_owned());
    let value = value.and_then(|it| to_raw_value(it).ok()).map(|it| it.get().to_owned());
    let own = with(&own, setting, value);
    let policies = with(text, target, own);
    match policies {
        Some(policies) => environment.insert(POLICIES.to_owned(), policies),
        None => environment.remove(POLICIES),
    };
}

/// The value of a setting in a target's own policy, if it is there.
pub fn value(
    environment: &BTreeMap<String, String>,
    target: &str,
    setting: &str,
) -> Option<String> {
    let find = |text: &str, wanted: &str| {
        members(text).into_iter().rfind(|(name, _)| name == wanted).map(|(_, value)| value)
    };
    let value = find(&find(environment.get(POLICIES)?, target)?, setting)?;
    Some(serde_json::from_str(&value).unwrap_or(value))
}

/// An object with this value of a member, or without the member. `None` if no member is left.
fn with(text: &str, name: &str, value: Option<String>) -> Option<String> {
    let mut members = members(text);
    match (value, members.iter_mut().find(|(it, _)| it == name)) {
        (Some(value), Some((_, old))) => *old = value,
        (Some(value), None) => members.push((name.to_owned(), value)),
        (None, _) => members.retain(|(it, _)| it != name),
    }
    let written = |(name, value): &(String, String)| {
        Some(format!("{}:{value}", serde_json::to_string(name).ok()?))
    };
    let members: Vec<_> = members.iter().filter_map(written).collect();
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

/// The members of an object with their JSON. Of members with the same name the last one counts, for the handler too.
fn members(text: &str) -> Vec<(String, String)> {
    let mut members: Vec<(String, String)> = Vec::new();
    let read = Object::read(text).into_iter().flat_map(Object::into_members);
    let read = read.map(|(name, value): (_, &RawValue)| {
        (String::from_utf8_lossy(&name).into_owned(), value.get().to_owned())
    });
    for (name, value) in read {
        members.retain(|(it, _)| *it != name);
        members.push((name, value));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(policies: Option<&str>, value: Option<&str>) -> Option<String> {
        let text = policies.map(|it| (POLICIES.to_owned(), it.to_owned()));
        let mut environment: BTreeMap<_, _> = text.into_iter().collect();
        change(&mut environment, "orders", "TRANSPARENT", value);
        environment.remove(POLICIES)
    }

    #[test]
    fn one_setting_is_set_and_removed_and_all_others_keep_their_bytes_and_their_order() {
        let others = r#"{"z":{"MAX_AGE": "7d"},"b\u00e9":{"NON_RETRYABLE_ERRORS":["B","A"]}}"#;
        let kept = r#""z":{"MAX_AGE": "7d"},"bé":{"NON_RETRYABLE_ERRORS":["B","A"]}"#;
        let own = r#""orders":{"TRANSPARENT":"true"}"#;
        for (policies, value, expected) in [
            (None, Some("true"), Some(format!("{{{own}}}"))),
            (Some(others), Some("true"), Some(format!("{{{kept},{own}}}"))),
            (Some(others), None, Some(format!("{{{kept}}}"))),
            (
                Some(r#"{"orders":{"TRANSPARENT":false,"MAX_ATTEMPTS":5},"a":{}}"#),
                Some("true"),
                Some(r#"{"orders":{"TRANSPARENT":"true","MAX_ATTEMPTS":5},"a":{}}"#.to_owned()),
            ),
            (
                Some(r#"{"orders":{"TRANSPARENT":"true","MAX_ATTEMPTS":5}}"#),
                None,
                Some(r#"{"orders":{"MAX_ATTEMPTS":5}}"#.to_owned()),
            ),
            (Some(r#"{"orders":{"TRANSPARENT":"true"}}"#), None, None),
        ] {
            assert_eq!(changed(policies, value), expected, "{policies:?} {value:?}");
        }
    }

    #[test]
    fn a_value_may_be_a_string_or_none() {
        let of = |text: &str| {
            let environment = [(POLICIES.to_owned(), text.to_owned())].into();
            value(&environment, "orders", "TRANSPARENT")
        };
        assert_eq!(of(r#"{"orders":{"TRANSPARENT":"false"}}"#), Some("false".to_owned()));
        assert_eq!(of(r#"{"orders":{"TRANSPARENT":false}}"#), Some("false".to_owned()));
        assert_eq!(of(r#"{"orders":{},"mails":{"TRANSPARENT":"false"}}"#), None);
    }
}
