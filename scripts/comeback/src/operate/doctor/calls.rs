//! The calls that only the doctor makes.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::{KeySchemaElement, TableDescription, TimeToLiveStatus};
use aws_sdk_lambda::types::LastUpdateStatus;
use comeback_core::{
    arn::{self, FunctionArn},
    notice::PREFIX,
    settings::contract::TABLE,
    time::earlier,
};
use futures_util::future::{OptionFuture, join_all};
use serde_json::Value;

use crate::{
    account::{
        bucket::{Bucket, bucket_name, everything_in, records_of},
        fault::{Answer, Clock},
        function::{Function, InvokeConfig, Running, State},
        mapping::Mapping,
        names::{key_arn, rule_arn},
        queue::Queue,
        sender::{Sender, dead_letters},
        setup::{
            ACTION_TO_LIST, ACTIONS_ON_KEY, ACTIONS_ON_RETRY_QUEUE, ACTIONS_TO_PUT, ACTIONS_TO_READ,
        },
        tags::Previous,
    },
    aws::{Aws, events::Events, existing, fault, reads},
    operate::{
        doctor::{
            denials::{actions, denied},
            rules::{
                errors::LOOKS_BACK,
                facts::{
                    Consumer, Delivery, Keys, KnownBy, Ledger, RecordBucket, RetryQueue, Source,
                    Table, Target,
                },
                ledger::actions_on_ledger,
            },
        },
        handler_log::log_lines,
    },
};

/// The names of the queues that a function was attached to, according to its tags.
pub async fn attached(aws: &Aws, arn: &str) -> Answer<BTreeSet<String>> {
    let tags = aws.call(reads::tags(aws, arn)).await?;
    Ok(Previous::queues(&tags).collect())
}

/// The facts about a function that ListFunctions doesn't return.
pub async fn running(aws: &Aws, name: &str) -> Running {
    let lambda = &aws.lambda;
    let (state, recursion, reserved) = tokio::join!(
        aws.call(lambda.get_function_configuration().function_name(name).send()),
        aws.call(reads::may_loop(aws, name)),
        aws.call(lambda.get_function_concurrency().function_name(name).send()),
    );
    Running {
        state: state.map_err(fault("lambda:GetFunctionConfiguration", name)).map(|it| State {
            state: it.state.map(|state| state.as_str().to_owned()).unwrap_or_default(),
            reason: it.state_reason,
            failed_update: (it.last_update_status == Some(LastUpdateStatus::Failed))
                .then(|| it.last_update_status_reason.unwrap_or_default()),
        }),
        may_loop: recursion,
        reserved: reserved
            .map_err(fault("lambda:GetFunctionConcurrency", name))
            .map(|it| it.reserved_concurrent_executions.and_then(|it| u32::try_from(it).ok())),
    }
}

pub async fn retry_queue(
    aws: &Aws,
    arn: &str,
    role: &str,
    other_consumers: Vec<String>,
) -> RetryQueue {
    let (queue, moved_from, denied) = tokio::join!(
        reads::queue(aws, arn),
        moved_from(aws, arn),
        denied(aws, role, &ACTIONS_ON_RETRY_QUEUE, vec![arn.to_owned()]),
    );
    RetryQueue { queue, denied: denied.map(actions), other_consumers, moved_from }
}

/// The names of the queues whose redrive policy names this queue.
async fn moved_from(aws: &Aws, arn: &str) -> Answer<Vec<String>> {
    let url = arn::queue_url(arn).unwrap_or_default();
    let call = aws.sqs.list_dead_letter_source_queues().queue_url(url);
    let urls = call.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
    let urls = aws.call(urls).await.map_err(fault("sqs:ListDeadLetterSourceQueues", arn));
    let name = |url: &String| url.rsplit('/').next().unwrap_or(url).to_owned();
    Ok(existing(urls)?.iter().flatten().map(name).collect())
}

/// The facts about a queue whose messages are retried, with the mappings and functions of its consumers.
pub async fn source(
    aws: &Aws,
    handler: &Function,
    arn: String,
    bound: BTreeSet<String>,
    consumers: Vec<(Mapping, Option<Function>)>,
) -> Source {
    let consumers = consumers.into_iter().map(async |(mapping, function)| {
        let function = function.map(async |it| {
            let running = running(aws, it.name()).await;
            (it, running)
        });
        Consumer { mapping, function: OptionFuture::from(function).await }
    });
    let (queue, consumers, send) = tokio::join!(
        reads::queue(aws, &arn),
        join_all(consumers),
        denied(aws, &handler.role, &["sqs:SendMessage"], vec![arn.clone()]),
    );
    let attributes = queue.attributes.as_ref().ok().and_then(Option::as_ref);
    let key = attributes.and_then(|it| it.key_arn(&handler.arn)).into_iter().collect();
    let key = denied(aws, &handler.role, &ACTIONS_ON_KEY, key).await;
    let denied = send.and_then(|send| Ok([send, key?].concat()));
    Source { queue, bound, consumers, denied }
}

