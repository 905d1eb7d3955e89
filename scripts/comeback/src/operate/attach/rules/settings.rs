//! The handler's settings with a target, and without it.

use std::collections::BTreeMap;

use comeback_core::{
    arn::{FunctionArn, Home},
    settings::{Settings, Targets},
    target::Target,
};

use crate::{
    account::{function::Function, handlers::queue_targets, tags::Tags},
    operate::attach::rules::{policies, refusal::Refusal},
};

/// Lambda's limit in bytes for all variables of a function, including their names.
const VARIABLES_MAX: usize = 4_096;

const TARGET_FUNCTIONS: &str = "TARGET_FUNCTIONS";

const QUEUE_TARGETS: &str = "QUEUE_TARGETS";

const TRANSPARENT: &str = "TRANSPARENT";

const RECORD_BUCKETS: &str = "RECORD_BUCKETS";

/// The variables of a handler after a change, and the values that change: before and after.
pub type VariablesChange = (Tags, String, String);

/// What of the handler's settings changes for a target, and the variables after that.
#[derive(Debug, Default)]
pub struct Change {
    pub variables: Option<VariablesChange>,
    /// Whether lists of targets name it from now on.
    pub is_listed: bool,
    /// If it becomes transparent: the value of its own policy before, or an empty text.
    pub transparent_before: Option<String>,
    /// Whether `RECORD_BUCKETS` names its bucket from now on.
    pub bucket_is_listed: bool,
}

/// Changes the handler's variables so that they allow a target, and have its records read from a bucket. On request,
/// the target becomes transparent, or has again what was there before. To `bind` a target, its retry queue gets a
/// binding in any case. With the first one, the retry queues in `bind` need one, too.
pub fn settings_with(
    handler: &Function,
    target: &Target,
    queue: &str,
    bind: Option<&[&str]>,
    (transparent, own_before): (Option<bool>, Option<&str>),
    bucket: Option<&str>,
) -> Result<Change, Refusal> {
    let name = || handler.name().to_owned();
    let settings = handler
        .settings()
        .map_err(|fault| Refusal::BadSettings { handler: name(), fault: fault.to_string() })?;
    let home = FunctionArn::parse(&handler.arn).map(|arn| arn.home());
    let Some(home) = home else {
        return Err(Refusal::NotAllowed { handler: name() });
    };
    let mut environment = handler.environment.clone();
    let lacks_binding = bind.is_some() && settings.rules.queue_targets.is_none();
    if lacks_binding || !settings.rules.allow(target, Some(queue), &home) {
        list(&mut environment, &settings, target, (queue, bind), &home);
    }
    let is_listed = environment != handler.environment;
    let is_transparent = settings.rules.policies.of(target.name()).transparent;
    let becomes = transparent.filter(|becomes| *becomes != is_transparent);
    let before = policies::value(&environment, target.name(), TRANSPARENT);
    if becomes == Some(true) && handler.ledger().is_none() {
        return Err(Refusal::NoLedger { handler: name() });
    }
    match becomes {
        None => {}
        Some(true) => policies::change(&mut environment, target.name(), TRANSPARENT, Some("true")),
        Some(false) => {
            let own = own_before.filter(|before| !before.is_empty());
            policies::change(&mut environment, target.name(), TRANSPARENT, own);
            let settings = Settings::from_lookup(|name| environment.get(name).cloned());
            if settings.is_ok_and(|it| it.rules.policies.of(target.name()).transparent) {
                policies::change(&mut environment, target.name(), TRANSPARENT, Some("false"));
            }
        }
    }
    let unlisted = bucket.filter(|bucket| !settings.record_buckets.contain(bucket));
    if let Some(bucket) = unlisted {
        let list = environment.get(RECORD_BUCKETS).filter(|list| !list.trim().is_empty());
        let list = list.map_or(bucket.to_owned(), |list| format!("{},{bucket}", list.trim()));
        environment.insert(RECORD_BUCKETS.to_owned(), list);
    }
    let settings = Settings::from_lookup(|name| environment.get(name).cloned());
    if !settings.is_ok_and(|it| it.rules.allow(target, Some(queue), &home)) {
        return Err(Refusal::NotAllowed { handler: name() });
    }
    let bytes = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
    if environment != handler.environment && bytes > VARIABLES_MAX {
        return Err(Refusal::TooManyVariables { handler: name(), bytes });
    }
    let variables = (environment != handler.environment).then(|| changed(handler, environment));
    let transparent_before = (becomes == Some(true)).then(|| before.unwrap_or_default());
    let bucket_is_listed = unlisted.is_some();
    Ok(Change { variables, is_listed, transparent_before, bucket_is_listed })
}

