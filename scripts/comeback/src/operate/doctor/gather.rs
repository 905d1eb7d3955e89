//! Gathers the facts of the retry systems, with as many concurrent calls as possible.

use std::collections::{BTreeMap, BTreeSet};

use comeback_core::arn::QUEUE_PREFIX;
use futures_util::future::join_all;
use serde_json::Value;

use crate::{
    account::{
        bucket::{Bucket, bucket_name, prefix_of},
        fault::{Answer, Clock},
        function::{Function, InvokeConfig},
        handlers::{handlers, named, named_queues, named_targets, queue_targets},
        known::Names,
        mapping::Mapping,
        names::{is_queue, last, queue_arn},
        stream::Stream,
    },
    aws::{
        Aws,
        buckets::Buckets,
        reads::{self, functions},
    },
    failure::Failure,
    operate::doctor::{
        calls,
        denials::{actions, denied},
        metrics,
        rules::facts::{Facts, KnownBy, Source, Target},
    },
};

/// The functions of the account and region, with what shows whether their failures are retried.
struct Account {
    functions: BTreeMap<String, Function>,
    mappings: Answer<Vec<Mapping>>,
    streams: Vec<Stream>,
    configs: BTreeMap<String, Answer<Vec<InvokeConfig>>>,
    /// The names of the queues that functions were attached to, according to their tags.
    attached: BTreeMap<String, Answer<BTreeSet<String>>>,
    counted: BTreeSet<String>,
    /// All schedules, each with its name, its group and its target.
    schedules: Answer<Vec<Value>>,
    /// The buckets that `RECORD_BUCKETS` of an examined handler names or a function's failures go to, by name.
    buckets: BTreeMap<String, Bucket>,
    /// The retry queues of all systems, examined or not: the name of the handler by the queue's ARN.
    retry_queues: BTreeMap<String, String>,
}

/// Gathers the facts of all retry systems, or of those that `handler` or `only` names.
pub async fn gather(
    aws: &Aws,
    handler: Option<&str>,
    only: &[String],
) -> Result<Vec<Facts>, Failure> {
    let aws = &aws.adaptive();
    let (listed, mapped) = tokio::join!(aws.call(functions(aws)), reads::mappings_and_streams(aws));
    let listed = listed?;
    // If they can't be read, each system has a finding for it.
    let streams = mapped.as_ref().map(|(_, streams)| streams.clone()).unwrap_or_default();
    let mappings = mapped.map(|(mappings, _)| mappings);
    let examined = named(&listed, handler)?.into_iter().map(|it| it.name().to_owned());
    let examined: BTreeSet<_> = examined.collect();
    let all: BTreeSet<_> = handlers(&listed).map(|it| it.name().to_owned()).collect();
    Names::of(&listed).check(only).map_err(|unknown| unknown.to_string())?;
    let functions: BTreeMap<_, _> =
        listed.into_iter().map(|it| (it.name().to_owned(), it)).collect();
    let asked = functions.keys().filter(|name| only.is_empty() || only.contains(name));
    let asked: Vec<_> = asked.cloned().collect();
    // All handlers are in one account and region.
    let beside = examined.iter().map(|name| functions[name].arn.as_str()).next();
    let (configs, attached, counted, schedules) = tokio::join!(
        join_all(asked.iter().map(|name| reads::invoke_configs(aws, name))),
        join_all(asked.iter().map(|name| calls::attached(aws, &functions[name].arn))),
        metrics::counted(aws, &asked),
        calls::schedules(aws, beside.unwrap_or_default()),
    );
    let configs: BTreeMap<_, _> = asked.iter().cloned().zip(configs).collect();
    let buckets = buckets(aws, examined.iter().map(|name| &functions[name]), &configs).await;
    let attached = asked.iter().cloned().zip(attached).collect();
    // If the metrics can't be read, each system has a finding for it.
    let counted = counted.unwrap_or_default();
    let retry_queues = mappings.iter().flatten();
    let retry_queues = retry_queues.filter(|it| all.contains(it.consumer()));
    let retry_queues =
        retry_queues.map(|it| (it.queue.clone(), it.consumer().to_owned())).collect();
    let account = Account {
        functions,
        mappings,
        streams,
        configs,
        attached,
        counted,
        schedules,
        buckets,
        retry_queues,
    };
    let facts = examined.iter().map(|system| of_system(aws, &account, system, only));
    let mut facts: Vec<_> = join_all(facts).await.into_iter().flatten().collect();
    // With several systems, a function belongs to those that name it, or to whose retry queues it sends its failures.
    if facts.len() > 1 && !only.is_empty() {
        facts.retain(|it| {
            it.targets
                .iter()
                .any(|target| target.known_by == KnownBy::Setting || !target.may_send.is_empty())
                || !it.sources.is_empty()
        });
    }
    let has = |name: &String| {
        let is_it = |source: &Source| name.strip_prefix(QUEUE_PREFIX) == Some(source.queue.name());
        facts.iter().any(|it| it.sources.iter().any(is_it))
    };
    if let Some(unknown) = only.iter().find(|name| is_queue(name) && !has(name)) {
        return Err(format!("no retry handler's settings name {unknown}").into());
    }
    if facts.is_empty() {
        let text =
            "the function belongs to none of several retry systems: choose one with --handler";
        return Err(text.into());
    }
    Ok(facts)
}

