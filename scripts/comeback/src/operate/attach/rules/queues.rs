//! Plans to attach a queue whose consumer fails, and to detach it.
//!
//! Its retry queue is created if it doesn't exist, because a queue that nothing sends to can't lose anything. The
//! source queue's redrive policy is set last when the queue is attached, and restored first when it is detached, so SQS
//! moves no message before the handler knows whose it is.

use comeback_core::{
    arn::{FunctionArn, QueueArn},
    attribute::SIZE_MAX,
    target::Target,
};
use serde_json::json;

use crate::{
    account::{
        fault::Answer,
        function::Function,
        handlers::queue_targets,
        mapping::Mapping,
        names::{last, queue_arn},
        policy::policy_of,
        queue::{QueueAttributes, Redrive},
        setup::{
            ACTIONS_ON_RETRY_QUEUE, RECEIVES, RETENTION, VISIBILITY_LONG, VISIBILITY_PER_TIMEOUT,
        },
        tags::{Previous, Tags},
    },
    operate::attach::rules::{
        admission::{admission, policy_name, send_statements},
        facts::{RetryQueue, managed},
        order::Order,
        plan::Plan,
        refusal::Refusal,
        settings::{Restored, settings_with, settings_without},
        steps::Step,
    },
    text::exact_span,
};

#[derive(Clone, Debug)]
pub struct QueueFacts {
    pub handler: Function,
    pub handler_tags: Tags,
    /// All mappings of queues in the account and region.
    pub mappings: Vec<Mapping>,
    /// The retry queues of all handlers: the handler's name by the queue's ARN.
    pub retry_queues: Tags,
    pub source: QueueArn,
    pub url: String,
    pub attributes: Option<QueueAttributes>,
    pub tags: Tags,
    /// The retry queue that was chosen, which may not exist yet.
    pub retry: RetryQueue,
    pub exists: bool,
    /// The functions that receive from the source queue, and whether their `RecursiveLoop` is `Allow`.
    pub consumers: Vec<(String, Answer<bool>)>,
    /// The inline policy that lets the handler use both queues.
    pub policy: Answer<Option<String>>,
}

impl QueueFacts {
    /// The name of the retry queue: that of the order, the one that the queue has, or a new one.
    pub fn retry_queue(
        handler: &Function,
        source: &QueueArn,
        tags: &Tags,
        named: Option<&str>,
    ) -> String {
        let bound = queue_targets(&handler.environment);
        let is_bound = |names: &[String]| names.iter().any(|it| it == source.target_name());
        let bound = bound.into_iter().find(|(_, names)| is_bound(names)).map(|(queue, _)| queue);
        let before = Previous::read(tags, None).map(|it| it.queue);
        let named = named.map(|it| last(it).to_owned()).or(before).or(bound);
        named.unwrap_or_else(|| format!("retry-{}", source.name()))
    }

    fn source_queue(&self, attributes: &QueueAttributes) -> RetryQueue {
        let arn = self.source.as_str().to_owned();
        RetryQueue { arn, url: self.url.clone(), attributes: attributes.clone() }
    }

    fn mapping(&self) -> Option<&Mapping> {
        let is_own = |it: &&Mapping| {
            FunctionArn::parse(&it.function).is_some_and(|it| it.unqualified() == self.handler.arn)
        };
        self.mappings.iter().filter(is_own).find(|it| it.queue == self.retry.arn)
    }
}

pub fn parse_source(text: &str, handler: &Function) -> Result<QueueArn, Refusal> {
    let name = text.strip_prefix("sqs:").unwrap_or(text);
    if name.ends_with(".fifo") {
        return Err(Refusal::Fifo);
    }
    let arn =
        if name.starts_with("arn:") { name.to_owned() } else { queue_arn(name, &handler.arn) };
    let source = QueueArn::parse(&arn).ok_or_else(|| Refusal::NoQueueName(text.to_owned()))?;
    let own = queue_arn(source.name(), &handler.arn);
    if own != arn {
        return Err(Refusal::Elsewhere { queue: arn, own });
    }
    Ok(source)
}

