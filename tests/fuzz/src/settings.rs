//! The settings of the retry handler.
//!
//! The input is an environment, with one `NAME=value` per line. Either the settings are within their bounds, or the
//! error names every wrong variable. Without the wrong variables, the rest must be accepted.

use std::collections::BTreeMap;

use comeback_core::settings::{
    BadSettings, Settings, contract::SETTINGS, policy::Policy, setting::Value, values::Values,
};

const REQUIRED: (&str, &str) =
    ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/dead");

type Variables<'a> = BTreeMap<&'a str, &'a str>;

pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut variables: Variables = text.lines().filter_map(|line| line.split_once('=')).collect();
    match read(&variables) {
        Ok(settings) => check_bounds(&settings, &variables),
        Err(bad) => {
            let complaint = bad.to_string();
            for name in bad.names() {
                assert!(complaint.contains(&format!("{name} must be ")), "{complaint}");
                // In POLICIES, a fault's name is the path of a value.
                let variable = name.split('.').next().unwrap_or(name);
                assert!(variable == REQUIRED.0 || variables.contains_key(variable), "{complaint}");
            }
            let wrong: Vec<_> = bad.names().filter_map(|name| name.split('.').next()).collect();
            variables.retain(|name, _| !wrong.contains(name));
            if wrong.contains(&REQUIRED.0) {
                variables.insert(REQUIRED.0, REQUIRED.1);
            }
            let rest = read(&variables);
            assert!(rest.is_ok(), "{complaint} – and then {rest:?}");
        }
    }
}

fn read(variables: &Variables) -> Result<Settings, BadSettings> {
    Settings::from_lookup(|name| variables.get(name).map(|&value| value.to_owned()))
}

fn check_bounds(settings: &Settings, variables: &Variables) {
    assert!(settings.dead_letter_queue_url.starts_with("http"));
    check_policy(settings.rules.policies.of("a function without values of its own"));
    let own = variables.get("POLICIES").filter(|text| !text.trim().is_empty());
    let own: BTreeMap<String, serde_json::Value> =
        own.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    for function in own.keys() {
        check_policy(settings.rules.policies.of(function));
    }
}

fn check_policy(policy: &Policy) {
    let mut values = Values { policy: policy.clone(), ..Values::default() };
    for setting in SETTINGS {
        if let Value::Duration { min, max, place, .. } = setting.value {
            assert!((min..=max).contains(place(&mut values)), "{}: {policy:?}", setting.name);
        }
    }
    let base = policy.backoff.base;
    assert!(base <= policy.backoff.max && base <= policy.last_chance(), "{policy:?}");
}