/// The buckets that `RECORD_BUCKETS` of these handlers names, and those that failures go to, by name.
async fn buckets<'a>(
    aws: &Aws,
    handlers: impl Iterator<Item = &'a Function> + Clone,
    configs: &BTreeMap<String, Answer<Vec<InvokeConfig>>>,
) -> BTreeMap<String, Bucket> {
    let destinations =
        configs.values().flatten().flatten().filter_map(|it| it.on_failure.as_deref());
    let mut names: BTreeSet<_> = destinations.filter_map(bucket_name).map(str::to_owned).collect();
    for settings in handlers.clone().filter_map(|it| it.settings().ok()) {
        names.extend(settings.record_buckets.names().map(str::to_owned));
    }
    // All handlers are in one account and region.
    let beside = handlers.map(|it| it.arn.as_str()).next();
    let Some(all) = beside.and_then(|arn| Buckets::beside(aws, arn)) else {
        return BTreeMap::new();
    };
    let found = join_all(names.iter().map(|name| all.bucket(name))).await;
    names.iter().cloned().zip(found).collect()
}

impl Account {
    /// The retry queues of the other handlers.
    fn queues_of_others(&self, handler: &Function) -> BTreeMap<String, String> {
        let others = self.retry_queues.iter().filter(|(_, of)| *of != handler.name());
        others.map(|(arn, of)| (arn.clone(), of.clone())).collect()
    }

    /// The buckets of a system with these retry queues, and whether its `RECORD_BUCKETS` names each.
    fn buckets_of(&self, handler: &Function, queues: &BTreeSet<String>) -> Vec<(&Bucket, bool)> {
        let listed = handler.settings().map(|it| it.record_buckets).unwrap_or_default();
        let is_told = |bucket: &Bucket| bucket.told().any(|it| queues.contains(&it.to));
        let all = self.buckets.values().map(|it| (it, listed.contain(&it.name)));
        all.filter(|(bucket, is_listed)| *is_listed || is_told(bucket)).collect()
    }

    /// Whether records of a function in this bucket are for a system with these retry queues: they are, unless the
    /// bucket tells only other systems' queues of them.
    fn is_bucket_for(&self, arn: &str, function: &str, queues: &BTreeSet<String>) -> bool {
        let bucket = bucket_name(arn).and_then(|name| self.buckets.get(name));
        let prefix = prefix_of(function);
        let told = bucket.into_iter().flat_map(Bucket::told).filter(|it| it.overlaps(&prefix));
        let told: Vec<_> = told.map(|it| &it.to).collect();
        told.iter().any(|to| queues.contains(*to))
            || !told.iter().any(|to| self.retry_queues.contains_key(*to))
    }

