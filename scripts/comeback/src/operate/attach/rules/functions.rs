//! Plans to attach a function, and to detach it.

use comeback_core::{arn::FunctionArn, settings::Settings, target::Target};
use serde_json::Value;

use crate::{
    account::{
        function::InvokeConfig,
        handlers::queue_targets,
        names::last,
        policy::{policy_of, statement},
        setup::{ACTIONS_ON_KEY, ACTIONS_ON_NOTES},
        tags::{Previous, PreviousStream, VALUE_MAX},
    },
    operate::attach::rules::{
        admission::{admission, policy_name, send_statements},
        choice,
        facts::{Facts, RecordBucket, RetryQueue, managed},
        order::Order,
        plan::Plan,
        records,
        refusal::Refusal,
        settings::{Restored, settings_with, settings_without},
        steps::Step,
        streams,
    },
};

pub fn attach(facts: &Facts, order: &Order) -> Result<Plan, Refusal> {
    let Facts { handler, function, config, .. } = facts;
    let qualifier = order.qualifier();
    if function.arn == handler.arn {
        return Err(Refusal::IsHandler);
    }
    let settings = handler.settings().ok();
    if let Some(unsupported) = function.unsupported_by(settings.as_ref()) {
        return Err(Refusal::Unsupported(unsupported));
    }
    let queue = choose(facts, order)?;
    let streams = streams::wanted(facts, order)?;
    let places = records::places(Some(function.name()), streams.iter().map(|it| &it.uuid));
    let bucket = records::bucket(facts, order, queue, &places)?;
    let hears_successes = streams::hears_successes(facts, &streams, queue)?;
    let to = bucket.map_or(&queue.arn, |bucket| &bucket.arn);
    let destination = config.as_ref().and_then(|config| config.on_failure.as_ref());
    if let Some(other) = destination.filter(|arn| ![&queue.arn, to].contains(arn)) {
        if let Some(handler) = facts.others.get(other) {
            let (queue, handler) = (last(other).to_owned(), handler.clone());
            return Err(Refusal::OtherSystem { queue, handler });
        }
        if !order.replace {
            return Err(Refusal::OtherDestination(other.clone()));
        }
        if other.len() > VALUE_MAX {
            return Err(Refusal::LongDestination(other.len()));
        }
    }
    let name = queue.name().to_owned();
    let mut plan = Plan { queue: name, warnings: warnings(facts, order, queue), ..Plan::default() };
    plan.warnings.extend(streams::warnings(facts, order, &streams, hears_successes));
    let sends = bucket.is_none() || hears_successes;
    let policy = if sends { admission(&function.role, queue)? } else { None };
    let record = format!("{}:{}", function.arn, qualifier.unwrap_or("$LATEST"));
    let not_allowed = || Refusal::NotAllowed { handler: handler.name().to_owned() };
    let failed = FunctionArn::parse(&record).map(Target::Function).ok_or_else(not_allowed)?;
    let records = bucket.map(|bucket| bucket.name.as_str());
    let tagged = Previous::read(&facts.tags, qualifier);
    let own_before = tagged.as_ref().and_then(|it| it.transparent.as_deref());
    let transparent = (order.transparency(), own_before);
    let settings = settings_with(handler, &failed, queue.name(), None, transparent, records)?;
    let mut before = tagged.clone().unwrap_or_else(|| Previous {
        queue: queue.name().to_owned(),
        had_config: config.is_some(),
        retries: config.as_ref().and_then(|config| config.retries),
        on_failure: destination.cloned(),
        may_loop: facts.may_loop.as_ref().ok().copied(),
        policy: policy.is_some(),
        ..Previous::default()
    });
    // `detach` also restores what this command adds to a function that is attached already.
    before.settings |= settings.is_listed;
    before.transparent = before.transparent.filter(|_| !order.envelope);
    before.transparent = before.transparent.or_else(|| settings.transparent_before.clone());
    before.records = before.records.or_else(|| records.map(str::to_owned));
    before.listed |= settings.bucket_is_listed;
    before.policy |= policy.is_some();
    let on_success = config.as_ref().and_then(|config| config.on_success.as_ref());
    before.successes |= hears_successes && on_success.is_none();
    if tagged.as_ref() != Some(&before) {
        let step = Step::Tag { resource: function.arn.clone(), tags: before.tags(qualifier) };
        let is = tagged.map_or_else(|| "no tag".to_owned(), |it| it.to_string());
        plan.add(step, is, before.to_string());
    }
    streams::remember(&mut plan, facts, order, &streams);
    plan.allow(
        &facts.send_policy,
        &function.role,
        &policy_name("send", function.name(), qualifier),
        policy_of(&sending(facts, queue, bucket, hears_successes)),
    )?;
    plan.admit(&queue.url, &function.role, policy.clone());
    if let Some(bucket) = bucket {
        let policy = policy.as_deref().or(queue.attributes.policy.as_deref()).unwrap_or_default();
        records::admit(&mut plan, queue, policy, bucket);
    }
    let arn = &function.arn;
    let mut invoke =
        vec![statement(&["lambda:InvokeFunction"], &[arn.as_str(), &format!("{arn}:*")])];
    let is_transparent = |it: &Settings| it.rules.policies.of(function.name()).transparent;
    if let Some(table) = handler.ledger_arn()
        && (order.transparent || handler.settings().is_ok_and(|it| is_transparent(&it)))
    {
        invoke.push(statement(&ACTIONS_ON_NOTES, &[&table]));
    }
    let readable = streams::readable(facts, order, &streams);
    invoke.extend(bucket.iter().flat_map(|it| records::read_statements(function, it, &readable)));
    let policy = policy_name("invoke", function.name(), qualifier);
    plan.allow(&facts.invoke_policy, &handler.role, &policy, policy_of(&invoke))?;
    plan.set(handler, settings.variables);
    if let Some(bucket) = bucket {
        records::notify(&mut plan, places, queue, bucket);
    }
    plan.allow_loop(function.name(), &facts.may_loop)?;
    invocations(&mut plan, facts, order, to, hears_successes.then_some(queue));
    if let Some(bucket) = bucket {
        streams::attach(&mut plan, &streams, bucket);
    }
    Ok(plan)
}