pub fn attach_queue(facts: &QueueFacts, order: &Order) -> Result<Plan, Refusal> {
    let QueueFacts { handler, source, retry, retry_queues, .. } = facts;
    let name = source.name();
    let Some(attributes) = &facts.attributes else {
        return Err(Refusal::NoSource(source.to_string()));
    };
    let dead_letters = handler.dead_letter_queue_url().unwrap_or_default();
    let dead_letters = queue_arn(dead_letters, &handler.arn);
    let bound = queue_targets(&handler.environment);
    let is_retry_queue = |arn: &str| {
        retry_queues.contains_key(arn) || arn == dead_letters || bound.contains_key(last(arn))
    };
    if is_retry_queue(source.as_str()) || source.as_str() == retry.arn {
        return Err(Refusal::IsRetryQueue(name.to_owned()));
    }
    let mut of_retry = facts.mappings.iter().filter(|it| it.queue == retry.arn);
    let is_foreign = |it: &&Mapping| facts.mapping().is_none_or(|own| own.function != it.function);
    if let Some(foreign) = of_retry.find(is_foreign) {
        let handler = foreign.consumer().to_owned();
        return Err(Refusal::OtherSystem { queue: retry.name().to_owned(), handler });
    }
    let before = attributes.redrive.as_ref().filter(|it| it.queue != retry.arn);
    if let Some(Redrive { queue, receives_max }) = before {
        // Into another retry queue of its own handler, its messages go astray, which --replace ends.
        if let Some(handler) = retry_queues.get(queue).filter(|it| *it != facts.handler.name()) {
            let (queue, handler) = (last(queue).to_owned(), handler.clone());
            return Err(Refusal::OtherSystem { queue, handler });
        }
        if !order.replace {
            let (name, queue) = (name.to_owned(), last(queue).to_owned());
            return Err(Refusal::HasDeadLetters { name, queue, receives: *receives_max });
        }
    }
    let mut plan = Plan { queue: retry.name().to_owned(), ..Plan::default() };
    plan.warnings = warnings(facts, attributes, before.is_some());
    let target = Target::Queue(source.clone());
    let mapped = facts
        .mappings
        .iter()
        .filter(|it| retry_queues.get(&it.queue).map(String::as_str) == Some(handler.name()));
    let mapped: Vec<_> = mapped.map(|it| last(&it.queue)).collect();
    let bind = Some(&mapped[..]);
    let settings = settings_with(handler, &target, retry.name(), bind, (None, None), None)?;
    let source_queue = facts.source_queue(attributes);
    let admission = admission(&handler.role, &source_queue)?;
    if Previous::read(&facts.tags, None).is_none() {
        let previous = Previous {
            queue: retry.name().to_owned(),
            retries: before.and_then(|it| u32::try_from(it.receives_max).ok()),
            on_failure: before.map(|it| it.queue.clone()),
            settings: settings.is_listed,
            policy: admission.is_some(),
            ..Previous::default()
        };
        let (resource, tags) = (source.to_string(), previous.tags(None));
        plan.add(Step::Tag { resource, tags }, "no tag", previous.to_string());
    }
    create(&mut plan, facts, attributes, &dead_letters);
    let policy = policy_name("queue", name, None);
    plan.allow(&facts.policy, &handler.role, &policy, document(facts, &source_queue))?;
    plan.admit(&facts.url, &handler.role, admission);
    plan.set(handler, settings.variables);
    if facts.mapping().is_none() {
        let (function, queue) = (handler.name().to_owned(), retry.arn.clone());
        plan.add(
            Step::Map { function, queue },
            "no mapping",
            "batches of 10, ReportBatchItemFailures",
        );
    }
    for (function, may_loop) in &facts.consumers {
        plan.allow_loop(function, may_loop)?;
    }
    let own = attributes.redrive.as_ref().filter(|it| it.queue == retry.arn);
    let receives_max = order.max_receives.or(own.map(|it| it.receives_max)).unwrap_or(1);
    redrive(&mut plan, facts, attributes, Some(Redrive { queue: retry.arn.clone(), receives_max }));
    Ok(plan)
}

/// Creates the retry queue, or lets SQS move the source queue's messages to the one that exists.
fn create(plan: &mut Plan, facts: &QueueFacts, source: &QueueAttributes, dead_letters: &str) {
    let QueueFacts { handler, retry, .. } = facts;
    let arn = facts.source.to_string();
    if facts.exists {
        let Some(mut sources) = retry.attributes.sources() else {
            let warning = format!(
                "{} accepts messages of any queue: comeback doctor has the command that ends it",
                retry.name()
            );
            plan.warnings.push(warning);
            return;
        };
        if sources.contains(&arn) {
            return;
        }
        let is = format!("lets {} move messages here", named(&sources));
        sources.push(arn);
        let becomes = format!("lets {} move messages here", named(&sources));
        let (url, value) = (retry.url.clone(), QueueAttributes::allowing(&sources));
        let attribute = "RedriveAllowPolicy";
        plan.add(Step::QueueAttribute { url, attribute, value }, is, becomes);
        return;
    }
    let redrive = Redrive { queue: dead_letters.to_owned(), receives_max: RECEIVES };
    let visibility = handler.timeout * VISIBILITY_PER_TIMEOUT;
    let attributes = [
        ("RedriveAllowPolicy", QueueAttributes::allowing(&[arn])),
        ("RedrivePolicy", redrive.policy()),
        ("VisibilityTimeout", visibility.as_secs().to_string()),
        ("MessageRetentionPeriod", RETENTION.as_secs().to_string()),
        ("MaximumMessageSize", SIZE_MAX.to_string()),
    ];
    let key = source.key.clone().map(|key| ("KmsMasterKeyId", key));
    let name = retry.name().to_owned();
    let becomes = format!(
        "messages of {} only, kept for {}, then {}",
        facts.source.name(),
        exact_span(RETENTION),
        last(dead_letters)
    );
    let step =
        Step::Create { queue: name, attributes: attributes.into_iter().chain(key).collect() };
    plan.add(step, "no queue", becomes);
}

fn named(arns: &[String]) -> String {
    if arns.is_empty() {
        return "no queue".to_owned();
    }
    arns.iter().map(|arn| last(arn)).collect::<Vec<_>>().join(", ")
}

