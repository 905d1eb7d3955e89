//! Gathers the facts about the functions and queues of a retry handler.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use comeback_core::{
    Timestamp, circuit::Circuit, reason::Reason, register::target_key, time::at_millis,
};
use comeback_dynamodb::{
    ID, Item, primary,
    register::{self, INDEX, PAUSED_AT, TARGET},
};
use futures_util::future::{join_all, try_join, try_join_all};

use crate::{
    account::{
        attached::Attached,
        fault::{Answer, Fault},
        function::Function,
        names::is_queue,
        queue::{Queue, QueueAttributes},
    },
    aws::{Aws, fault, reads},
    operate::status::{
        metrics::{self, Metric},
        rules::{Consumer, Facts, InSource, Unknown, whole},
    },
};

/// The most items in one call of BatchGetItem.
const ITEMS_MAX: usize = 100;

/// The facts, and why some are not known.
pub type Gathered = (Vec<Facts>, Vec<Fault>);

pub async fn gather(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
    now: Timestamp,
) -> Gathered {
    let of_table =
        async { tokio::try_join!(items(aws, handler, attached), dues(aws, handler, attached)) };
    let of_cloudwatch = async {
        tokio::try_join!(
            metrics::metrics(aws, attached, now),
            metrics::runs(aws, attached, now),
            metrics::backlogs(aws, attached, now),
        )
    };
    let ((queues, mut faults), of_cloudwatch, of_table) =
        tokio::join!(queues(aws, attached), of_cloudwatch, of_table);
    let has_runs = of_cloudwatch.is_ok();
    let (metrics, runs, backlogs) = or_nothing(of_cloudwatch, &mut faults);
    let recent = metrics::recent(now);
    let (items, dues) = or_nothing(of_table, &mut faults);
    let facts = attached.iter().enumerate().map(|(nth, it)| {
        let Attached { arn, queue_arn, consumers } = it;
        let queue = queues.get(queue_arn).cloned().unwrap_or_default();
        let in_source =
            queues.get(arn).map(|it| InSource { messages: it.messages(), due: it.visible });
        let consumer = |(function, is_enabled): &(String, bool)| Consumer {
            function: function.clone(),
            is_enabled: *is_enabled,
        };
        let metric = |kind: Metric| metrics.get(&(nth, kind)).copied();
        let sum = |kind| whole(metric(kind).unwrap_or_default());
        let runs = runs.get(&nth).cloned().unwrap_or_default();
        let [next_due, last_due] = dues.get(arn).copied().unwrap_or_default();
        let item = items.get(&target_key(arn).id);
        let circuit = item.and_then(|item| Circuit::read(item.get("circuit")?.as_s().ok()?));
        let paused = item.and_then(|item| item.get(PAUSED_AT)?.as_n().ok()?.parse().ok());
        let backlog = backlogs.get(&nth).copied();
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
            recent: runs.recent(recent),
            succeeds: runs.succeed(recent),
            refuses: backlog.is_some_and(|(_, refuses)| refuses),
            hour: runs.since(i64::MIN),
            last_failure: runs.last(|it| it.errors > 0),
            last_success: runs.last(|it| it.invocations > it.errors),
            throttles: sum(Metric::Throttles),
            at_lambda: backlog.map(|(events, _)| events),
            // AWS counts in milliseconds.
            lambda_oldest_seconds: metric(Metric::LambdaAge).map(|age| age / 1000.0),
            consumers: consumers.iter().map(consumer).collect(),
            in_source,
            retried: sum(Metric::Retried),
            oldest_seconds: metric(Metric::Oldest),
            dead_letters: dead.collect(),
            down_since: circuit.as_ref().and_then(Circuit::down_since),
            circuit: circuit.map(|circuit| circuit.name().to_owned()),
            paused_since: paused.map(at_millis),
            undelivered: sum(Metric::Undelivered),
            next_due,
            last_due,
            unknown: [
                (Unknown::Waiting, !queues.contains_key(queue_arn)),
                (Unknown::Runs, !has_runs),
            ]
            .into_iter()
            .filter_map(|(part, is_unknown)| is_unknown.then_some(part))
            .collect(),
        }
    });
    (facts.collect(), faults)
}

/// The answer, or nothing and the reason.
fn or_nothing<T: Default>(answer: Answer<T>, faults: &mut Vec<Fault>) -> T {
    answer.unwrap_or_else(|fault| {
        faults.push(fault);
        T::default()
    })
}

/// The attributes of the retry queues, and of the queues that are attached, by ARN, and why others are not known.
async fn queues(
    aws: &Aws,
    attached: &[Attached],
) -> (HashMap<String, QueueAttributes>, Vec<Fault>) {
    let retry_queues = attached.iter().map(|it| it.queue_arn.as_str());
    let sources = attached.iter().map(|it| it.arn.as_str()).filter(|arn| is_queue(arn));
    let retry_queues: BTreeSet<_> = retry_queues.collect();
    let all: BTreeSet<_> = retry_queues.iter().copied().chain(sources).collect();
    let queues = join_all(all.into_iter().map(|arn| reads::queue(aws, arn))).await;
    let (mut known, mut faults) = (HashMap::new(), Vec::new());
    for Queue { arn, attributes, .. } in queues {
        match attributes {
            Ok(Some(attributes)) => drop(known.insert(arn, attributes)),
            // Without its source, a retry queue still has what waits.
            _ if !retry_queues.contains(arn.as_str()) => {}
            Ok(None) => {
                let action = "sqs:GetQueueAttributes";
                faults.push(Fault::of(action, &arn, "NonExistentQueue", "no such queue"));
            }
            Err(fault) => faults.push(fault),
        }
    }
    (known, faults)
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
        keys.insert(key.id.clone(), primary(&key));
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

/// The due times of each function's next and last event, by ARN. Empty without a register.
async fn dues(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
) -> Answer<HashMap<String, [Option<Timestamp>; 2]>> {
    let Some(table) = handler.register() else { return Ok(HashMap::new()) };
    let dynamodb = aws.dynamodb_of(handler);
    let due = async |arn: &str, is_next: bool| {
        let call = dynamodb
            .query()
            .table_name(table)
            .index_name(INDEX)
            .key_condition_expression("#target = :target")
            .expression_attribute_names("#target", TARGET)
            .expression_attribute_values(":target", AttributeValue::S(arn.to_owned()))
            .scan_index_forward(is_next)
            .limit(1);
        let answer = call.send().await.map_err(fault("dynamodb:Query", table))?;
        Ok(answer.items.unwrap_or_default().first().and_then(register::due))
    };
    let dues = attached.iter().map(async |Attached { arn, .. }| {
        let (next, last) = try_join(due(arn, true), due(arn, false)).await?;
        Ok((arn.clone(), [next, last]))
    });
    Ok(try_join_all(dues).await?.into_iter().collect())
}
