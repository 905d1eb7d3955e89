//! Reads settings: what the contract says of each, and then what it says of two together.

use serde_json::value::RawValue;

use super::{
    bad_settings::Fault,
    contract::SETTINGS,
    policy::Policy,
    setting::{Setting, Value},
    values::Values,
};
use crate::{
    backoff::Backoffs,
    duration::format,
    json::{self, Object},
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
    for setting in settings.clone() {
        replace(setting, &lookup, values, &mut faults);
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

/// Reads these settings as members of an object in a setting, whose path is `prefix`. All other members are wrong.
pub(crate) fn read_members(
    object: &Object<'_>,
    settings: impl Iterator<Item = &'static Setting> + Clone,
    is_set: impl Fn(&str) -> bool,
    values: &mut Values,
    prefix: &str,
) -> Vec<Fault> {
    let names: Vec<_> = settings.clone().map(|setting| setting.name).collect();
    let unknown = object.members().filter(|(name, _)| !names.contains(name));
    let expected = || format!("one of {}", names.join(", "));
    let unknown = unknown.map(|(name, _)| Fault::new(prefix, expected(), name));
    let mut faults: Vec<_> = unknown.collect();
    let bad = read(settings, |name| object.get(name).map(plain), is_set, values);
    faults.extend(bad.into_iter().map(|fault| fault.within(&format!("{prefix}."))));
    faults
}

/// A value in an object as text: a string or a number as it is, a list joined by commas.
pub(crate) fn plain(value: &RawValue) -> String {
    let text = |value| json::text(value).map(Into::into);
    let listed = || {
        let list: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
        let texts = list.into_iter().map(|it| text(it).unwrap_or_else(|| it.get().to_owned()));
        Some(texts.collect::<Vec<_>>().join(","))
    };
    text(value).or_else(listed).unwrap_or_else(|| value.get().to_owned())
}

/// Lets values that replace others override those that are inherited, and be overridden by them.
fn replace(
    setting: &Setting,
    lookup: impl Fn(&str) -> Option<String>,
    values: &mut Values,
    faults: &mut Vec<Fault>,
) {
    let Value::Durations { instead_of, place, .. } = setting.value else { return };
    let beside: Vec<_> =
        instead_of.iter().copied().filter(|other| lookup(other).is_some()).collect();
    if beside.is_empty() {
        return;
    }
    *place(values) = Backoffs::default();
    if let Some(text) = lookup(setting.name)
        && faults.iter().all(|fault| fault.name != setting.name)
    {
        let expected = format!("absent beside {}", beside.join(" and "));
        faults.push(Fault::new(setting.name, expected, text));
    }
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
    let Policy { backoff, backoffs, max_age, .. } = &values.policy;
    if values.policy.last_chance() < values.policy.shortest() {
        let age = format(*max_age);
        faults.push(if backoffs.is_empty() {
            let expected = format!("longer than BASE_BACKOFF, {}", format(backoff.base));
            Fault::new("MAX_AGE", expected, age)
        } else {
            let expected = format!("durations, one of them shorter than MAX_AGE, {age}");
            Fault::new("BACKOFFS", expected, backoffs.to_string())
        });
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
            Value::Durations { example, .. } => example.to_owned(),
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
                Value::Durations { min, max, .. } => (
                    vec![[max, min].map(format).join(", ")],
                    [min.saturating_sub(second), max + second]
                        .map(|it| format!("1m,{},1m", format(it)))
                        .into_iter()
                        .chain(["1m,,1m".to_owned(), "1m,".to_owned()])
                        .collect(),
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
                | Value::Durations { .. }
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
                Value::Durations { instead_of, .. } => {
                    let others = instead_of.iter().map(|other| find(other).unwrap().value);
                    assert!(others.clone().count() > 0, "{name}");
                    assert!(others.into_iter().all(|it| matches!(it, Value::Duration { .. })));
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
