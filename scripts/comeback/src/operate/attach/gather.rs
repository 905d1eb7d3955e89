//! Gathers the facts about what is attached or detached.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

use crate::{
    account::{
        bucket::bucket_arn,
        fault::Answer,
        function::Function,
        handlers::{handlers, only},
        known::Names,
        mapping::Mapping,
        names::{last, queue_arn},
        notifications::Notifications,
        queue::Queue,
        sender::{Sender, dead_letters},
        stream::Stream,
        tags::{Previous, Tags},
    },
    aws::{
        Aws,
        buckets::{Buckets, NO_BUCKET},
        events::Events,
        fault,
        reads::{self, functions},
    },
    failure::Failure,
    operate::attach::{
        calls,
        options::CommonOptions,
        rules::{
            admission::policy_name,
            deliveries::{DeliveryFacts, deliver_policy, delivered_to, send_policy, target_of},
            facts::{Facts, RecordBucket, RetryQueue},
            order::QualifiedName,
            queues::{QueueFacts, parse_source},
            refusal::Refusal,
            sender::SenderArgs,
        },
    },
};

/// The name of a handler, the mappings of queues and of streams, the retry queues of all handlers (the handler's name
/// by the queue's ARN), and the names that can be meant.
type System = (String, (Vec<Mapping>, Vec<Stream>), Tags, Names);

async fn system(aws: &Aws, options: &CommonOptions) -> Result<System, Failure> {
    let (listed, mappings) = tokio::join!(functions(aws), reads::mappings_and_streams(aws));
    let (listed, (mappings, streams)) = (listed?, mappings?);
    let handler = only(&listed, options.handler.as_deref())?.name().to_owned();
    let handlers: BTreeSet<_> = handlers(&listed).map(Function::name).collect();
    let of_handlers = mappings.iter().filter(|it| handlers.contains(it.consumer()));
    let retry_queues = of_handlers.map(|it| (it.queue.clone(), it.consumer().to_owned())).collect();
    Ok((handler, (mappings, streams), retry_queues, Names::of(&listed)))
}

/// The facts about a function and the retry system to attach it to or detach it from. `records` is a bucket for the
/// function's records, unless it has one.
pub async fn facts(
    aws: &Aws,
    (name, qualifier): &QualifiedName,
    records: Option<&str>,
    options: &CommonOptions,
) -> Result<Facts, Failure> {
    let aws = &aws.adaptive();
    let (handler, (_, mut streams), retry_queues, names) = system(aws, options).await?;
    names.check([name]).map_err(|unknown| unknown.to_string())?;
    streams.retain(|it| it.consumer() == name);
    let (own, others): (Tags, Tags) = retry_queues.into_iter().partition(|(_, it)| *it == handler);
    let (handler, function) =
        tokio::join!(calls::configured(aws, &handler), calls::configured(aws, name));
    let ((handler, handler_tags), (function, tags)) = (handler?, function?);
    let qualifier = qualifier.as_deref();
    let (send, invoke) =
        (policy_name("send", name, qualifier), policy_name("invoke", name, qualifier));
    let (config, may_loop, send_policy, invoke_policy) = tokio::join!(
        calls::configured_invocations(aws, name, qualifier),
        reads::may_loop(aws, name),
        calls::inline_policy(aws, &function.role, &send),
        calls::inline_policy(aws, &handler.role, &invoke),
    );
    let bucket = Previous::read(&tags, qualifier).and_then(|it| it.records);
    let bucket = bucket.or_else(|| records.map(str::to_owned));
    let records = match bucket {
        Some(name) => Some(record_bucket(aws, &handler.arn, name, records.is_some()).await?),
        None => None,
    };
    let queues = queues(aws, own.keys()).await?;
    Ok(Facts {
        handler,
        handler_tags,
        queues,
        others,
        function,
        tags,
        config: config?,
        may_loop,
        send_policy,
        invoke_policy,
        records,
        streams,
    })
}

