//! Plans to detach a function, which restores its previous configuration.

use super::{Facts, Plan, Previous, Refusal, Step, policy_name, settings};
use crate::operate::{
    doctor::rules::{Fact, InvokeConfig, WRAPPER_VARIABLE},
    rules::Fault,
    rules::queue_policy::unexempt,
};

/// Plans to detach a function. As long as the queue has messages, the plan only restores the destination and Lambda's
/// own retries, so that no new failures arrive: waiting events still need the settings and permissions to come back.
/// With `now` it restores everything, and the function's waiting events are dead-lettered.
pub fn detach(facts: &Facts, qualifier: Option<&str>, now: bool) -> Result<Plan, Refusal> {
    let Facts { handler, function, queues, .. } = facts;
    let before = Previous::read(&facts.tags, qualifier).ok_or(Refusal::NotAttached)?;
    let mut plan = Plan { queue: before.queue.clone(), ..Plan::default() };
    invocations(&mut plan, facts, qualifier, &before);
    let queue = queues.iter().find(|queue| queue.name() == before.queue);
    if let Some(queue) = queue.filter(|queue| queue.attributes.messages() > 0 && !now) {
        plan.waiting = queue.attributes.messages();
        return Ok(plan);
    }
    let is_elsewhere = Previous::is_elsewhere(&facts.tags, qualifier);
    if before.settings
        && !is_elsewhere
        && let Some((environment, is, becomes)) =
            settings::without(handler, function.name(), &before.queue)
    {
        let (function, revision) = (handler.name().to_owned(), handler.revision.clone());
        plan.add(Step::Configure { function, environment, layers: None, revision }, is, becomes);
    }
    let policy = policy_name("invoke", function.name(), qualifier);
    disallow(&mut plan, &facts.invoke_policy, &handler.role, policy)?;
    if let Some(queue) = queue.filter(|_| before.policy && !is_elsewhere) {
        let old = queue.attributes.policy.as_deref().unwrap_or_default();
        let policy =
            unexempt(old, &function.role, "sqs:SendMessage").filter(|policy| policy != old);
        if let Some(policy) = policy {
            let is = format!("lets {} send", function.role);
            plan.add(Step::QueuePolicy { url: queue.url.clone(), policy }, is, "does not");
        }
    }
    let policy = policy_name("send", function.name(), qualifier);
    disallow(&mut plan, &facts.send_policy, &function.role, policy)?;
    if !is_elsewhere {
        function_itself(&mut plan, facts, &before);
    }
    let keys = Previous::keys(qualifier).into_iter().filter(|key| facts.tags.contains_key(key));
    let step = Step::Untag { resource: function.arn.clone(), keys: keys.collect() };
    plan.add(step, before.to_string(), "no tag");
    Ok(plan)
}

/// Restores Lambda's own retries and the destination, unless the destination was changed since.
fn invocations(plan: &mut Plan, facts: &Facts, qualifier: Option<&str>, before: &Previous) {
    let Some(config) = &facts.config else { return };
    let queue = facts.queues.iter().find(|queue| queue.name() == before.queue);
    if config.on_failure.as_ref() != queue.map(|queue| &queue.arn) {
        let to = config.on_failure.as_deref().unwrap_or("no destination");
        if config.on_failure != before.on_failure {
            plan.warnings
                .push(format!("the function's failures now go to {to}; that is left unchanged"));
        }
        return;
    }
    let old = InvokeConfig {
        retries: before.retries,
        on_failure: before.on_failure.clone(),
        ..config.clone()
    };
    let is_empty = old.age_max.is_none() && old.on_success.is_none();
    let new = (before.had_config || !is_empty).then_some(old);
    let becomes = match &new {
        Some(config) => format!(
            "{} retries, then {}",
            config.retries.unwrap_or(2),
            config.on_failure.as_deref().unwrap_or("no destination")
        ),
        None => "Lambda's defaults: 2 retries, then no destination".to_owned(),
    };
    let function = facts.function.name().to_owned();
    let is = format!("0 retries, then {}", config.on_failure.as_deref().unwrap_or_default());
    plan.add(
        Step::Invocations { function, qualifier: qualifier.map(str::to_owned), config: new },
        is,
        becomes,
    );
}

pub(super) fn disallow(
    plan: &mut Plan,
    existing: &Fact<Option<String>>,
    role: &str,
    policy: String,
) -> Result<(), Fault> {
    match existing {
        Err(fault) if fault.is_unsupported() => plan.leave_out(fault),
        Err(fault) => return Err(fault.clone()),
        Ok(None) => {}
        Ok(Some(document)) => {
            plan.add(
                Step::Disallow { role: role.to_owned(), policy },
                document.clone(),
                "no policy",
            );
        }
    }
    Ok(())
}

/// Restores the settings that all aliases and versions of a function share.
fn function_itself(plan: &mut Plan, facts: &Facts, before: &Previous) {
    let function = &facts.function;
    if before.may_loop == Some(false) && facts.may_loop == Ok(true) {
        plan.add(
            Step::Loop { function: function.name().to_owned(), allow: false },
            "Allow",
            "Terminate",
        );
    }
    if before.layer.is_none() && !before.wrapper {
        return;
    }
    let mut environment = function.environment.clone();
    if before.wrapper {
        environment.remove(WRAPPER_VARIABLE);
    }
    let mut layers = function.layers.clone();
    layers.retain(|layer| Some(layer) != before.layer.as_ref());
    if environment != function.environment || layers != function.layers {
        let layers = (layers != function.layers).then_some(layers);
        let step = Step::Configure {
            function: function.name().to_owned(),
            environment,
            layers,
            revision: None,
        };
        plan.add(step, "envelopes are taken off", "envelopes reach it");
    }
}
