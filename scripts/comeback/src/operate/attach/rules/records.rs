//! What a function whose records go to a bucket needs: permissions, and a notification of its records to its queue.
//!
//! The handler's permissions and the notifications are about the records of this function and its streams only, so
//! another function that uses the bucket keeps its own. The function's role needs to put objects under all keys.

use std::{collections::BTreeSet, iter};

use serde_json::Value;

use crate::{
    account::{
        bucket::{prefix_of, prefix_of_stream, records_of, records_of_stream, statements_to_put},
        function::Function,
        names::{key_arn, last},
        notifications::Notification,
        policy::{self, Service, admits, statement, unadmit},
        setup::{ACTION_TO_LIST, ACTIONS_ON_KEY, ACTIONS_TO_READ},
        tags::Previous,
    },
    operate::attach::rules::{
        facts::{Facts, RecordBucket, RetryQueue},
        order::Order,
        plan::Plan,
        refusal::Refusal,
        steps::Step,
    },
};

/// A notification of records.
pub struct Place {
    /// The id of the notification that is added.
    id: String,
    /// What the keys of the records begin with.
    prefix: String,
}

/// The notifications of the records of a function, and of those of streams' mappings with these ids.
pub fn places<'a>(
    function: Option<&str>,
    mappings: impl IntoIterator<Item = &'a String>,
) -> Vec<Place> {
    let of_function = |it| Place { id: format!("comeback-{it}"), prefix: prefix_of(it) };
    let of_stream =
        |it: &String| Place { id: format!("comeback-stream-{it}"), prefix: prefix_of_stream(it) };
    function.map(of_function).into_iter().chain(mappings.into_iter().map(of_stream)).collect()
}

/// The bucket of an attachment, unless the order names another one than that in use, or somebody else is notified of
/// its records.
pub fn bucket<'a>(
    facts: &'a Facts,
    order: &Order,
    queue: &RetryQueue,
    places: &[Place],
) -> Result<Option<&'a RecordBucket>, Refusal> {
    let Some(bucket) = &facts.records else { return Ok(None) };
    if let Some(other) = order.records.as_ref().filter(|it| **it != bucket.name) {
        let (is, other) = (bucket.name.clone(), other.clone());
        return Err(Refusal::OtherBucket { is, other });
    }
    if queue.attributes.key.as_deref().is_some_and(|it| it.ends_with("alias/aws/sqs")) {
        return Err(Refusal::ClosedKey {
            queue: queue.name().to_owned(),
            service: Service::S3.principal(),
        });
    }
    for Place { id: own, prefix } in places {
        let is_other =
            |it: &&Notification| it.to != queue.arn && it.id != *own && it.overlaps(prefix);
        // Something else may pass on what a topic or a function is told, but a queue's messages are its consumer's.
        let other =
            bucket.notifications.sent().find(is_other).filter(|_| !is_told(bucket, prefix, queue));
        if let Some(Notification { id, to, .. }) = other {
            return Err(Refusal::Told {
                bucket: bucket.name.clone(),
                id: id.clone(),
                to: to.clone(),
                prefix: prefix.clone(),
            });
        }
    }
    Ok(Some(bucket))
}

fn is_told(bucket: &RecordBucket, prefix: &str, queue: &RetryQueue) -> bool {
    bucket.notifications.sent().any(|it| it.to == queue.arn && it.covers(prefix))
}

/// What lets the function's role put its records into the bucket, and use the bucket's key.
pub fn put_statements(function: &Function, bucket: &RecordBucket) -> Vec<Value> {
    let key = bucket.key.as_deref().and_then(|key| key_arn(key, &function.arn));
    let key = key.map(|key| statement(&ACTIONS_ON_KEY, &[&key]));
    statements_to_put(&bucket.arn, &function.arn).into_iter().chain(key).collect()
}

/// What lets the handler's role read the records of the function and of the mappings with these ids.
pub fn read_statements(
    function: &Function,
    bucket: &RecordBucket,
    mappings: &BTreeSet<String>,
) -> Vec<Value> {
    let key = bucket.key.as_deref().and_then(|key| key_arn(key, &function.arn));
    let key = key.map(|key| statement(&["kms:Decrypt"], &[&key]));
    let of_streams = mappings.iter().map(|it| records_of_stream(&bucket.arn, it));
    let records = iter::once(records_of(&bucket.arn, function.name())).chain(of_streams);
    let records: Vec<_> = records.collect();
    let records: Vec<_> = records.iter().map(String::as_str).collect();
    let read = statement(&ACTIONS_TO_READ, &records);
    [read, statement(&[ACTION_TO_LIST], &[&bucket.arn])].into_iter().chain(key).collect()
}

