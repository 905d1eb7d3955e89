//! Examines the retry queues.

use std::time::Duration;

use comeback_core::{
    arn::is_url_of,
    in_flight::{IN_FLIGHT_MAX, QUOTA},
    settings::Settings,
};

use crate::{
    account::{
        names::{last, queue_arn},
        policy::Effect,
        queue::{Queue, QueueAttributes, Redrive},
        setup::{
            ACTIONS_ON_RETRY_QUEUE, RECEIVES, RETENTION, VISIBILITY_LONG, VISIBILITY_PER_TIMEOUT,
        },
    },
    operate::doctor::rules::{
        facts::{Facts, RetryQueue},
        finding::Examined,
        fix::{set, word},
        kinds,
        queue::{existing, public, size},
        role::{Role, is_named},
    },
    text::{counted, exact_span},
};

pub fn examine_queue(facts: &Facts, queue: &RetryQueue) -> Examined {
    let settings = facts.handler.settings().ok();
    let settings = settings.as_ref();
    let RetryQueue { queue, denied, other_consumers, moved_from } = queue;
    let name = queue.name();
    let mut it = Examined::new(format!("retry queue {name}"));
    let Some(attributes) = existing(&mut it, queue, kinds::RETRY_QUEUE_MISSING) else { return it };
    it.good = format!(
        "visibility timeout {}, retention {}, {} messages, {} of them in flight",
        exact_span(attributes.visibility),
        exact_span(attributes.retention),
        attributes.messages(),
        attributes.in_flight
    );
    if Role::of(facts, &queue.arn) == Role::Unbound {
        it.found(kinds::QUEUE_UNBOUND, "QUEUE_TARGETS does not name it");
        // It may be somebody's queue of another kind, so nothing else is expected of it.
        return it;
    }
    visibility(&mut it, facts.handler.timeout, queue, attributes);
    retention(&mut it, facts.age_max(), queue, attributes);
    size(&mut it, queue, attributes);
    if let Some(url) = settings
        .and_then(|it| it.retry_queue_url.as_deref())
        .filter(|url| !is_url_of(url, &queue.arn))
    {
        it.found(
            kinds::RETRY_QUEUE_URL_WRONG,
            format!("RETRY_QUEUE_URL is {url}, and the handler receives from this queue"),
        );
    }
    redrive(&mut it, &facts.dead_letters.arn, queue, attributes);
    if !attributes.delay.is_zero() {
        it.found(
            kinds::QUEUE_DELAYS,
            format!("it delays each message by {}", exact_span(attributes.delay)),
        )
        .fix(set(queue, "DelaySeconds", 0));
    }
    in_flight(&mut it, settings, attributes);
    for consumer in other_consumers {
        it.found(kinds::QUEUE_SHARED, format!("{consumer} receives from it, too"));
    }
    public(&mut it, queue, attributes);
    let home = &facts.handler;
    let is_source = |it: &&String| is_named(home, &queue_arn(it, &home.arn));
    for source in it.known(moved_from).into_iter().flatten().filter(|it| !is_source(it)) {
        it.found(
            kinds::SOURCE_UNBOUND,
            format!("SQS moves messages of {source} here, which no setting names"),
        )
        .by_hand(facts.command(&format!("attach --queue {} --retry-queue {name}", word(source))));
    }
    let handler = &facts.handler.role;
    let is_closed = |action: &&str| attributes.effect(handler, action) == Effect::Deny;
    let closed: Vec<_> = ACTIONS_ON_RETRY_QUEUE.into_iter().filter(is_closed).collect();
    if !closed.is_empty() {
        let says = format!("its policy denies the handler's role {}", closed.join(", "));
        it.found(kinds::QUEUE_DENIES_HANDLER, says);
    }
    let role = facts.handler.role_name();
    if let Some(denied) = it.known(denied).filter(|denied| !denied.is_empty()) {
        it.found(
            kinds::HANDLER_LACKS_QUEUE,
            format!("the handler's role lacks {}", denied.join(", ")),
        )
        .allow(role, &format!("queue-{name}"), &ACTIONS_ON_RETRY_QUEUE, &[&queue.arn]);
    }
    it
}

fn visibility(it: &mut Examined, timeout: Duration, queue: &Queue, attributes: &QueueAttributes) {
    let expected = timeout * VISIBILITY_PER_TIMEOUT;
    let visibility = attributes.visibility;
    let says = format!(
        "its visibility timeout is {}, and six times the handler's time-out is {}",
        exact_span(visibility),
        exact_span(expected)
    );
    let finding = if visibility < timeout {
        it.found(kinds::VISIBILITY_SHORT, says)
    } else if visibility < expected {
        it.found(kinds::VISIBILITY_SHORT, says)
            .only_warns()
            .why("Throttled batches may be delivered twice.")
    } else if visibility > expected.max(VISIBILITY_LONG) {
        it.found(kinds::VISIBILITY_LONG, says)
    } else {
        return;
    };
    finding.fix(set(queue, "VisibilityTimeout", expected.as_secs()));
}

fn retention(it: &mut Examined, longest: Duration, queue: &Queue, attributes: &QueueAttributes) {
    let retention = attributes.retention;
    if retention >= RETENTION {
        return;
    }
    let says = format!(
        "it keeps messages for {}, and not for {}",
        exact_span(retention),
        exact_span(RETENTION)
    );
    let finding = if retention < longest {
        it.found(kinds::RETENTION_SHORT, says)
    } else {
        it.found(kinds::RETENTION_SHORT, says)
            .only_warns()
            .why("If the handler stops for longer, SQS deletes what waits.")
    };
    finding.fix(set(queue, "MessageRetentionPeriod", RETENTION.as_secs()));
}

fn redrive(it: &mut Examined, dead_letters: &str, queue: &Queue, attributes: &QueueAttributes) {
    let expected = Redrive { queue: dead_letters.to_owned(), receives_max: RECEIVES };
    let fix = || set(queue, "RedrivePolicy", expected.policy());
    match &attributes.redrive {
        None => it.found(kinds::REDRIVE_MISSING, "it has no redrive policy").fix(fix()),
        Some(redrive) if redrive.receives_max < RECEIVES => {
            let receives = counted(redrive.receives_max, "receive");
            let says =
                format!("SQS moves messages away after {receives}, and not after {RECEIVES}");
            let finding = it.found(kinds::RECEIVES_FEW, says);
            // Somebody else's queue may be where its messages should go.
            if redrive.queue == dead_letters {
                finding.fix(fix());
            } else {
                finding.by_hand(fix().command());
            }
        }
        Some(redrive) if redrive.queue != dead_letters => {
            it.found(
                kinds::REDRIVE_ELSEWHERE,
                format!("SQS moves messages to {}", last(&redrive.queue)),
            );
        }
        Some(_) => {}
    }
}

fn in_flight(it: &mut Examined, settings: Option<&Settings>, attributes: &QueueAttributes) {
    let max = settings.map_or(IN_FLIGHT_MAX, |settings| settings.in_flight_max).get();
    let count = attributes.in_flight;
    if count >= u64::from(QUOTA) {
        let says = format!(
            "{count} messages are in flight, and SQS's quota is {QUOTA} unless AWS raised it"
        );
        it.found(kinds::IN_FLIGHT_QUOTA, says);
    } else if count >= u64::from(max) {
        let says = format!("{count} messages are in flight, and IN_FLIGHT_MAX is {max}");
        it.found(kinds::IN_FLIGHT_FULL, says);
    }
}