pub async fn target(
    aws: &Aws,
    name: &str,
    function: Option<&Function>,
    known_by: KnownBy,
    configs: Answer<Vec<InvokeConfig>>,
    destinations: &BTreeSet<String>,
) -> Target {
    let own = configs.iter().flatten().filter_map(|config| config.on_failure.clone());
    let own = own.chain(function.and_then(|it| it.dead_letter_target.clone()));
    let own: BTreeSet<_> = own.filter(|arn| destinations.contains(arn)).collect();
    let (buckets, queues): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|arn| bucket_name(arn).is_some());
    let (function, may_send) = match function {
        Some(function) => {
            let may_send = denied(aws, &function.role, &["sqs:SendMessage"], queues.clone());
            let may_put = buckets.into_iter().map(async |arn| {
                let may = may_put(aws, function, &arn).await;
                (arn, may)
            });
            let (running, denied, may_put) =
                tokio::join!(running(aws, name), may_send, join_all(may_put));
            let may_send = queues.into_iter().map(|arn| {
                let may = denied.clone().map(|denied| denied.iter().all(|(_, on)| *on != arn));
                (arn, may)
            });
            (Some((function.clone(), running)), may_send.chain(may_put).collect())
        }
        None => (None, BTreeMap::new()),
    };
    let name = name.to_owned();
    Target { name, function, known_by, configs, may_send, may_be_invoked: Ok(true) }
}

/// Whether the function may put its records into a bucket.
async fn may_put(aws: &Aws, function: &Function, bucket_arn: &str) -> Answer<bool> {
    let (put, list) = ACTIONS_TO_PUT.split_at(1);
    let objects = everything_in(bucket_arn);
    let (put, list) = tokio::join!(
        denied(aws, &function.role, put, vec![objects]),
        denied(aws, &function.role, list, vec![bucket_arn.to_owned()]),
    );
    Ok(put?.is_empty() && list?.is_empty())
}

/// A bucket with failure records, and what the handler lacks to read those of its functions; of all if there are none.
pub async fn record_bucket(
    aws: &Aws,
    handler: &Function,
    (bucket, is_listed): (&Bucket, bool),
    targets: &[Target],
) -> RecordBucket {
    let arn = bucket.arn(&handler.arn);
    let users = targets.iter().filter(|it| it.may_send.contains_key(&arn));
    let mut records: Vec<_> = users.map(|it| records_of(&arn, &it.name)).collect();
    if records.is_empty() {
        records.push(format!("{arn}/{PREFIX}*"));
    }
    let (read, list) = tokio::join!(
        denied(aws, &handler.role, &ACTIONS_TO_READ[..1], records),
        denied(aws, &handler.role, &[ACTION_TO_LIST], vec![arn.clone()]),
    );
    let denied = read.and_then(|read| Ok([read, list?].concat()));
    RecordBucket { bucket: bucket.clone(), arn, is_listed, denied }
}

/// What the handler and the targets that use these queues and buckets lack on their keys.
pub async fn keys(
    aws: &Aws,
    handler: &Function,
    queues: &[&Queue],
    buckets: &[RecordBucket],
    targets: &[Target],
) -> Keys {
    let senders_to = |arn: &str| {
        let senders = targets.iter().filter(|it| it.may_send.contains_key(arn));
        senders.filter_map(|it| Some(&it.function.as_ref()?.0)).collect::<Vec<_>>()
    };
    let mut uses: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for queue in queues {
        let attributes = queue.attributes.as_ref().ok().and_then(Option::as_ref);
        let Some(key) = attributes.and_then(|it| it.key_arn(&handler.arn)) else { continue };
        for user in senders_to(&queue.arn).into_iter().chain([handler]) {
            uses.entry((key.clone(), user.role.clone())).or_default().extend(ACTIONS_ON_KEY);
        }
    }
    for RecordBucket { bucket, arn, .. } in buckets {
        let key = bucket.key.as_ref().ok().and_then(Option::as_deref);
        let Some(key) = key.and_then(|key| key_arn(key, &handler.arn)) else { continue };
        for user in senders_to(arn) {
            uses.entry((key.clone(), user.role.clone())).or_default().extend(ACTIONS_ON_KEY);
        }
        uses.entry((key, handler.role.clone())).or_default().insert("kms:Decrypt");
    }
    let denied = uses.into_iter().map(async |((key, role), needed)| {
        let needed = Vec::from_iter(needed);
        let denied = denied(aws, &role, &needed, vec![key.clone()]).await;
        (key, role, denied.map(actions))
    });
    join_all(denied).await
}