/// What the function's role needs for its failures to arrive. A function whose records went to the queue until now may
/// go on sending there, because Lambda takes a while to notice its new destination.
fn sending(
    facts: &Facts,
    queue: &RetryQueue,
    bucket: Option<&RecordBucket>,
    hears_successes: bool,
) -> Vec<Value> {
    let Some(bucket) = bucket else { return send_statements(&facts.function.arn, queue) };
    let existing = facts.send_policy.as_ref().ok().and_then(Option::as_ref);
    let may_send = existing.is_some_and(|policy| policy.contains(&queue.arn));
    let mut statements = records::put_statements(&facts.function, bucket);
    if may_send || hears_successes {
        statements.extend(send_statements(&facts.function.arn, queue));
    }
    statements
}

/// Turns Lambda's own retries off and sends failures to this queue or bucket, and successes to a queue that must hear
/// of them. Other settings of the config stay unchanged.
fn invocations(
    plan: &mut Plan,
    facts: &Facts,
    order: &Order,
    to: &str,
    successes: Option<&RetryQueue>,
) {
    let old = facts.config.clone().unwrap_or_default();
    let on_success = successes.map(|queue| queue.arn.clone()).or(old.on_success.clone());
    let on_failure = Some(to.to_owned());
    let new = InvokeConfig { retries: Some(0), on_failure, on_success, ..old.clone() };
    if facts.config.as_ref() == Some(&new) {
        return;
    }
    let (is, becomes) = (says(&old), says(&new));
    let function = facts.function.name().to_owned();
    let step = Step::Invocations {
        function,
        qualifier: order.qualifier().map(str::to_owned),
        config: Some(new),
    };
    plan.add(step, is, becomes);
}

