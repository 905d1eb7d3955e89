//! Finds out the facts of the retry systems, as many as possible at the same time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use aws_sdk_lambda::types::FunctionConfiguration;
use comeback_core::{Timestamp, arn};
use comeback_operate::{
    doctor::{
        ACTIONS_ON_RETRY_QUEUE, Fact, Facts, InvokeConfig, Mapping, RetryQueue, Target,
        named_targets, queue_arn, queue_targets,
    },
    ports::Fault,
    systems::{self, NoSystem},
};
use tokio::task::JoinSet;

use crate::{
    operate::{
        aws::Aws,
        calls::{Calls, Denied},
        functions::{configurations, function},
    },
    shell::Failure,
};

/// The functions and mappings of the account and region.
struct Account {
    functions: BTreeMap<String, FunctionConfiguration>,
    mappings: Fact<Vec<Mapping>>,
    configs: BTreeMap<String, Fact<Vec<InvokeConfig>>>,
}

/// Asks for the facts of all retry systems, or those that the arguments name.
///
/// # Errors
///
/// If there is no retry system, or the functions can't be listed.
pub async fn gather(
    aws: &Aws,
    handler: Option<&str>,
    only: &[String],
    now: Timestamp,
) -> Result<Vec<Facts>, Failure> {
    let calls = Calls::new(aws);
    let (listed, mappings) = tokio::join!(calls.call(configurations(&calls.aws)), calls.mappings());
    let listed = listed?;
    let functions: Vec<_> = listed.iter().cloned().map(function).collect();
    let mut systems = systems::find(&functions);
    systems.retain(|system| handler.is_none_or(|handler| handler == system.handler));
    if systems.is_empty() {
        return Err(match handler {
            Some(handler) => NoSystem::NotHandler(handler.to_owned()),
            None => NoSystem::None { functions: functions.len() },
        }
        .into());
    }
    let named = |it: FunctionConfiguration| (it.function_name.clone().unwrap_or_default(), it);
    let functions: BTreeMap<_, _> = listed.into_iter().map(named).collect();
    if let Some(unknown) = only.iter().find(|name| !functions.contains_key(*name)) {
        let text =
            format!("expected the name of a function of this account and region, got {unknown}");
        return Err(Failure::Refused(text));
    }
    let asked = functions.keys().filter(|name| only.is_empty() || only.contains(name));
    let configs = each(asked.cloned(), |name| calls.clone().invoke_configs(name)).await;
    let account = Arc::new(Account { functions, mappings, configs });
    let only: BTreeSet<_> = only.iter().cloned().collect();
    let facts = each(systems.into_iter().map(|system| system.handler), |handler| {
        of_system(calls.clone(), Arc::clone(&account), handler, only.clone(), now)
    });
    let facts = facts.await.into_values().flatten();
    // A function belongs to the system that names it or that it sends its failures to.
    let mut facts: Vec<_> = facts.collect();
    if facts.len() > 1 && !only.is_empty() {
        facts.retain(|it| {
            it.targets.iter().any(|target| target.is_named || !target.may_send.is_empty())
        });
    }
    if facts.is_empty() {
        let text = "expected a function of one of several retry systems: choose one with --handler";
        return Err(Failure::Refused(text.to_owned()));
    }
    Ok(facts)
}

/// Does something with each of these at the same time.
async fn each<T, F>(
    keys: impl Iterator<Item = String>,
    work: impl Fn(String) -> F,
) -> BTreeMap<String, T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for key in keys {
        let task = work(key.clone());
        tasks.spawn(async move { (key, task.await) });
    }
    tasks.join_all().await.into_iter().collect()
}

