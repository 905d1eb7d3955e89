//! Reads settings: what the contract says of each, and then what it says of two together.

use crate::{
    bad_settings::Fault,
    contract::SETTINGS,
    duration::format,
    policy::Policy,
    setting::{Setting, Value},
    values::Values,
};

impl Default for Values {
    fn default() -> Self {
        let mut values = Self::unset();
        SETTINGS.iter().for_each(|setting| setting.put_default(&mut values));
        values
    }
}

impl Default for Policy {
    fn default() -> Self {
        Values::default().policy
    }
}

/// Puts the values that `lookup` finds for these settings in the place of those in `values`. `is_set` knows all
/// settings of the handler. Returns what is wrong.
pub(crate) fn read(
    settings: impl Iterator<Item = &'static Setting> + Clone,
    lookup: impl Fn(&str) -> Option<String>,
    is_set: impl Fn(&str) -> bool,
    values: &mut Values,
) -> Vec<Fault> {
    let inherited = contradictions(values);
    let mut faults = Vec::new();
    for setting in settings.clone() {
        let Some(text) = lookup(setting.name) else {
            faults.extend(setting.missing());
            continue;
        };
        let before = setting.alias_of.map(|other| (other, values.clone()));
        setting.put(&text, values, &mut faults);
        if let Some((other, before)) = before
            && let Some(theirs) = lookup(other)
            && *values != before
            && faults.iter().all(|fault| fault.name != other)
        {
            let expected = format!("the same as {other}, {}, whose alias it is", theirs.trim());
            faults.push(Fault::new(setting.name, expected, text));
        }
    }
    // One wrong value is one fault. What is wrong with inherited values was reported where they were set.
    let is_new = |fault: &Fault| {
        faults.iter().all(|other| other.name != fault.name)
            && (lookup(&fault.name).is_some() || !inherited.contains(fault))
    };
    let contradictions: Vec<_> = contradictions(values).into_iter().filter(is_new).collect();
    faults.extend(contradictions);
    let own = settings.filter(|setting| lookup(setting.name).is_some());
    faults.extend(own.filter_map(|setting| needed(setting, &is_set, values)));
    faults
}

/// The faults of values that are good each by itself.
fn contradictions(values: &Values) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut of = values.clone();
    for Setting { name, value, .. } in SETTINGS {
        if let Value::Duration { at_least: Some(other), max, place, .. } = *value
            && let Some(Value::Duration { place: least, .. }) = find(other).map(|it| it.value)
        {
            let (least, got) = (*least(&mut of), *place(&mut of));
            if got < least {
                let expected = format!("from {other}, {}, to {}", format(least), format(max));
                faults.push(Fault::new(*name, expected, format(got)));
            }
        }
    }
    let Policy { backoff, max_age, .. } = &values.policy;
    if values.policy.last_chance() < backoff.base {
        let expected = format!("longer than BASE_BACKOFF, {}", format(backoff.base));
        faults.push(Fault::new("MAX_AGE", expected, format(*max_age)));
    }
    faults
}

/// The fault of a setting that is not set, although this one needs it.
fn needed(setting: &Setting, is_set: impl Fn(&str) -> bool, values: &mut Values) -> Option<Fault> {
    let Value::Flag { needs: Some(needs), place, .. } = setting.value else { return None };
    let Value::Text { expected, .. } = find(needs)?.value else { return None };
    let is_missing = *place(values) && !is_set(needs);
    let expected = format!("{expected} if {} is true", setting.name);
    is_missing.then(|| Fault::missing(needs, &expected))
}

fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The values after these texts were put into the places of their settings.
    fn after(texts: &[(&Setting, String)]) -> Result<Values, Vec<Fault>> {
        let (mut values, mut faults) = (Values::default(), Vec::new());
        for (setting, text) in texts {
            setting.put(text, &mut values, &mut faults);
        }
        if faults.is_empty() { Ok(values) } else { Err(faults) }
    }

    /// A good value that is not the default.
    fn other_value(setting: &Setting) -> String {
        match setting.value {
            Value::Duration { max, default, .. } if max != default => format(max),
            Value::Duration { min, .. } => format(min),
            Value::Whole { max, .. } => max.to_string(),
            Value::Choice { options, default } => {
                let other = options.iter().find(|(name, _)| *name != default);
                other.unwrap().0.to_owned()
            }
            Value::Flag { default, .. } => (!default).to_string(),
            Value::List { .. } => "orders".to_owned(),
            Value::Json { example, .. } => example.to_owned(),
            Value::Pointer { .. } => "/tenant/id".to_owned(),
            Value::Text { .. } if setting.name.ends_with("_URL") => "https://host/q".to_owned(),
            Value::Text { .. } => "name".to_owned(),
        }
    }

    #[test]
    fn every_setting_has_a_place_of_its_own() {
        let all = SETTINGS.iter().filter(|setting| setting.alias_of.is_none());
        let all: Vec<_> = all.map(|setting| (setting, other_value(setting))).collect();
        for (index, one) in all.iter().enumerate() {
            let alone = after(std::slice::from_ref(one)).unwrap();
            assert_ne!(alone, Values::default(), "{} has no place", one.0.name);
            for other in &all[index + 1..] {
                let both = after(&[one.clone(), other.clone()]).unwrap();
                let names = (one.0.name, other.0.name);
                assert_eq!(both, after(&[other.clone(), one.clone()]).unwrap(), "{names:?}");
                assert_ne!(both, alone, "{names:?}");
            }
        }
    }

    #[test]
    fn every_value_within_the_bounds_is_accepted_and_the_next_beyond_is_refused() {
        let second = Duration::from_secs(1);
        for setting in SETTINGS {
            let (good, bad): (Vec<String>, Vec<String>) = match setting.value {
                Value::Duration { min, max, .. } => (
                    [min, max].map(format).into(),
                    [min.saturating_sub(second), max + second].map(format).into(),
                ),
                Value::Whole { max, .. } => (
                    [1, max].map(|it| it.to_string()).into(),
                    [0, u64::from(max) + 1].map(|it| it.to_string()).into(),
                ),
                Value::Choice { options, .. } => (
                    options.iter().map(|(name, _)| (*name).to_owned()).collect(),
                    vec!["some".to_owned(), "FULL".to_owned()],
                ),
                Value::Flag { .. } => {
                    (vec!["true".to_owned(), "false".to_owned()], vec!["yes".to_owned()])
                }
                Value::Pointer { .. } => (vec!["/a".to_owned()], vec!["a".to_owned()]),
                Value::List { .. } | Value::Json { .. } | Value::Text { .. } => continue,
            };
            for text in good {
                assert!(after(&[(setting, text.clone())]).is_ok(), "{} {text}", setting.name);
            }
            for text in bad {
                assert!(after(&[(setting, text.clone())]).is_err(), "{} {text}", setting.name);
            }
        }
    }

    #[test]
    fn every_default_is_a_good_value_and_that_of_the_handler() {
        for setting in SETTINGS {
            let default = match setting.value {
                Value::Duration { default, .. } => format(default),
                Value::Whole { default: Some(default), .. } => default.to_string(),
                Value::Choice { default, .. } => default.to_owned(),
                Value::Flag { default, .. } => default.to_string(),
                Value::Whole { default: None, .. }
                | Value::List { .. }
                | Value::Json { .. }
                | Value::Pointer { .. }
                | Value::Text { .. } => continue,
            };
            assert_eq!(after(&[(setting, default)]), Ok(Values::default()), "{}", setting.name);
        }
    }

    #[test]
    fn a_flag_may_be_true_by_default_and_false_turns_it_off() {
        let flag = Value::Flag { default: true, needs: None, place: |it| &mut it.probe };
        let setting = Setting { value: flag, ..SETTINGS[0] };
        let mut values = Values::default();
        setting.put_default(&mut values);
        assert!(values.probe);
        setting.put("false", &mut values, &mut Vec::new());
        assert!(!values.probe);
    }

    #[test]
    fn a_setting_names_others_that_there_are() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            let name = setting.name;
            assert!(!name.is_empty() && !setting.meaning.is_empty(), "{name}");
            let alias_of = setting.alias_of.map(|it| find(it).unwrap());
            let before =
                alias_of.is_none_or(|it| SETTINGS[..index].iter().any(|x| x.name == it.name));
            assert!(before, "{name} comes before the setting that it is another name of");
            match setting.value {
                Value::Duration { at_least: Some(other), .. } => {
                    assert!(matches!(find(other).unwrap().value, Value::Duration { .. }), "{name}");
                }
                Value::Flag { needs: Some(other), .. } => {
                    assert!(matches!(find(other).unwrap().value, Value::Text { .. }), "{name}");
                }
                Value::Duration { at_least: None, .. }
                | Value::Whole { .. }
                | Value::Choice { .. }
                | Value::Flag { needs: None, .. }
                | Value::List { .. }
                | Value::Json { .. }
                | Value::Pointer { .. }
                | Value::Text { .. } => {}
            }
        }
    }
}