/// The requested queue, the function's current one, or the only one that functions share.
fn choose<'a>(facts: &'a Facts, order: &Order) -> Result<&'a RetryQueue, Refusal> {
    let Facts { handler, queues, function, config, .. } = facts;
    if let Some(wanted) = &order.queue {
        return choice::named(handler, queues, wanted);
    }
    let destination = config.as_ref().and_then(|config| config.on_failure.as_ref());
    let before = Previous::read(&facts.tags, order.qualifier());
    let has = |queue: &&RetryQueue| {
        Some(&queue.arn) == destination
            || before.as_ref().is_some_and(|it| it.queue == queue.name())
    };
    if let Some(queue) = queues.iter().find(has) {
        return Ok(queue);
    }
    let bound = queue_targets(&handler.environment);
    let is_shared = |queue: &&RetryQueue| {
        let alone = bound.get(queue.name()).filter(|names| names.len() == 1);
        alone.is_none_or(|names| {
            names.iter().any(|name| name == function.name() || name.contains('*'))
        })
    };
    let shared: Vec<_> = queues.iter().filter(is_shared).collect();
    choice::only(&shared)
}

fn warnings(facts: &Facts, order: &Order, queue: &RetryQueue) -> Vec<String> {
    let Facts { handler, function, .. } = facts;
    let changes = "changes of the handler's variables and of the queue's policy";
    let managed = [
        managed(&facts.tags, function.name(), "this"),
        managed(&facts.handler_tags, handler.name(), changes),
    ];
    let mut warnings: Vec<_> = managed.into_iter().flatten().collect();
    if function.dead_letter_target.is_some() {
        warnings.push(format!(
            "{} has a dead-letter queue of its own, to which Lambda also sends each failure",
            function.name()
        ));
    }
    let key = queue.attributes.key.as_ref();
    if let Some(alias) =
        key.filter(|key| key.starts_with("alias/") && !key.starts_with("alias/aws/"))
    {
        warnings.push(format!(
            "{} has the key {alias}: let {} use it ({}), or its failures are lost",
            queue.name(),
            function.role_name(),
            ACTIONS_ON_KEY.join(", ")
        ));
    }
    let is_transparent = |it: &Settings| it.rules.policies.of(function.name()).transparent;
    let is_transparent = handler.settings().is_ok_and(|it| is_transparent(&it));
    warnings.extend(records::warnings(facts, queue, order.transparent || is_transparent));
    if order.transparent {
        let name = handler.name();
        warnings.push(format!(
            "{name} must be of this version or a later one: an earlier one refuses TRANSPARENT in POLICIES, and does not start"
        ));
    }
    warnings
}

/// Plans to detach a function. As long as the queue has messages, the plan only restores the destination and Lambda's
/// own retries, so that no new failures arrive: waiting events still need the settings and permissions to come back.
/// With `now` it restores everything, and the function's waiting events are dead-lettered.
pub fn detach(facts: &Facts, qualifier: Option<&str>, now: bool) -> Result<Plan, Refusal> {
    let Facts { handler, function, queues, .. } = facts;
    let before = Previous::read(&facts.tags, qualifier).ok_or(Refusal::NotAttached)?;
    let mut plan = Plan { queue: before.queue.clone(), ..Plan::default() };
    streams::restore(&mut plan, facts, qualifier);
    restore_invocations(&mut plan, facts, qualifier, &before);
    let queue = queues.iter().find(|queue| queue.name() == before.queue);
    if let Some(queue) = queue.filter(|queue| queue.attributes.messages() > 0 && !now) {
        plan.waiting = queue.attributes.messages();
        return Ok(plan);
    }
    // Notices of records that Lambda put before may still come.
    if before.records.is_some() && !plan.steps.is_empty() && !now {
        plan.warnings.push(
            "S3 may send notices a minute late: then run this again to remove the rest".to_owned(),
        );
        return Ok(plan);
    }
    let others = Previous::others(&facts.tags, qualifier);
    let is_last = others.is_empty();
    let is_own = |it: &&(_, Previous)| it.1.records == before.records;
    let shares_records = before.records.is_some() && others.iter().any(|it| is_own(&it));
    let forgets = before.records.is_some() && !shares_records;
    if let Some(queue) = queue.filter(|it| forgets && it.attributes.messages() > 0) {
        plan.warnings.push(format!(
            "notices of its records that wait in {} can't be read any more: they stay there until the handler may read them again, or SQS deletes them",
            queue.name()
        ));
    }
    let attached = PreviousStream::all(&facts.tags, qualifier);
    let places = records::places(forgets.then(|| function.name()), attached.keys());
    let (is_untold, policy_now) = records::forget(&mut plan, facts, &before, places);
    let restored = Restored {
        unlist: is_last && before.settings,
        transparent_before: before.transparent.as_deref().filter(|_| is_last),
        bucket: before.records.as_deref().filter(|_| before.listed && forgets && is_untold),
    };
    plan.set(handler, settings_without(handler, function.name(), &before.queue, restored));
    let policy = policy_name("invoke", function.name(), qualifier);
    plan.disallow(&facts.invoke_policy, &handler.role, policy)?;
    let shares_queue = others.iter().any(|(_, it)| it.queue == before.queue);
    if let Some(queue) = queue.filter(|_| before.policy && !shares_queue) {
        let policy = policy_now.as_deref().or(queue.attributes.policy.as_deref());
        plan.unadmit(&queue.url, &function.role, policy);
    }
    let policy = policy_name("send", function.name(), qualifier);
    plan.disallow(&facts.send_policy, &function.role, policy)?;
    if let Some((heir, is)) = others.iter().find(is_own).or(others.first()) {
        let becomes = is.inheriting(&before);
        if becomes != *is {
            let (resource, tags) = (function.arn.clone(), becomes.tags(heir.as_deref()));
            plan.add(Step::Tag { resource, tags }, is.to_string(), becomes.to_string());
        }
    } else {
        restore_loop(&mut plan, facts, &before);
    }
    streams::forget(&mut plan, facts, qualifier);
    plan.untag(&function.arn, &facts.tags, qualifier, &before);
    Ok(plan)
}

