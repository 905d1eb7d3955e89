//! Examines the queues whose messages are retried, and the functions that receive from them.

use std::time::Duration;

use comeback_core::time::between;

use crate::{
    account::{
        names::last,
        policy::Effect,
        queue::{QueueAttributes, Redrive},
        sender::dead_letters,
        setup::{RETENTION, VISIBILITY_LONG, VISIBILITY_PER_TIMEOUT},
    },
    operate::doctor::rules::{
        facts::{Consumer, Delivery, Facts, RetryQueue, Source},
        finding::Examined,
        fix::{Fix, set, word},
        kinds,
        metric::Metric,
        queue::existing,
        running::state,
    },
    text::{counted, exact_span},
};

/// With more receives, most failures are over before the first backoff.
const RECEIVES_MAX: u64 = 10;

/// From this delay on, each new message comes late. A shorter one may be meant to spread the load.
const DELAY_LONG: Duration = Duration::from_mins(1);

/// CloudWatch has the first receives of a queue this long after they began, at the latest. Until then nobody knows
/// whether a program of your own receives from a new queue.
const NEW: Duration = Duration::from_mins(15);

/// The largest message of a queue by SQS's default until 2025, in bytes.
const SIZE_USUAL: u64 = 262_144;

pub fn examine_source(facts: &Facts, source: &Source) -> Examined {
    let Source { queue, consumers, denied, .. } = source;
    let name = queue.name();
    let mut it = Examined::new(format!("queue {name}"));
    let Some(attributes) = existing(&mut it, queue, kinds::SOURCE_MISSING) else { return it };
    redrive(&mut it, facts, source, attributes);
    if consumers.is_empty() {
        unconsumed(&mut it, facts, name, attributes);
    }
    times(&mut it, source, attributes);
    if let Some(max) = attributes.size_max.filter(|max| *max < SIZE_USUAL) {
        let fix = set(queue, "MaximumMessageSize", SIZE_USUAL);
        it.found(kinds::SOURCE_MESSAGES_SMALL, format!("it takes messages of {max} bytes"))
            .by_hand(fix.command());
    }
    let (send, role) = ("sqs:SendMessage", &facts.handler.role);
    if attributes.effect(role, send) == Effect::Deny {
        it.found(
            kinds::SOURCE_DENIES_HANDLER,
            format!("its policy denies the handler's role {send}"),
        );
    }
    for (action, resource) in it.known(denied).into_iter().flatten() {
        let says = format!("the handler's role lacks {action} on {resource}");
        let purpose = format!("{}-{name}", action.replace(':', "-"));
        it.found(kinds::HANDLER_MAY_NOT_SEND_BACK, says).allow(
            facts.handler.role_name(),
            &purpose,
            &[action],
            &[resource],
        );
    }
    let to = attributes.redrive.as_ref().map_or("", |it| last(&it.queue));
    it.good = format!(
        "its messages come back by {to}, visibility timeout {}",
        exact_span(attributes.visibility)
    );
    it
}

/// Examines where SQS moves what the queue's consumer can't process.
fn redrive(it: &mut Examined, facts: &Facts, source: &Source, attributes: &QueueAttributes) {
    let attach = |option: &str| {
        Fix::ByHand(facts.command(&format!("attach --queue {}{option}", source.queue.name())))
    };
    let Some(Redrive { queue: to, receives_max }) = &attributes.redrive else {
        // It may be bound only to have events that could not be delivered to it.
        let is_delivered = |it: &Delivery| {
            it.target["Arn"] == *source.queue.arn
                && dead_letters(&it.target).is_some_and(|dead| source.bound.contains(dead))
        };
        if facts.deliveries.iter().flatten().any(is_delivered) {
            return;
        }
        it.found(kinds::SOURCE_REDRIVE_MISSING, "it has no redrive policy").fix(attach(""));
        return;
    };
    let is_retry_queue = |it: &&RetryQueue| it.queue.arn == *to;
    let is_bound = source.bound.is_empty() || source.bound.contains(to);
    if let Some(retry) = facts.queues.iter().find(is_retry_queue).filter(|_| is_bound) {
        admission(it, facts, source, retry);
    } else if let Some(other) = facts.queues_of_others.get(to) {
        let says =
            format!("its redrive policy names {}, a retry queue of the handler {other}", last(to));
        it.found(kinds::SOURCE_REDRIVE_ELSEWHERE, says)
            .why("Only one handler can retry its messages: take it out of the other's settings, or of this one's.");
    } else {
        let says = format!("its redrive policy names {}", last(to));
        it.found(kinds::SOURCE_REDRIVE_ELSEWHERE, says).fix(attach(" --replace"));
    }
    if *receives_max > RECEIVES_MAX {
        let says = format!("SQS moves its messages after {receives_max} receives");
        it.found(kinds::SOURCE_RECEIVES_MANY, says).fix(attach(" --max-receives 3"));
    }
}

/// Reports a queue that no function and nobody else receives from. A program of your own, such as a container, is known
/// by its receives.
fn unconsumed(it: &mut Examined, facts: &Facts, name: &str, attributes: &QueueAttributes) {
    let is_received = Metric::OF_SOURCE.iter().any(|metric| facts.counted(*metric, name).is_some());
    let is_new = attributes.created_at.is_some_and(|at| between(at, facts.now) < NEW);
    if facts.mappings.is_err() || facts.metrics.is_err() || is_received || is_new {
        return;
    }
    let says = "no function has a mapping of it, and nobody received from it in the last day";
    let waiting = attributes.messages();
    let finding = if waiting > 0 {
        let says = format!("{says}: it has {}", counted(waiting, "message"));
        it.found(kinds::SOURCE_UNCONSUMED, says)
    } else {
        it.found(kinds::SOURCE_UNCONSUMED, says).only_warns()
    };
    finding.by_hand(format!(
        "aws lambda create-event-source-mapping --function-name CONSUMER --event-source-arn {} \
             --function-response-types ReportBatchItemFailures",
        word(&facts.handler.arn_of(&format!("sqs:{name}")))
    ));
}

