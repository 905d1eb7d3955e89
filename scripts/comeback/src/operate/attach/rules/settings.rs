//! The handler's settings with a target, and without it.

use std::collections::BTreeMap;

use comeback_core::{
    arn::FunctionArn,
    settings::{Settings, Targets},
    target::Target,
};

use crate::{
    account::{function::Function, handlers::queue_targets, tags::Tags},
    operate::attach::rules::refusal::Refusal,
};

/// Lambda's limit in bytes for all variables of a function, including their names.
const VARIABLES_MAX: usize = 4_096;

const TARGET_FUNCTIONS: &str = "TARGET_FUNCTIONS";

const QUEUE_TARGETS: &str = "QUEUE_TARGETS";

/// The variables of a handler after a change, and the values that change: before and after.
pub type VariablesChange = (Tags, String, String);

/// The handler's variables, changed so that they allow a target; `None` if they already do. A queue is bound to its
/// retry queue. With the first binding, the `mapped` retry queues need one, too.
pub fn settings_with(
    handler: &Function,
    target: &Target,
    queue: &str,
    mapped: &[&str],
) -> Result<Option<VariablesChange>, Refusal> {
    let name = || handler.name().to_owned();
    let settings = handler
        .settings()
        .map_err(|fault| Refusal::BadSettings { handler: name(), fault: fault.to_string() })?;
    let home = FunctionArn::parse(&handler.arn).map(|arn| arn.home());
    let Some(home) = home else {
        return Err(Refusal::NotAllowed { handler: name() });
    };
    if settings.rules.allow(target, Some(queue), &home) {
        return Ok(None);
    }
    let mut environment = handler.environment.clone();
    if let Targets::Listed(_) = &settings.rules.targets
        && !target.is_queue()
        && !settings.rules.targets.allow(target, &home)
        && let Some(list) = environment.get_mut(TARGET_FUNCTIONS)
    {
        *list = format!("{},{}", list.trim().trim_end_matches(','), target.name());
    }
    let mut queues = queue_targets(&environment);
    if settings.rules.queue_targets.is_some() || target.is_queue() {
        if settings.rules.queue_targets.is_none() {
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
    let settings = Settings::from_lookup(|name| environment.get(name).cloned());
    if !settings.is_ok_and(|it| it.rules.allow(target, Some(queue), &home)) {
        return Err(Refusal::NotAllowed { handler: name() });
    }
    let bytes = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > VARIABLES_MAX {
        return Err(Refusal::TooManyVariables { handler: name(), bytes });
    }
    Ok(Some(changed(handler, environment)))
}

/// The handler's variables without a target; `None` if they don't name it.
pub fn settings_without(handler: &Function, target: &str, queue: &str) -> Option<VariablesChange> {
    let mut environment = handler.environment.clone();
    if let Some(list) = environment.get_mut(TARGET_FUNCTIONS) {
        let others = list.split(',').map(str::trim).filter(|name| *name != target);
        *list = others.collect::<Vec<_>>().join(",");
    }
    let mut queues = queue_targets(&environment);
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
    let (environment, is, becomes) = changed(handler, environment);
    (!is.is_empty()).then_some((environment, is, becomes))
}

fn json(queues: &BTreeMap<String, Vec<String>>) -> String {
    serde_json::to_string(queues).unwrap_or_default()
}

fn changed(handler: &Function, environment: Tags) -> VariablesChange {
    let says = |of: &Tags| {
        let names = [TARGET_FUNCTIONS, QUEUE_TARGETS].into_iter();
        let names = names.filter(|name| handler.environment.get(*name) != environment.get(*name));
        let values =
            names.map(|name| format!("{name}={}", of.get(name).map_or("", String::as_str)));
        values.collect::<Vec<_>>().join(" ")
    };
    let (is, becomes) = (says(&handler.environment), says(&environment));
    (environment, is, becomes)
}
