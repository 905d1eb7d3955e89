//! Gathers the facts of `comeback status` from SQS, CloudWatch and the ledger.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    circuit::Circuit,
    emf::NAMESPACE,
    metric,
    reason::Reason,
    register::target_key,
    target::Target,
    time::{at_millis, earlier},
};
use comeback_dynamodb::{
    ID, Item,
    register::{self, INDEX, PAUSED_AT, TARGET},
};
use futures_util::future::{join_all, try_join_all};

use crate::operate::{
    attached::Attached,
    aws::{Aws, MAXIMUM, Query, fault, metric_data},
    doctor::rules::{Queue, QueueAttributes},
    rules::{Answer, Fault, Function},
    status::rules::{Facts, Runs},
};

/// The time range of the current state.
const RECENT: Duration = Duration::from_mins(5);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The most items in one call of BatchGetItem.
const ITEMS_MAX: usize = 100;

pub struct Gathered {
    pub facts: Vec<Facts>,
    /// Why the ledger gave no answer. The facts are then those that need no table.
    pub unknown: Option<Fault>,
}

pub async fn gather(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
    now: Timestamp,
) -> Answer<Gathered> {
    let of_table =
        async { Ok(tokio::try_join!(items(aws, handler, attached), dues(aws, handler, attached))) };
    let (queues, metrics, of_table) =
        tokio::try_join!(queues(aws, attached), metrics(aws, attached, now), of_table)?;
    let (of_table, unknown) = match of_table {
        Ok(of_table) => (of_table, None),
        Err(fault) => (Default::default(), Some(fault)),
    };
    let (items, dues) = of_table;
    let facts = attached.iter().enumerate().map(|(nth, Attached { arn, queue_arn })| {
        let queue = queues.get(queue_arn).cloned().unwrap_or_default();
        let metric = |kind: Metric| metrics.get(&(nth, kind)).copied();
        let sum = |kind| whole(metric(kind).unwrap_or_default());
        let item = items.get(&target_key(arn));
        let circuit = item.and_then(|item| Circuit::read(item.get("circuit")?.as_s().ok()?));
        let paused = item.and_then(|item| item.get(PAUSED_AT)?.as_n().ok()?.parse().ok());
        let dead = Reason::ALL.iter().enumerate().filter_map(|(reason, name)| {
            let letters = sum(Metric::Dead(reason));
            (letters > 0).then(|| (name.as_str().to_owned(), letters))
        });
        Facts {
            function: arn.clone(),
            queue: queue_arn.clone(),
            queue_shared_with: attached.iter().filter(|it| it.queue_arn == *queue_arn).count() - 1,
            in_flight: queue.in_flight,
            delayed: queue.delayed,
            due: queue.visible,
            recent: Runs {
                invocations: sum(Metric::RecentRuns),
                errors: sum(Metric::RecentErrors),
            },
            hour: Runs { invocations: sum(Metric::Runs), errors: sum(Metric::Errors) },
            retried: sum(Metric::Retried),
            oldest_seconds: metric(Metric::Oldest),
            dead_letters: dead.collect(),
            down_since: circuit.as_ref().and_then(Circuit::down_since),
            circuit: circuit.map(|circuit| circuit.name().to_owned()),
            paused_since: paused.map(at_millis),
            next_due: dues.get(arn).copied(),
        }
    });
    Ok(Gathered { facts: facts.collect(), unknown })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

async fn queues(aws: &Aws, attached: &[Attached]) -> Answer<HashMap<String, QueueAttributes>> {
    let arns: BTreeSet<_> = attached.iter().map(|it| it.queue_arn.as_str()).collect();
    let queues = join_all(arns.into_iter().map(|arn| aws.queue(arn))).await;
    let known = |Queue { arn, attributes, .. }: Queue| match attributes? {
        Some(attributes) => Ok((arn, attributes)),
        None => Err(Fault::of("sqs:GetQueueAttributes", &arn, "NonExistentQueue", "no such queue")),
    };
    queues.into_iter().map(known).collect()
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Metric {
    RecentRuns,
    RecentErrors,
    Runs,
    Errors,
    Retried,
    Oldest,
    /// Dead letters with a reason, by its index in `Reason::ALL`.
    Dead(usize),
}

async fn metrics(
    aws: &Aws,
    attached: &[Attached],
    now: Timestamp,
) -> Answer<HashMap<(usize, Metric), f64>> {
    // CloudWatch's periods begin at whole minutes. The current minute is included.
    let minute = Timestamp::from_timestamp(now.timestamp().div_euclid(60) * 60 + 60, 0);
    let until = minute.unwrap_or(now);
    let mut found = HashMap::new();
    for (length, kinds) in [
        (RECENT, vec![Metric::RecentRuns, Metric::RecentErrors]),
        (HOUR, vec![Metric::Runs, Metric::Errors, Metric::Retried, Metric::Oldest]),
        (DAY, (0..Reason::ALL.len()).map(Metric::Dead).collect()),
    ] {
        let all =
            attached.iter().enumerate().flat_map(|it| kinds.iter().map(move |kind| (it, *kind)));
        let query = |((nth, it), kind): ((usize, &Attached), Metric)| {
            Some(((nth, kind), query(&it.arn, kind, length)?))
        };
        let asked = all.filter_map(query).collect();
        found.extend(metric_data(aws, asked, earlier(until, length), until).await?);
    }
    Ok(found)
}

/// The query for a metric over this length of time. The period is a minute, or an hour for a day. Nobody counts the
/// runs of a queue's consumer.
fn query(arn: &str, kind: Metric, length: Duration) -> Option<Query> {
    let period = if length > HOUR { HOUR } else { Duration::from_mins(1) };
    let function = FunctionArn::parse(arn);
    let function_dimensions = || {
        let function = function.as_ref()?;
        let mut dimensions = vec![("FunctionName", function.name().to_owned())];
        let qualifier = arn.strip_prefix(function.unqualified());
        let qualifier = qualifier.and_then(|rest| rest.strip_prefix(':'));
        // Lambda has separate metrics for versions and aliases, but not for `$LATEST`.
        if let Some(qualifier) = qualifier.filter(|it| !it.starts_with('$')) {
            dimensions.push(("Resource", format!("{}:{qualifier}", function.name())));
        }
        Some(dimensions)
    };
    // The handler counts all versions and aliases of a function together.
    let name = Target::parse(arn).map_or(arn.to_owned(), |target| target.name().to_owned());
    let target = || vec![("Target", name.clone())];
    let (namespace, name, dimensions) = match kind {
        Metric::RecentRuns | Metric::Runs => ("AWS/Lambda", "Invocations", function_dimensions()?),
        Metric::RecentErrors | Metric::Errors => ("AWS/Lambda", "Errors", function_dimensions()?),
        Metric::Retried => (NAMESPACE, metric::Metric::Invoked.name(), target()),
        Metric::Oldest => (NAMESPACE, metric::Metric::EventAge.name(), target()),
        Metric::Dead(reason) => {
            let reason = ("Reason", Reason::ALL[reason].as_str().to_owned());
            (NAMESPACE, metric::Metric::DeadLettered.name(), [target(), vec![reason]].concat())
        }
    };
    let statistic = if kind == Metric::Oldest { MAXIMUM } else { "Sum" };
    Some(Query { namespace, name, dimensions, statistic, period })
}

/// The items of these functions in the ledger, by key.
async fn items(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
) -> Answer<HashMap<String, Item>> {
    let mut items = HashMap::new();
    let Some(table) = handler.ledger() else { return Ok(items) };
    let dynamodb = aws.dynamodb_of(handler);
    let mut keys: BTreeMap<String, Item> = BTreeMap::new();
    for Attached { arn, .. } in attached {
        let key = target_key(arn);
        keys.insert(key.clone(), [(ID.to_owned(), AttributeValue::S(key))].into());
    }
    let keys: Vec<_> = keys.into_values().collect();
    for keys in keys.chunks(ITEMS_MAX) {
        let failed = || fault("dynamodb:BatchGetItem", table);
        let mut wanted = KeysAndAttributes::builder().set_keys(Some(keys.to_vec())).build().ok();
        while let Some(keys) = wanted.take() {
            let answer = dynamodb.batch_get_item().request_items(table, keys).send().await;
            let answer = answer.map_err(failed())?;
            let found = answer.responses.unwrap_or_default().into_values().flatten();
            items.extend(found.filter_map(|item| Some((item.get(ID)?.as_s().ok()?.clone(), item))));
            wanted = answer.unprocessed_keys.and_then(|mut left| left.remove(table));
        }
    }
    Ok(items)
}

/// The due time of each function's next event, by ARN. Empty without a register.
async fn dues(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
) -> Answer<HashMap<String, Timestamp>> {
    let Some(table) = handler.register() else { return Ok(HashMap::new()) };
    let dynamodb = aws.dynamodb_of(handler);
    let dues = attached.iter().map(async |Attached { arn, .. }| {
        let call = dynamodb
            .query()
            .table_name(table)
            .index_name(INDEX)
            .key_condition_expression("#target = :target")
            .expression_attribute_names("#target", TARGET)
            .expression_attribute_values(":target", AttributeValue::S(arn.clone()))
            .limit(1);
        let answer = call.send().await.map_err(fault("dynamodb:Query", table))?;
        let first = answer.items.unwrap_or_default().first().and_then(register::due);
        Ok(first.map(|due| (arn.clone(), due)))
    });
    Ok(try_join_all(dues).await?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_has_metrics_of_its_own() {
        let arn = "arn:aws:lambda:us-east-1:123456789012:function:orders";
        let names = |arn: &str, kind| {
            let Some(Query { name, dimensions, .. }) = query(arn, kind, HOUR) else {
                return "nothing".to_owned();
            };
            let dimensions = dimensions.iter().map(|(name, value)| format!(" {name}={value}"));
            name.to_owned() + &dimensions.collect::<String>()
        };
        let latest = format!("{arn}:$LATEST");
        let live = format!("{arn}:live");
        let imports = "arn:aws:sqs:us-east-1:123456789012:imports".to_owned();
        for (arn, kind, expected) in [
            (&latest, Metric::Runs, "Invocations FunctionName=orders".to_owned()),
            (
                &live,
                Metric::RecentErrors,
                "Errors FunctionName=orders Resource=orders:live".to_owned(),
            ),
            (&live, Metric::Retried, "Invoked Target=orders".to_owned()),
            (&imports, Metric::Retried, "Invoked Target=sqs:imports".to_owned()),
            (&imports, Metric::Runs, "nothing".to_owned()),
            (&live, Metric::Dead(2), "DeadLettered Target=orders Reason=not_retryable".to_owned()),
        ] {
            assert_eq!(names(arn, kind), expected);
        }
    }
}