/// Examines how long SQS hides, delays and keeps the messages.
fn times(it: &mut Examined, source: &Source, attributes: &QueueAttributes) {
    let Source { queue, consumers, .. } = source;
    let QueueAttributes { visibility, delay, retention, .. } = *attributes;
    let timeouts = consumers.iter().filter_map(|consumer| {
        let (function, _) = consumer.function.as_ref()?;
        Some((function.timeout, consumer.mapping.window, function.name()))
    });
    if let Some((timeout, window, consumer)) = timeouts.max().filter(|it| visibility < it.0) {
        let expected = timeout * VISIBILITY_PER_TIMEOUT + window;
        let says = format!(
            "its visibility timeout is {}, and the time-out of {consumer} is {}",
            exact_span(visibility),
            exact_span(timeout)
        );
        it.found(kinds::SOURCE_VISIBILITY_SHORT, says)
            .by_hand(set(queue, "VisibilityTimeout", expected.as_secs()).command());
    } else if visibility >= VISIBILITY_LONG {
        let says = format!("its visibility timeout is {}", exact_span(visibility));
        it.found(kinds::SOURCE_VISIBILITY_LONG, says);
    }
    if delay >= DELAY_LONG {
        let says = format!("it delays each new message by {}", exact_span(delay));
        it.found(kinds::SOURCE_DELAYS, says).by_hand(set(queue, "DelaySeconds", 0).command());
    }
    if retention < RETENTION {
        let says = format!("it keeps messages for {}", exact_span(retention));
        let fix = set(queue, "MessageRetentionPeriod", RETENTION.as_secs());
        it.found(kinds::SOURCE_RETENTION_SHORT, says).by_hand(fix.command());
    }
}

/// Whether SQS may move this queue's messages, and only those, to the retry queue.
fn admission(it: &mut Examined, facts: &Facts, source: &Source, retry: &RetryQueue) {
    let Ok(Some(attributes)) = &retry.queue.attributes else { return };
    let name = retry.queue.name();
    match attributes.sources() {
        None => {
            let value = QueueAttributes::allowing(std::slice::from_ref(&source.queue.arn));
            let fix = set(&retry.queue, "RedriveAllowPolicy", value);
            it.found(kinds::RETRY_QUEUE_OPEN, format!("{name} accepts messages of any queue"))
                .by_hand(fix.command());
        }
        Some(sources) if !sources.contains(&source.queue.arn) => {
            let says = format!("the redrive-allow policy of {name} doesn't name it");
            it.found(kinds::RETRY_QUEUE_REFUSES, says)
                .by_hand(facts.command(&format!("attach --queue {}", source.queue.name())));
        }
        Some(_) => {}
    }
}

/// Examines a function that receives from a queue whose messages are retried.
pub fn examine_consumer(source: &Source, consumer: &Consumer) -> Examined {
    let Consumer { mapping, function } = consumer;
    let (name, queue) = (mapping.consumer(), source.queue.name());
    let mut it = Examined::new(format!("consumer {name} of {queue}"));
    let update = |change: &str| {
        format!("aws lambda update-event-source-mapping --uuid {} {change}", mapping.uuid)
    };
    if !mapping.is_enabled() {
        let says = format!("its mapping of the queue is {}", mapping.state.to_lowercase());
        let others = || source.consumers.iter().filter(|it| it.mapping.is_enabled());
        let finding = if others().next().is_none() {
            it.found(kinds::CONSUMER_DISABLED, says)
        } else {
            it.found(kinds::CONSUMER_DISABLED, says)
                .only_warns()
                .why("Only its other consumers receive from the queue.")
        };
        // A mapping that is being deleted can't be enabled any more.
        if mapping.state != "Deleting" {
            finding.by_hand(update("--enabled"));
        }
    }
    let Some((_, running)) = function else {
        it.found(
            kinds::CONSUMER_MISSING,
            "there is no such function, though it has a mapping of the queue",
        )
        .by_hand(format!("aws lambda delete-event-source-mapping --uuid {}", mapping.uuid));
        return it;
    };
    state(&mut it, running, kinds::CONSUMER_INACTIVE);
    if it.known(&running.reserved) == Some(&Some(0)) {
        it.found(kinds::CONSUMER_PAUSED, "its reserved concurrency is 0")
            .by_hand(format!("aws lambda delete-function-concurrency --function-name {name}"));
    }
    if it.known(&running.may_loop) == Some(&false) {
        it.found(kinds::CONSUMER_LOOP_STOPPED, "its RecursiveLoop is Terminate")
            .fix(Fix::Loop { function: name.to_owned() });
    }
    if !mapping.reports_failures {
        it.found(kinds::CONSUMER_REPORTS_NOTHING, "its mapping lacks ReportBatchItemFailures")
            .by_hand(update("--function-response-types ReportBatchItemFailures"));
    }
    if let Some(problem) = mapping.last_result.as_ref().filter(|it| it.starts_with("PROBLEM")) {
        it.found(kinds::CONSUMER_FAILING, problem.clone());
    }
    it.good = format!("its mapping is enabled, batches of {}", mapping.batch_size);
    it
}