    /// The streams that these functions process.
    fn streams_of(&self, targets: &[Target]) -> Vec<Stream> {
        let is_own = |it: &&Stream| targets.iter().any(|target| target.name == it.consumer());
        self.streams.iter().filter(is_own).cloned().collect()
    }

    /// Whether the destinations and tags of all functions but these could be read.
    fn others(&self, targets: &[Target]) -> Answer<()> {
        let is_other = |name: &str| targets.iter().all(|target| target.name != name);
        let configs = self.configs.iter().filter(|(name, _)| is_other(name));
        let attached = self.attached.iter().filter(|(name, _)| is_other(name));
        (configs.map(|(_, configs)| configs.clone().map(drop)))
            .chain(attached.map(|(_, attached)| attached.clone().map(drop)))
            .collect()
    }

    /// What shows that a system with these retry queues should retry the function's failures, apart from settings.
    fn known_by(
        &self,
        function: &Function,
        queues: &BTreeSet<String>,
        buckets: &BTreeSet<String>,
    ) -> Option<KnownBy> {
        let name = function.name();
        let configs = self.configs.get(name).into_iter().flatten().flatten();
        let destinations = configs.filter_map(|config| config.on_failure.as_deref());
        let destinations: Vec<_> =
            destinations.chain(function.dead_letter_target.as_deref()).collect();
        let is_own_bucket =
            |arn: &str| buckets.contains(arn) && self.is_bucket_for(arn, name, queues);
        if destinations.iter().any(|arn| queues.contains(*arn) || is_own_bucket(arn)) {
            return Some(KnownBy::Destination);
        }
        // It may be another system's.
        if destinations.iter().any(|arn| self.retry_queues.contains_key(*arn)) {
            return None;
        }
        let is_own = |queue: &String| queues.iter().any(|arn| last(arn) == queue);
        if self.attached.get(name).into_iter().flatten().flatten().any(is_own) {
            return Some(KnownBy::Tag);
        }
        self.counted.contains(name).then_some(KnownBy::Metrics)
    }
}

/// The queues that a handler receives from, and those that `QUEUE_TARGETS` names.
fn queues_of(handler: &Function, mappings: &Answer<Vec<Mapping>>) -> BTreeSet<String> {
    let mapped = mappings.iter().flatten().map(|mapping| mapping.queue.clone());
    let bound = queue_targets(&handler.environment).into_keys();
    mapped.chain(bound.map(|it| queue_arn(&it, &handler.arn))).collect()
}