/// The policy that lets the handler receive from the retry queue, send to the source queue, and use its key.
fn document(facts: &QueueFacts, source: &RetryQueue) -> String {
    let mut statements = send_statements(&facts.handler.arn, source);
    statements.push(json!({
        "Effect": "Allow", "Action": ACTIONS_ON_RETRY_QUEUE, "Resource": facts.retry.arn,
    }));
    policy_of(&statements)
}

fn redrive(plan: &mut Plan, facts: &QueueFacts, is: &QueueAttributes, becomes: Option<Redrive>) {
    if is.redrive == becomes {
        return;
    }
    let says = |redrive: &Option<Redrive>| match redrive {
        Some(Redrive { queue, receives_max: 1 }) => format!("to {} after 1 receive", last(queue)),
        Some(it) => format!("to {} after {} receives", last(&it.queue), it.receives_max),
        None => "no dead-letter queue".to_owned(),
    };
    let value = becomes.as_ref().map_or(String::new(), Redrive::policy);
    let step = Step::QueueAttribute { url: facts.url.clone(), attribute: "RedrivePolicy", value };
    plan.add(step, says(&is.redrive), says(&becomes));
}

fn warnings(facts: &QueueFacts, attributes: &QueueAttributes, replaces: bool) -> Vec<String> {
    let (name, handler) = (facts.source.name(), facts.handler.name());
    let managed = [
        managed(&facts.tags, name, "this"),
        managed(&facts.handler_tags, handler, "changes of the handler's variables"),
    ];
    let mut warnings: Vec<_> = managed.into_iter().flatten().collect();
    let QueueAttributes { visibility, retention, .. } = attributes;
    if *visibility >= VISIBILITY_LONG {
        warnings.push(format!(
            "the visibility timeout of {name} is {}: SQS moves a message only when it ends, so each failure is seen that much later",
            exact_span(*visibility)
        ));
    }
    if *retention < RETENTION {
        warnings.push(format!(
            "{name} keeps messages for {}, and SQS counts from when they were sent: set its retention to {}",
            exact_span(*retention),
            exact_span(RETENTION)
        ));
    }
    if let Some(old) = attributes.redrive.as_ref().filter(|_| replaces) {
        let (old, target) = (&old.queue, facts.source.target_name());
        warnings.push(if facts.retry_queues.contains_key(old) {
            format!(
                "its messages in {} become dead letters, because that queue is not bound to it: comeback dead list shows them",
                last(old)
            )
        } else {
            let old = last(old);
            format!("what is in {old} stays there: comeback dead redrive --queue {old} --to {target} sends it back")
        });
    }
    warnings
}

/// Plans to detach a queue. The first plan only restores its redrive policy: without mapping and binding, nobody would
/// receive a message that SQS has just moved. The rest is for a plan after the retry queue is empty.
pub fn detach_queue(facts: &QueueFacts) -> Result<Plan, Refusal> {
    let QueueFacts { handler, source, retry, .. } = facts;
    let before = Previous::read(&facts.tags, None)
        .ok_or_else(|| Refusal::QueueNotAttached(source.name().to_owned()))?;
    let mut plan = Plan { queue: before.queue.clone(), ..Plan::default() };
    let attributes = facts.attributes.clone().unwrap_or_default();
    let is_ours = attributes.redrive.as_ref().is_some_and(|it| it.queue == retry.arn);
    if is_ours {
        let old = before.on_failure.clone().zip(before.retries);
        let old = old.map(|(queue, receives)| Redrive { queue, receives_max: receives.into() });
        redrive(&mut plan, facts, &attributes, old);
    }
    plan.waiting = retry.attributes.messages();
    if is_ours && plan.waiting == 0 {
        plan.warnings.push(
            "SQS counts what it has moved a minute later: then run this again to remove the rest"
                .to_owned(),
        );
    }
    if is_ours || plan.waiting > 0 {
        return Ok(plan);
    }
    let others = queue_targets(&handler.environment).remove(retry.name()).unwrap_or_default();
    let is_alone = others.iter().all(|it| it == source.target_name());
    if let Some(mapping) = facts.mapping().filter(|_| is_alone) {
        let step = Step::Unmap { uuid: mapping.uuid.clone(), queue: retry.arn.clone() };
        plan.add(step, "a mapping", "no mapping");
    }
    let restored = Restored { unlist: before.settings, ..Restored::default() };
    let without = settings_without(handler, source.target_name(), retry.name(), restored);
    plan.set(handler, without);
    if before.policy {
        plan.unadmit(&facts.url, &handler.role, attributes.policy.as_deref());
    }
    let policy = policy_name("queue", source.name(), None);
    plan.disallow(&facts.policy, &handler.role, policy)?;
    if facts.exists && is_alone {
        plan.warnings.push(format!(
            "{} is kept: delete it when you are sure that it is empty, with aws sqs delete-queue --queue-url {}",
            retry.name(),
            retry.url
        ));
    }
    plan.untag(source.as_str(), &facts.tags, None, &before);
    Ok(plan)
}
