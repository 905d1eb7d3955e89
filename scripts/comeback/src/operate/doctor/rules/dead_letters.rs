//! Examines the dead-letter queue.

use std::time::Duration;

use crate::{
    account::{names::last, policy::Effect, setup::RETENTION},
    operate::doctor::rules::{
        facts::Facts,
        finding::Examined,
        fix::set,
        kinds,
        metric::Metric,
        queue::{existing, public, size},
    },
    text::{exact_span, letters},
};

/// How long before SQS deletes a dead letter the operator is warned.
const NOTICE: Duration = Duration::from_hours(3 * 24);

pub fn dead_letters(facts: &Facts) -> Examined {
    let queue = &facts.dead_letters;
    let mut it = Examined::new(format!("dead-letter queue {}", queue.name()));
    if let Some(denied) = it.known(&facts.dead_letters_denied).filter(|denied| !denied.is_empty()) {
        let says = format!("the handler's role lacks {}", denied.join(", "));
        let role = facts.handler.role_name();
        it.found(kinds::HANDLER_LACKS_DEAD_LETTERS, says).allow(
            role,
            "dead-letters",
            &["sqs:SendMessage"],
            &[&queue.arn],
        );
    }
    let retry_queues = || facts.queues.iter().map(|retry| &retry.queue.arn);
    if retry_queues().any(|arn| *arn == queue.arn) {
        let finding = it.found(kinds::DEAD_LETTERS_ARE_RETRIED, "it is the retry queue");
        let mapping = facts.mappings.iter().flatten().find(|it| it.queue == queue.arn);
        if let Some(uuid) = mapping.map(|mapping| &mapping.uuid) {
            finding.by_hand(format!("aws lambda delete-event-source-mapping --uuid {uuid}"));
        }
    }
    let Some(attributes) = existing(&mut it, queue, kinds::DEAD_LETTER_QUEUE_MISSING) else {
        return it;
    };
    if let Some(to) = attributes.redrive.as_ref().map(|it| &it.queue)
        && retry_queues().any(|arn| arn == to)
    {
        it.found(
            kinds::DEAD_LETTERS_RETURN,
            format!("its redrive policy moves letters to the retry queue {}", last(to)),
        );
    }
    size(&mut it, queue, attributes);
    public(&mut it, queue, attributes);
    if attributes.effect(&facts.handler.role, "sqs:SendMessage") == Effect::Deny {
        it.found(
            kinds::DEAD_LETTERS_DENY_HANDLER,
            "its policy denies the handler's role sqs:SendMessage",
        );
    }
    if attributes.retention < RETENTION {
        let says = format!(
            "it keeps letters for {}, and not for {}",
            exact_span(attributes.retention),
            exact_span(RETENTION)
        );
        it.found(kinds::DEAD_LETTER_RETENTION, says).fix(set(
            queue,
            "MessageRetentionPeriod",
            RETENTION.as_secs(),
        ));
    }
    let oldest = Duration::from_secs(facts.metric(Metric::OLDEST_MESSAGE, queue.name()) as u64);
    let command = facts.command("dead list --group-by reason,error");
    let count = attributes.messages();
    let letters = letters(count);
    if count > 0 && oldest + NOTICE > attributes.retention {
        it.found(
            kinds::DEAD_LETTERS_EXPIRE,
            format!("{letters}, the oldest {} old", rough(oldest)),
        )
        .by_hand(command);
    } else if count > 0 {
        let age = if oldest.is_zero() {
            String::new()
        } else {
            format!(", the oldest {} old", rough(oldest))
        };
        it.found(kinds::DEAD_LETTERS, format!("{letters}{age}")).by_hand(command);
    }
    it.good = format!("no letters, retention {}", exact_span(attributes.retention));
    it
}

/// Formats a duration in days, hours or minutes, rounded down.
fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let unit = [86_400, 3_600].into_iter().find(|unit| seconds >= *unit).unwrap_or(60);
    exact_span(Duration::from_secs(seconds / unit * unit))
}