/// Restores Lambda's own retries and the destination, unless the destination was changed since.
fn restore_invocations(plan: &mut Plan, facts: &Facts, qualifier: Option<&str>, before: &Previous) {
    let Some(config) = &facts.config else { return };
    let queue = facts.queues.iter().find(|queue| queue.name() == before.queue);
    let bucket = facts.records.as_ref().filter(|_| before.records.is_some());
    let own = bucket.map(|it| &it.arn).or(queue.map(|it| &it.arn));
    if config.on_failure.as_ref() != own {
        let to = config.on_failure.as_deref().unwrap_or("no destination");
        if config.on_failure != before.on_failure {
            plan.warnings
                .push(format!("the function's failures now go to {to}; that is left unchanged"));
        }
        return;
    }
    let is_ours = |arn: &String| before.successes && queue.is_some_and(|it| it.arn == *arn);
    let old = InvokeConfig {
        retries: before.retries,
        on_failure: before.on_failure.clone(),
        on_success: config.on_success.clone().filter(|arn| !is_ours(arn)),
        ..config.clone()
    };
    let is_empty = old.age_max.is_none() && old.on_success.is_none();
    let new = (before.had_config || !is_empty).then_some(old);
    let becomes = match &new {
        Some(config) => says(config),
        None => format!("Lambda's defaults: {}", says(&InvokeConfig::default())),
    };
    let (function, qualifier) = (facts.function.name().to_owned(), qualifier.map(str::to_owned));
    let is = says(&InvokeConfig { retries: Some(0), ..config.clone() });
    plan.add(Step::Invocations { function, qualifier, config: new }, is, becomes);
}

fn says(config: &InvokeConfig) -> String {
    let destination = config.on_failure.as_deref().unwrap_or("no destination");
    let on_success = config.on_success.as_ref().map(|arn| format!("; successes go to {arn}"));
    let retries = config.retries.unwrap_or(2);
    format!("{retries} retries, then {destination}{}", on_success.unwrap_or_default())
}

/// Restores the `RecursiveLoop`, which all aliases and versions of a function share.
fn restore_loop(plan: &mut Plan, facts: &Facts, before: &Previous) {
    if before.may_loop == Some(false) && facts.may_loop == Ok(true) {
        plan.add(
            Step::Loop { function: facts.function.name().to_owned(), allow: false },
            "Allow",
            "Terminate",
        );
    }
}