/// The facts about a rule or a schedule, and the retry system to attach it to or detach it from.
pub async fn delivery_facts(
    aws: &Aws,
    named: &SenderArgs,
    options: &CommonOptions,
) -> Result<DeliveryFacts, Failure> {
    let aws = &aws.adaptive();
    let (handler, _, retry_queues, _) = system(aws, options).await?;
    let (own, of_others): (Tags, Tags) =
        retry_queues.into_iter().partition(|(_, it)| *it == handler);
    let (handler, handler_tags) = calls::configured(aws, &handler).await?;
    let no_handler = || Refusal::NotAllowed { handler: handler.name().to_owned() };
    let events = Events::beside(aws, &handler.arn).ok_or_else(no_handler)?;
    let kind = if named.rule.is_some() { "rule" } else { "schedule" };
    let name = named.rule.as_ref().or(named.schedule.as_ref()).cloned().unwrap_or_default();
    let found = calls::sender(&events, named).await?;
    let (arn, targets) = found.ok_or_else(|| Refusal::NoSender(format!("{kind} {name}")))?;
    let target = target_of(&name, &targets, named.target.as_deref())?.clone();
    let others = targets.iter().filter(|it| **it != target);
    let dead_letters_of_others =
        others.filter_map(|it| dead_letters(it).map(str::to_owned)).collect();
    let sender = match named.rule {
        Some(_) => {
            let id = target["Id"].as_str().unwrap_or_default().to_owned();
            Sender::Rule { bus: named.bus.clone(), name, target: id }
        }
        None => Sender::Schedule { group: named.group.clone(), name },
    };
    let to = delivered_to(&target, &handler)?;
    let role = target["RoleArn"].as_str().unwrap_or_default().to_owned();
    let (deliver, send) = (deliver_policy(&to), send_policy(&sender));
    let send_policy = async {
        match sender {
            Sender::Rule { .. } => Ok(None),
            Sender::Schedule { .. } => calls::inline_policy(aws, &role, &send).await,
        }
    };
    let target_queue =
        async { if to.is_queue() { queues(aws, [to.as_str()]).await } else { Ok(Vec::new()) } };
    let (queues, target_queue, deliver_policy, send_policy) = tokio::join!(
        queues(aws, own.keys()),
        target_queue,
        calls::inline_policy(aws, &handler.role, &deliver),
        send_policy,
    );
    Ok(DeliveryFacts {
        queues: queues?,
        target_queue: target_queue?.pop(),
        handler,
        handler_tags,
        others: of_others,
        sender,
        arn,
        target,
        dead_letters_of_others,
        deliver_policy,
        send_policy,
    })
}

/// Those of these queues that exist.
async fn queues(
    aws: &Aws,
    arns: impl IntoIterator<Item = impl AsRef<str>>,
) -> Answer<Vec<RetryQueue>> {
    let mut queues = Vec::new();
    for arn in arns {
        let Queue { arn, url, attributes } = reads::queue(aws, arn.as_ref()).await;
        // A mapping may name a queue that no longer exists. It is skipped.
        queues.extend(attributes?.map(|attributes| RetryQueue { arn, url, attributes }));
    }
    Ok(queues)
}

/// A bucket for records. A function can be detached when its bucket is gone.
async fn record_bucket(
    aws: &Aws,
    handler: &str,
    name: String,
    must_exist: bool,
) -> Result<RecordBucket, Failure> {
    let no_handler = || Refusal::NotAllowed { handler: last(handler).to_owned() };
    let buckets = Buckets::beside(aws, handler).ok_or_else(no_handler)?;
    let (notifications, key) = tokio::join!(buckets.notifications(&name), buckets.key(&name));
    let arn = bucket_arn(&name, handler);
    let (notifications, key) = match notifications {
        Err(fault) if !must_exist && fault.code.as_deref() == Some(NO_BUCKET) => {
            (Notifications::default(), None)
        }
        notifications => (notifications?, key?),
    };
    Ok(RecordBucket { name, arn, notifications, key })
}

/// The facts about a queue and the retry system to attach it to or detach it from.
pub async fn queue_facts(
    aws: &Aws,
    source: &str,
    retry: Option<&str>,
    options: &CommonOptions,
) -> Result<QueueFacts, Failure> {
    let aws = &aws.adaptive();
    let (handler, (mappings, _), retry_queues, _) = system(aws, options).await?;
    let (handler, handler_tags) = calls::configured(aws, &handler).await?;
    let source = parse_source(source, &handler)?;
    let consumers = mappings.iter().filter(|it| it.queue == source.as_str());
    let consumers = join_all(consumers.map(async |it| {
        let may_loop = reads::may_loop(aws, it.consumer()).await;
        (it.consumer().to_owned(), may_loop)
    }))
    .await;
    let Queue { url, attributes, .. } = reads::queue(aws, source.as_str()).await;
    let attributes = attributes?;
    let tags: BTreeMap<_, _> = match &attributes {
        Some(_) => {
            let answer = aws.sqs.list_queue_tags().queue_url(&url).send().await;
            let answer = answer.map_err(fault("sqs:ListQueueTags", source.as_str()))?;
            answer.tags.unwrap_or_default().into_iter().collect()
        }
        None => BTreeMap::new(),
    };
    let retry = QueueFacts::retry_queue(&handler, &source, &tags, retry);
    let retry = queue_arn(&retry, &handler.arn);
    let policy = policy_name("queue", source.name(), None);
    let (retry, policy) =
        tokio::join!(reads::queue(aws, &retry), calls::inline_policy(aws, &handler.role, &policy));
    let of_retry = retry.attributes?;
    Ok(QueueFacts {
        exists: of_retry.is_some(),
        retry: RetryQueue {
            arn: retry.arn,
            url: retry.url,
            attributes: of_retry.unwrap_or_default(),
        },
        handler,
        handler_tags,
        mappings,
        retry_queues,
        source,
        url,
        attributes,
        tags,
        consumers,
        policy,
    })
}