/// Has lists of targets name a target.
fn list(
    environment: &mut Tags,
    settings: &Settings,
    target: &Target,
    (queue, bind): (&str, Option<&[&str]>),
    home: &Home,
) {
    let (targets, bound) = (&settings.rules.targets, &settings.rules.queue_targets);
    if let Targets::Listed(_) = targets
        && !target.is_queue()
        && !targets.allow(target, home)
        && let Some(list) = environment.get_mut(TARGET_FUNCTIONS)
    {
        *list = format!("{},{}", list.trim().trim_end_matches(','), target.name());
    }
    let mut queues = queue_targets(environment);
    if bound.is_some() || bind.is_some() {
        if bound.is_none() {
            let mapped = bind.unwrap_or_default();
            let all = environment.get(TARGET_FUNCTIONS).map_or("*", String::as_str);
            let all: Vec<_> = all.split(',').map(|it| it.trim().to_owned()).collect();
            queues.extend(mapped.iter().map(|queue| ((*queue).to_owned(), all.clone())));
        }
        let targets = queues.entry(queue.to_owned()).or_default();
        let is_listed = |it: &String| it == target.name() || it == "*" && !target.is_queue();
        if !targets.iter().any(is_listed) {
            targets.push(target.name().to_owned());
        }
        environment.insert(QUEUE_TARGETS.to_owned(), json(&queues));
    }
}

/// What of the handler's settings is restored when a target is detached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Restored<'a> {
    /// Whether lists of targets no longer name it.
    pub unlist: bool,
    /// As in [`Change`].
    pub transparent_before: Option<&'a str>,
    /// The bucket that `RECORD_BUCKETS` no longer names.
    pub bucket: Option<&'a str>,
}

/// The handler's variables after a target is detached. `None` if nothing changes.
pub fn settings_without(
    handler: &Function,
    target: &str,
    queue: &str,
    restored: Restored<'_>,
) -> Option<VariablesChange> {
    let Restored { unlist: is_unlisted, transparent_before, bucket } = restored;
    let mut environment = handler.environment.clone();
    if is_unlisted {
        unlist(&mut environment, target, queue);
    }
    // A value that somebody has changed since stays.
    let is_own =
        policies::value(&environment, target, TRANSPARENT).is_some_and(|it| it.trim() == "true");
    if let Some(before) = transparent_before.filter(|_| is_own) {
        let before = (!before.is_empty()).then_some(before);
        policies::change(&mut environment, target, TRANSPARENT, before);
    }
    if let Some(bucket) = bucket {
        let list = environment.remove(RECORD_BUCKETS).unwrap_or_default();
        let others: Vec<_> = list.split(',').map(str::trim).filter(|it| *it != bucket).collect();
        let others = others.join(",");
        // The handler refuses an empty list.
        if !others.is_empty() {
            environment.insert(RECORD_BUCKETS.to_owned(), others);
        }
    }
    let (environment, is, becomes) = changed(handler, environment);
    (is != becomes).then_some((environment, is, becomes))
}

fn unlist(environment: &mut Tags, target: &str, queue: &str) {
    if let Some(list) = environment.get_mut(TARGET_FUNCTIONS) {
        let others = list.split(',').map(str::trim).filter(|name| *name != target);
        *list = others.collect::<Vec<_>>().join(",");
    }
    let mut queues = queue_targets(environment);
    if let Some(targets) = queues.get_mut(queue) {
        targets.retain(|name| name != target);
        if targets.is_empty() {
            queues.remove(queue);
        }
        // The handler refuses a setting that binds nothing.
        if queues.is_empty() {
            environment.remove(QUEUE_TARGETS);
        } else {
            environment.insert(QUEUE_TARGETS.to_owned(), json(&queues));
        }
    }
}

fn json(queues: &BTreeMap<String, Vec<String>>) -> String {
    serde_json::to_string(queues).unwrap_or_default()
}

fn changed(handler: &Function, environment: Tags) -> VariablesChange {
    let says = |of: &Tags| {
        let names = [TARGET_FUNCTIONS, QUEUE_TARGETS, policies::POLICIES, RECORD_BUCKETS];
        let names = names
            .into_iter()
            .filter(|name| handler.environment.get(*name) != environment.get(*name));
        let values =
            names.map(|name| format!("{name}={}", of.get(name).map_or("", String::as_str)));
        values.collect::<Vec<_>>().join(" ")
    };
    let (is, becomes) = (says(&handler.environment), says(&environment));
    (environment, is, becomes)
}
