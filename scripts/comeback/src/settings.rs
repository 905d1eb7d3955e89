//! Settings of the retry handler on the command line.
//!
//! The handler does not start with a bad setting. This program rejects it before it deploys anything, by the same
//! rules and with the same messages.

use comeback_core::{
    contract::{SETTINGS, Scope},
    settings::{BadSettings, Settings},
};

use crate::{
    deploy::DEAD_LETTER_QUEUE_URL,
    dynamodb::{LEDGER, LEDGER_TABLE},
};

/// A placeholder for the dead-letter queue, which is not deployed yet when settings are checked.
const ANY_QUEUE_URL: &str = "http://127.0.0.1/000000000000/any";

pub type Setting = (String, String);

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoSetting {
    #[error("expected NAME=VALUE, such as BASE_BACKOFF=2s")]
    NoValue,
    #[error("expected one of {}, got {name:?}", names().join(", "))]
    Unknown { name: String },
}

/// The names of the settings that a user may give. The deployment sets its queues and its table.
pub fn names() -> Vec<&'static str> {
    let given = SETTINGS.iter().filter(|setting| setting.scope != Scope::Resource);
    given.map(|setting| setting.name).collect()
}

/// Reads `NAME=VALUE`.
pub fn parse(argument: &str) -> Result<Setting, NoSetting> {
    let (name, value) = argument.split_once('=').ok_or(NoSetting::NoValue)?;
    if names().contains(&name) {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err(NoSetting::Unknown { name: name.to_owned() })
    }
}

/// Checks whether the handler would start with these settings.
pub fn check(settings: &[Setting], has_ledger: bool) -> Result<(), BadSettings> {
    let given = |name: &str| {
        // If a setting is given more than once, the last value wins.
        let last = settings.iter().rev().find(|(given, _)| given == name);
        last.map(|(_, value)| value.clone())
    };
    Settings::from_lookup(|name| match name {
        DEAD_LETTER_QUEUE_URL => Some(ANY_QUEUE_URL.to_owned()),
        LEDGER_TABLE => has_ledger.then(|| LEDGER.to_owned()),
        name => given(name),
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str) -> Setting {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_setting_is_a_known_name_and_any_value() {
        assert_eq!(parse("MAX_AGE=2h"), Ok(setting("MAX_AGE", "2h")));
        assert_eq!(parse("POLICIES={\"f\":{\"JITTER\":\"a=b\"}}").unwrap().1.len(), 22);
        assert_eq!(parse("MAX_AGE"), Err(NoSetting::NoValue));
        let unknown = parse("MAXAGE=2h").unwrap_err().to_string();
        assert!(unknown.starts_with("expected one of BASE_BACKOFF, MAX_BACKOFF"), "{unknown}");
        assert!(unknown.ends_with("got \"MAXAGE\""), "{unknown}");
    }

    #[test]
    fn settings_are_checked_by_the_rules_of_the_handler() {
        assert_eq!(check(&[], false), Ok(()));
        let last = [setting("JITTER", "some"), setting("JITTER", "none")];
        assert_eq!(check(&last, false), Ok(()));
        let probes = [setting("PROBE", "true")];
        assert_eq!(check(&probes, true), Ok(()));
        assert!(check(&probes, false).unwrap_err().to_string().contains("LEDGER_TABLE"));
        let bad = [setting("JITTER", "some"), setting("MAX_AGE", "long")];
        let bad = check(&bad, false).unwrap_err().to_string();
        assert!(bad.contains("JITTER must be full, equal or none, got \"some\""), "{bad}");
        assert!(bad.contains("MAX_AGE must be a duration"), "{bad}");
    }
}
