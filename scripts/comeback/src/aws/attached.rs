//! The functions that send their failures to a retry handler, and the queues that are bound to it.

use std::collections::BTreeSet;

use comeback_core::arn::FunctionArn;
use futures_util::future::try_join_all;

use crate::{
    account::{
        attached::Attached,
        bucket::bucket_name,
        fault::Answer,
        function::{Function, InvokeConfig},
        handlers::{bound_queues, queue_for},
    },
    aws::{Aws, existing, reads},
};

/// The functions that send their failures to a queue of this retry handler, and the queues that are bound to one.
pub async fn attached(
    aws: &Aws,
    handler: &Function,
    functions: &[Function],
) -> Answer<Vec<Attached>> {
    let aws = &aws.adaptive();
    // A mapping may name an alias of the handler.
    let is_handler = |arn: &str| is_of(arn, handler);
    let mappings = reads::mappings(aws).await?;
    let (own, others): (Vec<_>, Vec<_>) =
        mappings.into_iter().partition(|mapping| is_handler(&mapping.function));
    let queues: BTreeSet<_> = own.into_iter().map(|mapping| mapping.queue).collect();
    // A function whose own dead-letter queue is a retry queue fails under the name that a setting has.
    let by_letters = handler.dlq_target().and_then(|arn| {
        let function = functions.iter().find(|it| it.arn == arn.unqualified())?;
        let queue = function.dead_letter_target.as_ref().filter(|queue| queues.contains(*queue))?;
        Some(Attached::of(arn.as_str().to_owned(), queue.clone()))
    });
    let functions = functions.iter().filter(|function| function.arn != handler.arn);
    let asked = functions.map(|function| destinations(aws, &function.arn));
    let found = try_join_all(asked).await?.into_iter().flatten();
    let buckets = handler.settings().map(|it| it.record_buckets).unwrap_or_default();
    let found = found.filter_map(|it| {
        let bucket = bucket_name(&it.queue_arn).filter(|name| buckets.contain(name));
        let function = FunctionArn::parse(&it.arn);
        let told = || queue_for(handler, &queues, function.as_ref()?.name());
        let queue = bucket.map_or_else(|| queues.get(&it.queue_arn), |_| told())?;
        Some(Attached::of(it.arn.clone(), queue.clone()))
    });
    let sources = bound_queues(handler).into_iter().map(|(arn, queue_arn)| {
        let consumers = others.iter().filter(|mapping| mapping.queue == arn);
        let consumers = consumers.map(|it| (it.consumer().to_owned(), it.is_enabled())).collect();
        Attached { arn, queue_arn, consumers }
    });
    let mut attached: Vec<_> = found.chain(by_letters).chain(sources).collect();
    attached.sort_unstable();
    attached.dedup();
    Ok(attached)
}

/// The ARNs of the queues from which this retry handler receives.
pub async fn retry_queues(aws: &Aws, handler: &Function) -> Answer<BTreeSet<String>> {
    let mappings = reads::mappings(aws).await?.into_iter();
    let own = mappings.filter(|mapping| is_of(&mapping.function, handler));
    Ok(own.map(|mapping| mapping.queue).collect())
}

fn is_of(arn: &str, function: &Function) -> bool {
    FunctionArn::parse(arn).is_some_and(|it| it.unqualified() == function.arn)
}

/// The ARNs that failure records may have for this function: `arn` itself if it is qualified, else those of `$LATEST`
/// and of each qualifier with a destination of its own.
pub async fn qualified(aws: &Aws, arn: &str) -> Answer<Vec<String>> {
    let is_qualified =
        FunctionArn::parse(arn).is_none_or(|function| function.as_str() != function.unqualified());
    if is_qualified {
        return Ok(vec![arn.to_owned()]);
    }
    let found = destinations(&aws.adaptive(), arn).await?.into_iter();
    let arns: BTreeSet<_> = found.map(|it| it.arn).chain([format!("{arn}:$LATEST")]).collect();
    Ok(arns.into_iter().collect())
}

async fn destinations(aws: &Aws, arn: &str) -> Answer<Vec<Attached>> {
    // If the function was deleted after it was listed, its events may still be waiting.
    let configs = existing(reads::invoke_configs(aws, arn).await)?.unwrap_or_default();
    let attached = |config: InvokeConfig| {
        let qualifier = config.qualifier.as_deref().unwrap_or("$LATEST");
        Some(Attached::of(format!("{arn}:{qualifier}"), config.on_failure?))
    };
    Ok(configs.into_iter().filter_map(attached).collect())
}
