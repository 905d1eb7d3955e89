//! Reads a dead letter of ours that SQS has moved back. Its event starts over.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Unreadable, failed_at, undelivered::event_for};
use crate::{
    Timestamp,
    arn::{FunctionArn, QueueArn},
    attribute::Value,
    error_type::ErrorReport,
    failure::{Condition, Event, Failure, Wrapping},
    message::{Message, MessageAttributes},
    queued::{self, Queued},
    reason::Reason,
    settings::Policies,
    target::Target,
};

/// Whether the body of a dead letter with this reason is the message as received, which is read like any other message.
/// The body of every other letter is a payload, even if it looks like a failure record.
pub fn body_is_message(reason: &str) -> bool {
    [Reason::Unreadable, Reason::PayloadMissing, Reason::RecordGone]
        .iter()
        .any(|other| other.as_str() == reason)
}

/// Whether the message is a dead letter of ours that was moved back, with an event to start over.
pub(super) fn is_redriven(message: &Message) -> bool {
    message.attributes.reason.is_some_and(|reason| !body_is_message(reason))
}

/// Whether the message is such a dead letter, whose payload is known to be the function's own.
pub(super) fn has_no_envelope(message: &Message) -> bool {
    is_redriven(message) && message.attributes.no_envelope.is_some()
}

/// What the attributes of a redriven dead letter say.
struct Redriven {
    request_id: String,
    failed_at: Timestamp,
    condition: Condition,
    error: ErrorReport,
}

impl Redriven {
    fn of(message: &Message) -> Result<Self, Unreadable> {
        let MessageAttributes { request_id, error_type, error_message, .. } = message.attributes;
        Ok(Self {
            request_id: super::request_id(message, request_id),
            failed_at: failed_at(message, None)?,
            condition: Condition::Redriven { message_id: message.first_id().to_owned() },
            error: ErrorReport {
                error_type: error_type.map(str::to_owned),
                message: error_message.map(str::to_owned),
            },
        })
    }
}

pub(super) fn redriven<'a>(
    message: &Message<'a>,
    policies: &Policies,
) -> Result<Failure<'a>, Unreadable> {
    let is_truncated = message.attributes.reason == Some(Reason::PayloadTruncated.as_str());
    let (target, event) = match queue_letter(message)? {
        Some((queue, _)) if is_truncated => (Target::Queue(queue), Event::Truncated(message.body)),
        Some((queue, queued)) => (Target::Queue(queue), Event::Queued(queued)),
        None => function_letter(message, policies, is_truncated)?,
    };
    let undelivered_by = message.attributes.source_arn.map(str::to_owned);
    let Redriven { request_id, failed_at, condition, error } = Redriven::of(message)?;
    Ok(Failure {
        is_transparent: !target.is_queue()
            && undelivered_by.is_none()
            && policies.of(target.name()).transparent,
        target,
        request_id,
        failed_at,
        condition,
        error,
        event: Some(event),
        undelivered_by,
        wrapping: if has_no_envelope(message) { Wrapping::Own } else { Wrapping::AsItLooks },
    })
}

fn function_letter<'a>(
    message: &Message<'a>,
    policies: &Policies,
    is_truncated: bool,
) -> Result<(Target, Event<'a>), Unreadable> {
    let MessageAttributes { function_arn, source_arn, .. } = message.attributes;
    let function = function_arn.and_then(FunctionArn::parse).ok_or(Unreadable::NoLetterFunction)?;
    if source_arn.is_some() || is_truncated {
        let target = Target::Function(function);
        let event = event_for(&target, message.body, is_truncated)?;
        return Ok((target, event));
    }
    let payload: &RawValue = serde_json::from_str(message.body).map_err(|_| Unreadable::NoEvent)?;
    if has_no_envelope(message) {
        return Ok((Target::Function(function), Event::Fresh(Cow::Borrowed(payload))));
    }
    // Our letters contain no envelope, but those of another program may. Their events start over too.
    let event = Event::read(payload, policies.of(function.name())).started_over();
    Ok((Target::Function(function), event))
}

/// The dead letter of a queue's message: the queue, and the message as its producer sent it.
fn queue_letter<'a>(message: &Message<'a>) -> Result<Option<(QueueArn, Queued<'a>)>, Unreadable> {
    let MessageAttributes { function_arn, source_queue_arn, all, .. } = &message.attributes;
    let queue = source_queue_arn.filter(|_| function_arn.is_none()).and_then(QueueArn::parse);
    let Some(queue) = queue else { return Ok(None) };
    let own = all.iter().find(|it| it.name == queued::ORIGINAL_ATTRIBUTES);
    let attributes = match own.map(|it| &it.value) {
        Some(Value::Text(json)) => queued::read_attributes(json),
        Some(Value::Binary(_)) => None,
        None => Some(Vec::new()),
    };
    let attributes = attributes.ok_or(Unreadable::NoLetterAttributes)?;
    Ok(Some((queue, Queued::fresh(message.body.into(), attributes))))
}

/// The event of a dead letter that leaves its payload in the bucket, from the start.
pub(super) fn restarted<'a>(
    failure: Failure<'a>,
    message: &Message,
) -> Result<Failure<'a>, Unreadable> {
    if message.attributes.function_arn != Some(failure.target.as_str()) {
        return Err(Unreadable::OtherFunction);
    }
    let Redriven { request_id, failed_at, condition, error } = Redriven::of(message)?;
    // A letter of the whole batch has the id of the batch. The record knows that of each part.
    let is_of_batch = failure.condition == Condition::OfBatch;
    let request_id = if is_of_batch { failure.request_id } else { request_id };
    let event = failure.event.map(Event::started_over);
    let wrapping = failure.wrapping.without_payload();
    Ok(Failure { request_id, failed_at, condition, error, event, wrapping, ..failure })
}