async fn of_system(aws: &Aws, account: &Account, system: &str, only: &[String]) -> Option<Facts> {
    let handler = account.functions.get(system)?;
    let Function { arn: handler_arn, role, environment, .. } = handler;
    let is_own = |mapping: &&Mapping| mapping.consumer() == handler.name();
    let mappings = account.mappings.clone();
    let mappings = mappings.map(|all| all.into_iter().filter(|it| is_own(&it)).collect::<Vec<_>>());
    let consumers = |queue: &str| {
        let others = account.mappings.iter().flatten().filter(|it| !is_own(it));
        others.filter(|it| it.queue == queue).cloned().collect::<Vec<_>>()
    };
    let queues = queues_of(handler, &mappings);
    let buckets = account.buckets_of(handler, &queues);
    let bucket_arns: BTreeSet<_> = buckets.iter().map(|(it, _)| it.arn(handler_arn)).collect();
    let destinations: BTreeSet<_> = queues.union(&bucket_arns).cloned().collect();

    let named = named_targets(environment);
    let known_by = |name: &str| match account.functions.get(name) {
        _ if named.contains(name) => Some(KnownBy::Setting),
        Some(function) => account.known_by(function, &queues, &bucket_arns),
        None => None,
    };
    let mut sources = named_queues(handler);
    // A function that the command names may be a target, a consumer, or both.
    let received = |name: &str| {
        let mappings = account.mappings.iter().flatten().filter(|it| it.consumer() == name);
        mappings.map(|it| it.queue.as_str()).collect::<Vec<_>>()
    };
    let targets: BTreeMap<_, _> = if only.is_empty() {
        let all = account.functions.keys().chain(&named).filter(|name| *name != handler.name());
        all.filter_map(|name| Some((name, known_by(name)?))).collect()
    } else {
        let functions = only.iter().filter(|name| !name.starts_with(QUEUE_PREFIX));
        let why = |name: &String| match received(name) {
            _ if known_by(name).is_some() => known_by(name),
            queues if queues.is_empty() => Some(KnownBy::Destination),
            queues if queues.iter().any(|arn| sources.contains_key(*arn)) => None,
            _ => Some(KnownBy::Consumes),
        };
        functions.filter_map(|name| Some((name, why(name)?))).collect()
    };
    let is_wanted = |arn: &str| {
        let is_consumer = |name: &String| received(name).contains(&arn);
        only.contains(&format!("{QUEUE_PREFIX}{}", last(arn))) || only.iter().any(is_consumer)
    };
    sources.retain(|arn, _| only.is_empty() || is_wanted(arn));
    let dead_letters_url = environment.get("DEAD_LETTER_QUEUE_URL").cloned().unwrap_or_default();
    let dead_letters_arn = queue_arn(&dead_letters_url, handler_arn);

    let (running, mut targets, sources, queues, dead_letters, dead_letters_denied, ledger) = tokio::join!(
        calls::running(aws, handler.name()),
        join_all(targets.iter().map(|(name, known_by)| {
            // Without configs, the function doesn't exist.
            let configs = account.configs.get(*name).cloned().unwrap_or(Ok(Vec::new()));
            let function = account.functions.get(*name);
            calls::target(aws, name, function, *known_by, configs, &destinations)
        })),
        join_all(sources.into_iter().map(|(arn, bound)| {
            let consumers = consumers(&arn).into_iter();
            let function = |it: &Mapping| account.functions.get(it.consumer()).cloned();
            let consumers = consumers.map(|it| (it.clone(), function(&it))).collect();
            calls::source(aws, handler, arn, bound, consumers)
        })),
        join_all(queues.iter().map(|arn| {
            let others = consumers(arn).iter().map(|it| it.consumer().to_owned()).collect();
            calls::retry_queue(aws, arn, role, others)
        })),
        reads::queue_at(aws, &dead_letters_arn, dead_letters_url),
        denied(aws, role, &["sqs:SendMessage"], vec![dead_letters_arn.clone()]),
        calls::ledger(aws, handler),
    );
    let buckets = buckets.into_iter().map(|it| calls::record_bucket(aws, handler, it, &targets));
    let buckets = join_all(buckets).await;
    let with_keys: Vec<_> = queues.iter().map(|it| &it.queue).chain([&dead_letters]).collect();
    let (metrics, invocations, keys, errors_decided, deliveries) = tokio::join!(
        metrics::metrics(aws, handler, &targets, &sources, &dead_letters),
        calls::invocations(aws, handler, &targets),
        calls::keys(aws, handler, &with_keys, &buckets, &targets),
        calls::errors_decided(aws, handler),
        calls::deliveries(aws, handler, &account.schedules, &targets, &sources),
    );
    targets.iter_mut().zip(invocations).for_each(|(it, may)| it.may_be_invoked = may);
    Some(Facts {
        now: aws.now(),
        handler: handler.clone(),
        running,
        functions: account.functions.keys().cloned().collect(),
        mappings,
        queues,
        queues_of_others: account.queues_of_others(handler),
        dead_letters,
        dead_letters_denied: dead_letters_denied.map(actions),
        others: account.others(&targets),
        streams: account.streams_of(&targets),
        targets,
        sources,
        deliveries,
        buckets,
        keys,
        ledger,
        errors_decided,
        metrics,
    })
}
