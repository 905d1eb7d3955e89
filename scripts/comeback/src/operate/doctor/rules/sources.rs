//! Examines the queues whose messages are retried if their consumers fail.

use std::time::Duration;

use serde_json::json;

use crate::operate::{
    doctor::rules::{
        Examined, Facts, Fix, Redrive, RetryQueue, Source,
        queues::{RETENTION, existing},
        span,
    },
    rules::{
        last,
        queue_policy::{Effect, ask},
    },
};

/// From this visibility timeout on, a failure is seen late.
pub const VISIBILITY_LONG: Duration = Duration::from_hours(1);

/// With more receives, most failures are over before the first backoff.
const RECEIVES_MAX: u64 = 10;

pub(super) fn examine(facts: &Facts, source: &Source) -> Examined {
    let Source { queue, consumers, denied, .. } = source;
    let name = queue.name();
    let mut it = Examined::new(format!("queue {name}"));
    let attach = |option: &str| Fix::ByHand(format!("comeback attach --queue {name}{option}"));
    let Some(attributes) = existing(&mut it, queue, "source_missing") else { return it };
    match &attributes.redrive {
        None => {
            it.bad("source_redrive_missing", "it has no redrive policy")
                .why("Messages that its consumer can't process don't come back with backoff.")
                .fix(attach(""));
        }
        Some(Redrive { queue: to, receives_max }) => {
            let is_retry_queue = |it: &&RetryQueue| it.queue.arn == *to;
            let is_bound = source.bound.is_empty() || source.bound.contains(to);
            match facts.queues.iter().find(is_retry_queue).filter(|_| is_bound) {
                Some(retry) => admission(&mut it, source, retry),
                None => {
                    let says = format!("its redrive policy names {}", last(to));
                    it.bad("source_redrive_elsewhere", says)
                        .why("Messages that its consumer can't process don't come back with backoff.")
                        .fix(attach(" --replace"));
                }
            }
            if *receives_max > RECEIVES_MAX {
                let says = format!("SQS moves its messages after {receives_max} receives");
                it.warn("source_receives_many", says)
                    .why("Each of them is a retry without backoff.")
                    .fix(attach(" --max-receives 3"));
            }
        }
    }
    for (function, may_loop) in consumers {
        if it.known(may_loop) == Some(&false) {
            let says = format!("the RecursiveLoop of its consumer {function} is Terminate");
            it.bad("consumer_loop_stopped", says)
                .why("Lambda drops a message at about its 16th return, and SQS moves it as after a failure.")
                .fix(Fix::Loop { function: function.clone() });
        }
    }
    let (send, role) = ("sqs:SendMessage", &facts.handler.role);
    if ask(attributes.policy.as_deref().unwrap_or_default(), role, send) == Effect::Deny {
        it.bad("source_denies_handler", format!("its policy denies the handler's role {send}"))
            .why("Its messages wait until they are given up.");
    }
    for (action, resource) in it.known(denied).into_iter().flatten() {
        let says = format!("the handler's role lacks {action} on {resource}");
        let purpose = format!("{}-{name}", action.replace(':', "-"));
        let resources = std::slice::from_ref(resource);
        it.bad("handler_may_not_send_back", says)
            .why("Its messages wait until they are given up.")
            .fix(Fix::allow(facts.handler.role_name(), &purpose, &[action], resources));
    }
    if attributes.visibility >= VISIBILITY_LONG {
        let says = format!("its visibility timeout is {}", span(attributes.visibility));
        it.warn("source_visibility_long", says)
            .why("SQS moves a message only when it ends, so each failure is seen that much later.");
    }
    if attributes.retention < RETENTION {
        let says = format!("it keeps messages for {}", span(attributes.retention));
        let value = RETENTION.as_secs().to_string();
        let fix = Fix::Queue { url: queue.url.clone(), attribute: "MessageRetentionPeriod", value };
        it.warn("source_retention_short", says)
            .why("SQS counts from when a message was sent to it, and deletes what its consumer doesn't reach.")
            .fix(Fix::ByHand(fix.command()));
    }
    let to = attributes.redrive.as_ref().map_or("", |it| last(&it.queue));
    it.good = format!(
        "its messages come back by {to}, visibility timeout {}",
        span(attributes.visibility)
    );
    it
}

/// Whether SQS may move this queue's messages, and only those, to the retry queue.
fn admission(it: &mut Examined, source: &Source, retry: &RetryQueue) {
    let Ok(Some(attributes)) = &retry.queue.attributes else { return };
    let name = retry.queue.name();
    let value = json!({ "redrivePermission": "byQueue", "sourceQueueArns": [source.queue.arn] });
    let fix = || Fix::Queue {
        url: retry.queue.url.clone(),
        attribute: "RedriveAllowPolicy",
        value: value.to_string(),
    };
    match attributes.sources() {
        None => it
            .warn("retry_queue_open", format!("{name} accepts messages of any queue"))
            .why("Who owns another queue can have its messages moved there; they become dead letters.")
            .fix(Fix::ByHand(fix().command())),
        Some(sources) if !sources.contains(&source.queue.arn) => {
            let says = format!("the redrive-allow policy of {name} doesn't name it");
            it.bad("retry_queue_refuses", says)
                .why("SQS doesn't move its messages there.")
                .fix(Fix::ByHand(format!("comeback attach --queue {}", source.queue.name())));
        }
        Some(_) => {}
    }
}
