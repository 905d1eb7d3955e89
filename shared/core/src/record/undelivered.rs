//! Reads an event that EventBridge or EventBridge Scheduler could not deliver to a target.
//!
//! A target of a rule, or that of a schedule, can have a dead-letter queue. What lies there:
//!
//! | source | `TARGET_ARN` | body |
//! |---|---|---|
//! | rule | the function or the queue | the event, as it was before an input transformer |
//! | schedule | the function or the queue | the input |
//! | schedule | `arn:aws:scheduler:::aws-sdk:lambda:invoke` | the request: `FunctionName`, `Payload` |
//! | schedule | `arn:aws:scheduler:::aws-sdk:sqs:sendMessage` | the request: `QueueUrl`, `MessageBody` |
//! | custom bus | the function or the queue | which events it were, without their payloads |
//!
//! Scheduler's guide shows the last form and says that `TARGET_ARN` is always an API. Whether that is so if a schedule
//! names a function or a queue by its own ARN was never recorded. So all forms are read.
//!
//! Anybody who may send to the queue can write these attributes. So the queue has to be bound to the target.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Unreadable, failed_at};
use crate::{
    arn::{FunctionArn, Home},
    attribute::is_accepted,
    dead_letter::beginning,
    error_type::ErrorReport,
    failure::{Condition, Event, Failure, Wrapping},
    json::{self, Object},
    message::{DeliveryAttributes, Message},
    queued::Queued,
    target::Target,
};

/// A target in this format is an API of AWS, and the body is the request.
const API: &str = ":scheduler:::aws-sdk:";
const INVOKE: &str = "lambda:invoke";
const SEND_MESSAGE: &str = "sqs:sendMessage";

/// Reads an event that could not be delivered, or returns `None` if the message is none.
pub(super) fn undelivered<'a>(
    message: &Message<'a>,
    home: &Home,
) -> Option<Result<Failure<'a>, Unreadable>> {
    let DeliveryAttributes { rule_arn, schedule_arn, subscriber_arn, target_arn, .. } =
        message.attributes.delivery;
    let source = rule_arn.or(schedule_arn).or(subscriber_arn)?;
    Some(read(message, source, target_arn?, home))
}

fn read<'a>(
    message: &Message<'a>,
    source: &str,
    target: &str,
    home: &Home,
) -> Result<Failure<'a>, Unreadable> {
    let DeliveryAttributes { error_code, error_message, is_payload_truncated, .. } =
        message.attributes.delivery;
    let has_no_event = message.attributes.delivery.is_without_event();
    let error = ErrorReport {
        error_type: error_code.map(str::to_owned),
        message: error_message.map(|text| beginning(text).to_owned()),
    };
    let is_truncated = is_payload_truncated == Some("true");
    let (target, event) = match (Target::parse(target), target.split_once(API)) {
        (Some(target), _) => {
            let event = if has_no_event || error.is_of_encryption() {
                None
            } else {
                Some(event_for(&target, message.body, is_truncated)?)
            };
            (target, event)
        }
        (None, Some((_, INVOKE | SEND_MESSAGE))) if is_truncated => {
            return Err(Unreadable::RequestTruncated);
        }
        (None, Some((_, INVOKE))) => invocation(message.body, home)?,
        (None, Some((_, SEND_MESSAGE))) => sending(message.body, home)?,
        (None, Some(_) | None) => return Err(Unreadable::OtherTarget),
    };
    Ok(Failure {
        target: target.qualified(),
        request_id: message.first_id().to_owned(),
        failed_at: failed_at(message, None)?,
        condition: Condition::Failed,
        error,
        event,
        is_transparent: false,
        undelivered_by: Some(source.to_owned()),
        wrapping: Wrapping::default(),
    })
}

/// The event with this body, which may be only a part of it, as the target is to get it.
pub(super) fn event_for<'a>(
    target: &Target,
    body: &'a str,
    is_truncated: bool,
) -> Result<Event<'a>, Unreadable> {
    if is_truncated {
        return Ok(Event::Truncated(body));
    }
    match target {
        Target::Function(_) => {
            let payload: &RawValue = serde_json::from_str(body).map_err(|_| Unreadable::NoEvent)?;
            Ok(Event::Fresh(Cow::Borrowed(payload)))
        }
        Target::Queue(_) => Ok(Event::Queued(Queued::fresh(body.into(), Vec::new()))),
    }
}

/// The function and the event in a schedule's request to invoke it. The payload is JSON in a string, or JSON.
fn invocation<'a>(
    request: &'a str,
    home: &Home,
) -> Result<(Target, Option<Event<'a>>), Unreadable> {
    let request = Object::read(request).ok_or(Unreadable::OtherRequest)?;
    let name = request.text("FunctionName").ok_or(Unreadable::OtherRequest)?;
    let name = match request.text("Qualifier") {
        Some(qualifier) => Cow::Owned(format!("{name}:{qualifier}")),
        None => name,
    };
    let function = FunctionArn::parse(&name).or_else(|| home.function(&name));
    let function = function.ok_or(Unreadable::OtherTarget)?;
    let payload = request.get("Payload").ok_or(Unreadable::OtherRequest)?;
    let payload = match json::text(payload) {
        Some(text) => {
            let payload = RawValue::from_string(text.into_owned());
            Cow::Owned(payload.map_err(|_| Unreadable::NoEvent)?)
        }
        None => Cow::Borrowed(payload),
    };
    Ok((Target::Function(function), Some(Event::Fresh(payload))))
}

/// The queue and the message in a schedule's request to send it. With anything else in it, the message would not be the
/// same, and SQS refuses some texts for good.
fn sending<'a>(request: &'a str, home: &Home) -> Result<(Target, Option<Event<'a>>), Unreadable> {
    let request = Object::read(request).filter(|it| it.len() == 2);
    let request = request.ok_or(Unreadable::OtherRequest)?;
    let is_message = |body: &Cow<'_, str>| !body.is_empty() && body.chars().all(is_accepted);
    let body = request.text("MessageBody").filter(is_message);
    let (Some(url), Some(body)) = (request.text("QueueUrl"), body) else {
        return Err(Unreadable::OtherRequest);
    };
    let queue = home.queue(&url).ok_or(Unreadable::OtherTarget)?;
    Ok((Target::Queue(queue), Some(Event::Queued(Queued::fresh(body, Vec::new())))))
}

#[cfg(test)]
mod tests;