/// Lets the bucket send to the queue, whose policy is this one by now.
pub fn admit(plan: &mut Plan, queue: &RetryQueue, policy: &str, bucket: &RecordBucket) {
    let account = queue.arn.split(':').nth(4).unwrap_or_default();
    if admits(policy, Service::S3, &bucket.arn, account) {
        return;
    }
    if let Some(policy) = policy::admit(policy, &queue.arn, Service::S3, &bucket.arn, account) {
        let step = Step::QueuePolicy { url: queue.url.clone(), policy };
        plan.add(step, format!("S3 may not send for {}", bucket.name), "it may");
    }
}

/// Has the bucket notify the queue of the records in these places, unless it does already.
pub fn notify(plan: &mut Plan, places: Vec<Place>, queue: &RetryQueue, bucket: &RecordBucket) {
    for Place { id, prefix } in places {
        if is_told(bucket, &prefix, queue) {
            continue;
        }
        let becomes = format!("{} is notified of {prefix}", queue.name());
        let (bucket, queue) = (bucket.name.clone(), queue.arn.clone());
        let step = Step::Notify { bucket, id, queue, prefix: Some(prefix) };
        plan.add(step, "nobody is notified", becomes);
    }
}

pub fn warnings(facts: &Facts, queue: &RetryQueue, is_transparent: bool) -> Vec<String> {
    let Some(bucket) = &facts.records else { return Vec::new() };
    let Facts { handler, function, .. } = facts;
    let (name, own) = (handler.name(), queue.name());
    let mut warnings = vec![format!(
        "{name} must be of this version or a later one: an earlier one doesn't read records in buckets, and makes \
         dead letters of them"
    )];
    if !is_transparent {
        warnings.push(
            "a payload near 1 MiB has no room for an envelope, and becomes a dead letter: pass --transparent, too"
                .to_owned(),
        );
    }
    if let Some(key) = &queue.attributes.key {
        warnings.push(format!(
            "{own} has the key {key}: the key's policy must let s3.amazonaws.com use it ({}), or S3 can't send",
            ACTIONS_ON_KEY.join(", ")
        ));
    }
    if let Some(key) = bucket.key.as_deref().filter(|key| key_arn(key, &function.arn).is_none()) {
        warnings.push(format!(
            "{} has the key {key}: let {} and {} use it ({}), or records are lost",
            bucket.name,
            function.role_name(),
            handler.role_name(),
            ACTIONS_ON_KEY.join(", ")
        ));
    }
    if bucket.notifications.uses_event_bridge() {
        warnings.push(format!(
            "{} also notifies EventBridge: if a rule sends that to a retry queue, each notice comes twice, and without a \
             ledger its event is retried twice",
            bucket.name
        ));
    }
    warnings
}

/// Takes back what [`notify`] and [`admit`] have added for these places. The result is whether the bucket then notifies
/// no queue of the handler any more, and the queue's policy if it changes.
pub fn forget(
    plan: &mut Plan,
    facts: &Facts,
    before: &Previous,
    places: Vec<Place>,
) -> (bool, Option<String>) {
    let Some(bucket) = &facts.records else { return (true, None) };
    let mut rest = bucket.notifications.clone();
    for Place { id, prefix } in places {
        rest = rest.without(&id);
        let told = bucket.notifications.sent().find(|it| it.id == id);
        if let Some(Notification { to, .. }) = told {
            let (bucket, queue) = (bucket.name.clone(), to.clone());
            let step = Step::Notify { bucket, id, queue, prefix: None };
            plan.add(step, format!("{} is notified of {prefix}", last(to)), "it is not");
        }
    }
    let queue = facts.queues.iter().find(|it| it.name() == before.queue);
    let tells = |queue: &RetryQueue| rest.sent().any(|it| it.to == queue.arn);
    let mut becomes = None;
    if let Some(queue) = queue.filter(|queue| !tells(queue)) {
        let policy = queue.attributes.policy.as_deref().unwrap_or_default();
        becomes = unadmit(policy, Service::S3, &bucket.arn);
        if let Some(policy) = becomes.clone() {
            let step = Step::QueuePolicy { url: queue.url.clone(), policy };
            plan.add(step, format!("S3 may send for {}", bucket.name), "it may not");
        }
    }
    (!facts.queues.iter().any(tells), becomes)
}
