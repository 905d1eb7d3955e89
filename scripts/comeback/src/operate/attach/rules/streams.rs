//! What has a stream's batches come back that a function could not process. Their records go to the bucket of the
//! function's own records. If the function reports which records of a batch have failed, only its success records say
//! so once a batch comes back, and they go to the retry queue.

use std::collections::BTreeSet;

use crate::{
    account::{stream::Stream, tags::PreviousStream},
    operate::attach::rules::{
        facts::{Facts, RecordBucket, RetryQueue},
        order::Order,
        plan::Plan,
        refusal::Refusal,
        steps::Step,
    },
};

/// How often a mapping itself tries a batch again, if nobody has limited it. Its shard has to wait meanwhile.
const RETRIES: i32 = 2;

/// Has a mapping try a batch again until its records expire.
const ENDLESS: i32 = -1;

/// The mappings to attach: with `--streams`, all of this function, alias or version.
pub fn wanted<'a>(facts: &'a Facts, order: &Order) -> Result<Vec<&'a Stream>, Refusal> {
    let qualifier = order.qualifier();
    let is_wanted = |it: &&Stream| order.streams && it.qualifier() == qualifier;
    let streams: Vec<_> = facts.streams.iter().filter(is_wanted).collect();
    if order.streams && streams.is_empty() {
        let qualifier = qualifier.map(|it| format!(":{it}")).unwrap_or_default();
        return Err(Refusal::NoStream(format!("{}{qualifier}", facts.function.name())));
    }
    for stream in &streams {
        if let Some(to) = stream.on_failure.as_ref().filter(|to| !is_own(facts, to)) {
            let (stream, uuid, to) = (stream.name().to_owned(), stream.uuid.clone(), to.clone());
            return Err(Refusal::OtherStreamDestination { stream, uuid, to });
        }
    }
    Ok(streams)
}

fn is_own(facts: &Facts, destination: &str) -> bool {
    facts.records.as_ref().is_some_and(|bucket| bucket.arn == destination)
}

/// The ids of the mappings whose records the handler may read: those to attach, and those that are attached.
pub fn readable(facts: &Facts, order: &Order, wanted: &[&Stream]) -> BTreeSet<String> {
    let attached = PreviousStream::all(&facts.tags, order.qualifier()).into_keys();
    attached.chain(wanted.iter().map(|it| it.uuid.clone())).collect()
}

/// Whether the function's success records must go to the queue. Somebody else's success records stay where they are.
pub fn hears_successes(
    facts: &Facts,
    wanted: &[&Stream],
    queue: &RetryQueue,
) -> Result<bool, Refusal> {
    let reports = wanted.iter().any(|it| it.reports_failures);
    let on_success = facts.config.as_ref().and_then(|config| config.on_success.as_ref());
    match on_success.filter(|arn| reports && **arn != queue.arn) {
        Some(other) => Err(Refusal::OtherSuccesses(other.clone())),
        None => Ok(reports),
    }
}

/// Remembers what the mappings were, before anything of them is changed.
pub fn remember(plan: &mut Plan, facts: &Facts, order: &Order, wanted: &[&Stream]) {
    let attached = PreviousStream::all(&facts.tags, order.qualifier());
    for stream in wanted.iter().filter(|it| !attached.contains_key(&it.uuid)) {
        let before = PreviousStream {
            had_bucket: stream.on_failure.is_some(),
            was_endless: stream.has_shards() && stream.is_endless,
        };
        let tags = before.tags(&stream.uuid, order.qualifier());
        let becomes = format!("mapping of {}: {before}", stream.name());
        plan.add(Step::Tag { resource: facts.function.arn.clone(), tags }, "no tag", becomes);
    }
}

/// Sends the batches that fail to the bucket.
pub fn attach(plan: &mut Plan, wanted: &[&Stream], bucket: &RecordBucket) {
    for stream in wanted {
        let is_endless = stream.has_shards() && stream.is_endless;
        if stream.on_failure.is_none() || is_endless {
            change(plan, stream, &bucket.arn, is_endless.then_some(RETRIES));
        }
    }
}

/// Restores the mappings, unless their destination was changed since.
pub fn restore(plan: &mut Plan, facts: &Facts, qualifier: Option<&str>) {
    for (uuid, before) in PreviousStream::all(&facts.tags, qualifier) {
        let Some(stream) = facts.streams.iter().find(|it| it.uuid == uuid) else { continue };
        let Some(to) = &stream.on_failure else { continue };
        if !is_own(facts, to) {
            let name = stream.name();
            plan.warnings.push(format!(
                "batches of {name} that fail now go to {to}; that is left unchanged"
            ));
            continue;
        }
        let retries = (before.was_endless && !stream.is_endless).then_some(ENDLESS);
        if !before.had_bucket || retries.is_some() {
            change(plan, stream, if before.had_bucket { to } else { "" }, retries);
        }
    }
}

fn change(plan: &mut Plan, stream: &Stream, to: &str, retries: Option<i32>) {
    let says = |is_endless: bool, to: &str| {
        let to = if to.is_empty() { "no destination" } else { to };
        let retries = if is_endless { "endless retries, then " } else { "" };
        format!("{retries}{to}")
    };
    let is_endless = stream.has_shards() && stream.is_endless;
    let is = says(is_endless, stream.on_failure.as_deref().unwrap_or_default());
    let becomes = match retries {
        Some(ENDLESS) => says(true, to),
        Some(number) => format!("{number} retries, then {to}"),
        None => says(is_endless, to),
    };
    let (uuid, name) = (stream.uuid.clone(), stream.name().to_owned());
    plan.add(Step::Stream { uuid, stream: name, to: to.to_owned(), retries }, is, becomes);
}

/// Removes what [`remember`] has added.
pub fn forget(plan: &mut Plan, facts: &Facts, qualifier: Option<&str>) {
    let attached = PreviousStream::all(&facts.tags, qualifier);
    if attached.is_empty() {
        return;
    }
    let keys = attached.keys().map(|uuid| PreviousStream::key(uuid, qualifier)).collect();
    let is = format!("tags of {} mappings of streams", attached.len());
    plan.add(Step::Untag { resource: facts.function.arn.clone(), keys }, is, "no tag");
}

pub fn warnings(facts: &Facts, order: &Order, wanted: &[&Stream], hears: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if !wanted.is_empty() {
        warnings.push("a batch that comes back is not in the order of its stream".to_owned());
    }
    if hears {
        let name = facts.function.name();
        warnings.push(format!(
            "{name} reports which records have failed, so each success of an asynchronous event sends a message to the \
             retry queue, too"
        ));
    }
    if !wanted.is_empty() && order.qualifier().is_some() {
        warnings.push(
            "AWS documents that a stream's record names its function without alias or version, so the retry may run $LATEST"
                .to_owned(),
        );
    }
    warnings
}