async fn of_system(
    calls: Calls,
    account: Arc<Account>,
    handler: String,
    only: BTreeSet<String>,
    now: Timestamp,
) -> Option<Facts> {
    let configuration = account.functions.get(&handler)?;
    let environment = function(configuration.clone()).environment;
    let handler_arn = configuration.function_arn().unwrap_or_default().to_owned();
    let role = configuration.role().unwrap_or_default().to_owned();
    let of_handler = |mapping: &&Mapping| name_in(&mapping.function) == handler;
    let mappings = account
        .mappings
        .as_ref()
        .map(|all| all.iter().filter(of_handler).cloned().collect::<Vec<_>>());
    let mapped = mappings.iter().flatten().map(|mapping| mapping.queue.clone());
    let bound = queue_targets(&environment).into_keys();
    let bound = bound.map(|name| queue_arn(&name, &handler_arn));
    let queues: BTreeSet<_> = mapped.chain(bound).collect();

    let named = named_targets(&environment);
    let related = account.functions.iter().filter(|(name, it)| {
        let configs = account.configs.get(*name).into_iter().flatten().flatten();
        let own = it.dead_letter_config().and_then(|config| config.target_arn());
        configs
            .filter_map(|config| config.on_failure.as_deref())
            .chain(own)
            .any(|arn| queues.contains(arn))
    });
    let mut targets: BTreeSet<_> =
        related.map(|(name, _)| name.clone()).chain(named.iter().cloned()).collect();
    targets.remove(&handler);
    if !only.is_empty() {
        targets = only;
    }
    let dead_letters_url = environment.get("DEAD_LETTER_QUEUE_URL").cloned().unwrap_or_default();
    let dead_letters_arn = queue_arn(&dead_letters_url, &handler_arn);

    let (handler, targets, queues, dead_letters, dead_letters_denied, ledger) = tokio::join!(
        calls.function(configuration),
        each(targets.into_iter(), |name| {
            of_target(calls.clone(), Arc::clone(&account), name, named.clone(), queues.clone())
        }),
        each(queues.clone().into_iter(), |arn| of_queue(calls.clone(), arn, role.clone())),
        calls.queue(dead_letters_arn.clone(), dead_letters_url),
        calls.denied(role.clone(), &["sqs:SendMessage"], vec![dead_letters_arn.clone()]),
        calls.ledger(&environment, &handler_arn, &role),
    );
    let mut targets: Vec<_> = targets.into_values().collect();
    let mut queues: Vec<_> = queues.into_values().collect();
    for queue in &mut queues {
        let others = account.mappings.iter().flatten().filter(|it| it.queue == queue.queue.arn);
        let others = others.filter(|it| name_in(&it.function) != handler.name());
        queue.other_consumers = others.map(|it| name_in(&it.function).to_owned()).collect();
    }
    let (metrics, invocations) = tokio::join!(
        calls.metrics(&handler, &targets, &dead_letters, now),
        calls.invocations(&role, &targets),
    );
    for (target, may_be_invoked) in targets.iter_mut().zip(invocations) {
        target.may_be_invoked = may_be_invoked;
    }
    let mut others = account.configs.iter().filter(|(name, _)| !is_target(&targets, name));
    let others = others.try_for_each(|(_, configs)| configs.clone().map(drop));
    Some(Facts {
        others,
        mappings: mappings.map_err(Fault::clone),
        handler,
        queues,
        dead_letters,
        dead_letters_denied: dead_letters_denied.map(actions),
        targets,
        ledger,
        metrics,
    })
}

async fn of_target(
    calls: Calls,
    account: Arc<Account>,
    name: String,
    named: BTreeSet<String>,
    queues: BTreeSet<String>,
) -> Target {
    let configuration = account.functions.get(&name);
    let configs = match account.configs.get(&name) {
        Some(configs) => configs.clone(),
        // A function that doesn't exist has none.
        None => Ok(Vec::new()),
    };
    let own = configs.iter().flatten().filter_map(|config| config.on_failure.clone());
    let own: Vec<_> = own.filter(|arn| queues.contains(arn)).collect();
    let (function, may_send) = match configuration {
        Some(it) => {
            let role = it.role().unwrap_or_default().to_owned();
            let may_send = calls.denied(role, &["sqs:SendMessage"], own.clone());
            let (function, denied) = tokio::join!(calls.function(it), may_send);
            let may_send = own.into_iter().map(|arn| {
                let may = denied.clone().map(|denied| denied.iter().all(|(_, on)| *on != arn));
                (arn, may)
            });
            (Some(function), may_send.collect())
        }
        None => (None, BTreeMap::new()),
    };
    let is_named = named.contains(&name);
    Target { name, function, is_named, configs, may_send, may_be_invoked: Ok(true) }
}

async fn of_queue(calls: Calls, arn: String, role: String) -> RetryQueue {
    let url = arn::queue_url(&arn).unwrap_or_default();
    let (queue, denied) = tokio::join!(
        calls.queue(arn.clone(), url),
        calls.denied(role, &ACTIONS_ON_RETRY_QUEUE, vec![arn.clone()]),
    );
    RetryQueue { queue, denied: denied.map(actions), other_consumers: Vec::new() }
}

fn is_target(targets: &[Target], name: &str) -> bool {
    targets.iter().any(|target| target.name == name)
}

fn actions(denied: Denied) -> Vec<String> {
    denied.into_iter().map(|(action, _)| action).collect()
}

/// The name of a function, from its ARN, which may be qualified.
fn name_in(function_arn: &str) -> &str {
    function_arn.split(':').nth(6).unwrap_or(function_arn)
}
