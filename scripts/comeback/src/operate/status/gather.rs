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
use futures_util::future::{join_all, try_join_all};

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
        rules::{Consumer, Facts, InSource, Runs},
    },
};

/// The most items in one call of BatchGetItem.
const ITEMS_MAX: usize = 100;

/// The facts, and why the ledger gave no answer: then the facts are those that need no table.
pub type Gathered = (Vec<Facts>, Option<Fault>);

pub async fn gather(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
    now: Timestamp,
) -> Answer<Gathered> {
    let of_table =
        async { Ok(tokio::try_join!(items(aws, handler, attached), dues(aws, handler, attached))) };
    let (queues, metrics, backlogs, of_table) = tokio::try_join!(
        queues(aws, attached),
        metrics::metrics(aws, attached, now),
        metrics::backlogs(aws, attached, now),
        of_table
    )?;
    let (of_table, unknown) = match of_table {
        Ok(of_table) => (of_table, None),
        Err(fault) => (Default::default(), Some(fault)),
    };
    let (items, dues) = of_table;
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
        let item = items.get(&target_key(arn).id);
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
            throttles: sum(Metric::Throttles),
            at_lambda: backlogs.get(&nth).copied(),
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
            next_due: dues.get(arn).copied(),
        }
    });
    Ok((facts.collect(), unknown))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// The attributes of the retry queues, and of the queues that are attached, by ARN.
async fn queues(aws: &Aws, attached: &[Attached]) -> Answer<HashMap<String, QueueAttributes>> {
    let retry_queues = attached.iter().map(|it| it.queue_arn.as_str());
    let sources = attached.iter().map(|it| it.arn.as_str()).filter(|arn| is_queue(arn));
    let retry_queues: BTreeSet<_> = retry_queues.collect();
    let all: BTreeSet<_> = retry_queues.iter().copied().chain(sources).collect();
    let queues = join_all(all.into_iter().map(|arn| reads::queue(aws, arn))).await;
    let known = |Queue { arn, attributes, .. }: Queue| match attributes {
        Ok(Some(attributes)) => Some(Ok((arn, attributes))),
        // Without its source, a retry queue still has what waits.
        _ if !retry_queues.contains(arn.as_str()) => None,
        Ok(None) => {
            let missing =
                Fault::of("sqs:GetQueueAttributes", &arn, "NonExistentQueue", "no such queue");
            Some(Err(missing))
        }
        Err(fault) => Some(Err(fault)),
    };
    queues.into_iter().filter_map(known).collect()
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
