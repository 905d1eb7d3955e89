//! Finds out the facts of the retry systems, as many as possible at the same time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use comeback_core::arn;
use comeback_operate::{
    doctor::{
        ACTIONS_ON_RETRY_QUEUE, Fact, Facts, InvokeConfig, Mapping, RetryQueue, Target,
        named_targets, queue_arn, queue_targets,
    },
    ports::Fault,
    systems::{self, Function},
};
use tokio::task::JoinSet;

use crate::{
    operate::{
        aws::Aws,
        calls::{Calls, Denied},
        functions::functions,
    },
    shell::Failure,
};

/// The functions and mappings of the account and region.
struct Account {
    functions: BTreeMap<String, Function>,
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
) -> Result<Vec<Facts>, Failure> {
    let calls = Calls::new(aws);
    let (listed, mappings) = tokio::join!(calls.call(functions(&calls.aws)), calls.mappings());
    let listed = listed?;
    let handlers = systems::named(&listed, handler)?.into_iter();
    let handlers: Vec<_> = handlers.map(|handler| handler.name().to_owned()).collect();
    let functions: BTreeMap<_, _> =
        listed.into_iter().map(|it| (it.name().to_owned(), it)).collect();
    if let Some(unknown) = only.iter().find(|name| !functions.contains_key(*name)) {
        let text =
            format!("expected the name of a function of this account and region, got {unknown}");
        return Err(Failure::Refused(text));
    }
    let asked = functions.keys().filter(|name| only.is_empty() || only.contains(name));
    let configs = each(asked.cloned(), |name| calls.clone().invoke_configs(name)).await;
    let account = Arc::new(Account { functions, mappings, configs });
    let only: BTreeSet<_> = only.iter().cloned().collect();
    let facts = each(handlers.into_iter(), |handler| {
        of_system(calls.clone(), Arc::clone(&account), handler, only.clone())
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
) -> Option<Facts> {
    let handler = account.functions.get(&handler)?;
    let Function { arn: handler_arn, role, environment, .. } = handler;
    let of_handler = |mapping: &&Mapping| name_in(&mapping.function) == handler.name();
    let mappings = account
        .mappings
        .as_ref()
        .map(|all| all.iter().filter(of_handler).cloned().collect::<Vec<_>>());
    let mapped = mappings.iter().flatten().map(|mapping| mapping.queue.clone());
    let bound = queue_targets(environment).into_keys();
    let bound = bound.map(|name| queue_arn(&name, handler_arn));
    let queues: BTreeSet<_> = mapped.chain(bound).collect();

    let named = named_targets(environment);
    let related = account.functions.iter().filter(|(name, it)| {
        let configs = account.configs.get(*name).into_iter().flatten().flatten();
        configs
            .filter_map(|config| config.on_failure.as_deref())
            .chain(it.dead_letter_target.as_deref())
            .any(|arn| queues.contains(arn))
    });
    let mut targets: BTreeSet<_> =
        related.map(|(name, _)| name.clone()).chain(named.iter().cloned()).collect();
    targets.remove(handler.name());
    if !only.is_empty() {
        targets = only;
    }
    let dead_letters_url = environment.get("DEAD_LETTER_QUEUE_URL").cloned().unwrap_or_default();
    let dead_letters_arn = queue_arn(&dead_letters_url, handler_arn);

    let (running, targets, queues, dead_letters, dead_letters_denied, ledger) = tokio::join!(
        calls.running(handler.name()),
        each(targets.into_iter(), |name| {
            of_target(calls.clone(), Arc::clone(&account), name, named.clone(), queues.clone())
        }),
        each(queues.clone().into_iter(), |arn| of_queue(calls.clone(), arn, role.clone())),
        calls.queue(dead_letters_arn.clone(), dead_letters_url),
        calls.denied(role.clone(), &["sqs:SendMessage"], vec![dead_letters_arn.clone()]),
        calls.ledger(handler),
    );
    let mut targets: Vec<_> = targets.into_values().collect();
    let mut queues: Vec<_> = queues.into_values().collect();
    for queue in &mut queues {
        let others = account.mappings.iter().flatten().filter(|it| it.queue == queue.queue.arn);
        let others = others.filter(|it| name_in(&it.function) != handler.name());
        queue.other_consumers = others.map(|it| name_in(&it.function).to_owned()).collect();
    }
    let (metrics, invocations) = tokio::join!(
        calls.metrics(handler, &targets, &dead_letters),
        calls.invocations(role, &targets),
    );
    for (target, may_be_invoked) in targets.iter_mut().zip(invocations) {
        target.may_be_invoked = may_be_invoked;
    }
    let mut others = account.configs.iter().filter(|(name, _)| !is_target(&targets, name));
    let others = others.try_for_each(|(_, configs)| configs.clone().map(drop));
    Some(Facts {
        others,
        mappings: mappings.map_err(Fault::clone),
        handler: handler.clone(),
        running,
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
    let configs = match account.configs.get(&name) {
        Some(configs) => configs.clone(),
        // A function that doesn't exist has none.
        None => Ok(Vec::new()),
    };
    let own = configs.iter().flatten().filter_map(|config| config.on_failure.clone());
    let own: Vec<_> = own.filter(|arn| queues.contains(arn)).collect();
    let (function, may_send) = match account.functions.get(&name) {
        Some(function) => {
            let may_send = calls.denied(function.role.clone(), &["sqs:SendMessage"], own.clone());
            let (running, denied) = tokio::join!(calls.running(&name), may_send);
            let may_send = own.into_iter().map(|arn| {
                let may = denied.clone().map(|denied| denied.iter().all(|(_, on)| *on != arn));
                (arn, may)
            });
            (Some((function.clone(), running)), may_send.collect())
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