/// Whether the handler's role may invoke each of the targets. Makes only one call.
pub async fn invocations(aws: &Aws, handler: &Function, targets: &[Target]) -> Vec<Answer<bool>> {
    let by_letters = handler.dlq_target();
    let invoked = |target| invoked_arns(target, by_letters.as_ref());
    let all = targets.iter().flat_map(invoked).collect();
    let denied = denied(aws, &handler.role, &["lambda:InvokeFunction"], all).await;
    let may_be_invoked = |target| {
        let own = invoked(target);
        denied.clone().map(|denied| denied.iter().all(|(_, on)| !own.contains(on)))
    };
    targets.iter().map(may_be_invoked).collect()
}

/// The ARNs by which a target is invoked: those in failure records, and that of `DLQ_TARGET`. The ARN of an unqualified
/// function has the version `$LATEST` in records.
fn invoked_arns(target: &Target, by_letters: Option<&FunctionArn>) -> Vec<String> {
    let Some((function, _)) = &target.function else { return Vec::new() };
    let qualifiers = target.configs.iter().flatten().map(|config| config.qualifier.as_deref());
    let arns = qualifiers.map(|it| format!("{}:{}", function.arn, it.unwrap_or("$LATEST")));
    let own = by_letters.filter(|arn| arn.unqualified() == function.arn);
    arns.chain(own.map(|arn| arn.as_str().to_owned())).collect()
}

/// An emulator may lack EventBridge. Then nothing is delivered there.
fn none_if_unsupported<T: Default>(answer: Answer<T>) -> Answer<T> {
    match answer {
        Err(fault) if fault.is_unsupported() => Ok(T::default()),
        answer => answer,
    }
}

/// All schedules in the account and region of a function.
pub async fn schedules(aws: &Aws, beside: &str) -> Answer<Vec<Value>> {
    match Events::beside(aws, beside) {
        Some(events) => none_if_unsupported(events.schedules().await),
        None => Ok(Vec::new()),
    }
}

/// The rules and the schedules that deliver to these functions and queues.
pub async fn deliveries(
    aws: &Aws,
    handler: &Function,
    schedules: &Answer<Vec<Value>>,
    targets: &[Target],
    sources: &[Source],
) -> Answer<Vec<Delivery>> {
    let Some(events) = Events::beside(aws, &handler.arn) else { return Ok(Vec::new()) };
    let of_target = |target: &Target| {
        let arn = target.function.as_ref().map(|(function, _)| function.arn.clone());
        let qualifiers = target.configs.iter().flatten().filter_map(|it| it.qualifier.clone());
        let arns =
            arn.iter().flat_map(|arn| qualifiers.clone().map(move |it| format!("{arn}:{it}")));
        arn.clone().into_iter().chain(arns).collect::<Vec<_>>()
    };
    let arns = targets.iter().flat_map(of_target);
    let arns: BTreeSet<_> = arns.chain(sources.iter().map(|it| it.queue.arn.clone())).collect();
    let is_own = |target: &Value| target["Arn"].as_str().is_some_and(|arn| arns.contains(arn));
    let buses = none_if_unsupported(events.buses().await)?;
    let asked = buses.iter().flat_map(|bus| arns.iter().map(move |arn| (bus, arn)));
    let rules = join_all(asked.map(async |(bus, arn)| {
        let rules = events.rules_to(bus, arn).await?;
        let name = |rule: &Value| rule.as_str().map(|name| (bus, name.to_owned()));
        Ok(rules.iter().filter_map(name).collect::<Vec<_>>())
    }));
    let rules = none_if_unsupported(rules.await.into_iter().collect::<Answer<Vec<_>>>())?;
    let rules: BTreeSet<_> = rules.into_iter().flatten().collect();
    let of_rules = rules.into_iter().map(|(bus, rule)| of_rule(&events, handler, bus, rule));
    let of_rules = join_all(of_rules).await;
    let of_rules: Vec<_> = of_rules.into_iter().collect::<Answer<_>>()?;
    let own = schedules.clone()?.into_iter().filter(|it| is_own(&it["Target"]));
    let of_schedules = join_all(own.map(|it| of_schedule(aws, &events, it))).await;
    let of_schedules: Vec<_> = of_schedules.into_iter().collect::<Answer<_>>()?;
    let of_rules = of_rules.into_iter().flatten().filter(|it| is_own(&it.target));
    Ok(of_rules.chain(of_schedules.into_iter().flatten()).collect())
}

async fn of_rule(
    events: &Events<'_>,
    handler: &Function,
    bus: &str,
    rule: String,
) -> Answer<Vec<Delivery>> {
    let targets = events.targets(bus, &rule).await?;
    let arn = rule_arn(&handler.arn, bus, &rule);
    let delivery = |target: Value| {
        let id = target["Id"].as_str().unwrap_or_default().to_owned();
        let sender = Sender::Rule { bus: bus.to_owned(), name: rule.clone(), target: id };
        Delivery { sender, arn: arn.clone(), target, may_send: Ok(true) }
    };
    Ok(targets.into_iter().map(delivery).collect())
}

async fn of_schedule(aws: &Aws, events: &Events<'_>, listed: Value) -> Answer<Option<Delivery>> {
    let text = |name: &str| listed[name].as_str().unwrap_or_default().to_owned();
    let (group, name) = (text("GroupName"), text("Name"));
    // It may be gone by now.
    let Some(mut schedule) = events.schedule(&group, &name).await? else { return Ok(None) };
    let target = schedule["Target"].take();
    let role = target["RoleArn"].as_str().unwrap_or_default();
    let queue = dead_letters(&target).map(str::to_owned).into_iter().collect();
    let denied = denied(aws, role, &["sqs:SendMessage"], queue).await;
    let (may_send, arn) = (denied.map(|denied| denied.is_empty()), text("Arn"));
    Ok(Some(Delivery { sender: Sender::Schedule { group, name }, arn, target, may_send }))
}

pub async fn ledger(aws: &Aws, handler: &Function) -> Option<Ledger> {
    let (name, arn) = (handler.ledger()?.to_owned(), handler.ledger_arn()?);
    let dynamodb = aws.dynamodb_of(handler);
    let needed = actions_on_ledger(handler);
    let (table, expiry, denied) = tokio::join!(
        aws.call(dynamodb.describe_table().table_name(&name).send()),
        aws.call(dynamodb.describe_time_to_live().table_name(&name).send()),
        denied(aws, &handler.role, &needed, vec![arn.clone()]),
    );
    let table = existing(table.map_err(fault("dynamodb:DescribeTable", &arn)));
    let table = table.map(|answer| answer?.table.as_ref().map(table_of));
    let expiry = expiry.map_err(fault("dynamodb:DescribeTimeToLive", &arn)).map(|answer| {
        let description = answer.time_to_live_description?;
        let is_on = matches!(
            description.time_to_live_status,
            Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        );
        description.attribute_name.filter(|_| is_on)
    });
    Some(Ledger { name, table, expiry, denied: denied.map(actions) })
}

fn table_of(it: &TableDescription) -> Table {
    let kind = |name: &str| {
        let attribute = it.attribute_definitions().iter().find(|it| it.attribute_name == name);
        format!("{name} {}", attribute.map_or("", |it| it.attribute_type.as_str()))
    };
    let key =
        |schema: &[KeySchemaElement]| schema.iter().map(|it| kind(&it.attribute_name)).collect();
    let waiting =
        it.global_secondary_indexes().iter().find(|it| it.index_name() == Some(TABLE.index));
    Table {
        status: it.table_status().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        key: key(it.key_schema()),
        waiting: waiting.map(|index| {
            let status = index.index_status().map(|it| it.as_str().to_owned()).unwrap_or_default();
            (status, key(index.key_schema()))
        }),
    }
}

/// The policies of errors that have decided lately, by the handler's log.
pub async fn errors_decided(aws: &Aws, handler: &Function) -> Answer<BTreeSet<String>> {
    let Ok(settings) = handler.settings() else { return Ok(BTreeSet::new()) };
    let names: Vec<_> = settings.rules.policies.of_errors().map(|own| own.name.clone()).collect();
    if names.len() < 2 {
        return Ok(BTreeSet::new());
    }
    let from = earlier(aws.now(), LOOKS_BACK);
    let decided = async |name: &String| {
        let pattern = format!("{{ $.policy = {} }}", serde_json::Value::from(name.as_str()));
        let mut has = false;
        log_lines(aws, &handler.log_group, &pattern, from, |_| {
            has = true;
            false
        })
        .await
        .map(|()| has)
    };
    let decided = join_all(names.iter().map(decided)).await;
    let decided: Vec<bool> = decided.into_iter().collect::<Result<_, _>>()?;
    let names = names.into_iter().zip(decided).filter(|(_, decided)| *decided);
    Ok(names.map(|(name, _)| name).collect())
}
