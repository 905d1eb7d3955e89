//! Destinations and dead-letter queues: what Lambda sends, and where, when an event succeeds or is given up.
//!
//! A destination gets a record, whose members are in AWS's order and whose payloads keep their bytes. Only in a bucket
//! may it be larger than a message or an event. The function's own dead-letter queue gets the event itself. Each
//! message, object or invocation carries the trace header of the event's last run, or the header that the event was
//! accepted with if it never ran. Recursion detection counts the runs in this header.

use std::sync::Arc;

use chrono::SecondsFormat;
use comeback_core::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{
    Cloud, Event, Payload, What,
    lambda::{
        invoke_config::{Destination, DestinationKind, QueuedEvent},
        name,
        run::Response,
    },
    queue_name,
    s3::Put,
    sqs::{MessageAttribute, MessageAttributes, Outgoing, is_valid_char},
};

/// The largest payload of an asynchronous invocation, and the largest record of a destination, in bytes: 1 MB.
pub(super) const ASYNCHRONOUS_BYTES_MAX: usize = 1024 * 1024;

const ROLE_ID_LENGTH: usize = 17;

impl Cloud {
    /// Sends a record of the event to its destination and, if the event failed, the event itself to the
    /// dead-letter queue. Either may be absent.
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        event: &QueuedEvent,
        condition: Condition,
        response: Option<&Response>,
    ) {
        let function = self.lambda.function(&event.function).ok();
        // Lambda sends no records of durable functions.
        let config = function
            .filter(|function| function.configuration.durable.is_none())
            .and_then(|function| function.event_invoke_config.as_ref());
        let role = function.map(|function| function.configuration.role.clone()).unwrap_or_default();
        let success = condition == Condition::Success;
        let destination = config.and_then(|config| match success {
            true => config.on_success.clone(),
            false => config.on_failure.clone(),
        });
        let dead_letter_target = function
            .filter(|_| !success)
            .and_then(|function| function.configuration.dead_letter_target.clone());
        if !success {
            let lost = destination.is_none() && dead_letter_target.is_none();
            self.note(now, event, What::GivenUp { condition: condition.name(), lost });
        }
        let message = |body: &str, attributes| Outgoing {
            body: body.into(),
            attributes,
            trace_header: Some(event.trace_header.to_string()),
            sender_id: Some(sender_id(now, &role)),
            ..Outgoing::default()
        };
        if let Some(Destination { arn, kind }) = destination {
            let record = record(now, event, condition, response);
            let sent = match &kind {
                DestinationKind::Queue(queue) => {
                    self.send(now, queue, message(record.get(), MessageAttributes::new()))
                }
                DestinationKind::Function(name) => self.send_event(now, event, name, record),
                DestinationKind::Bucket(bucket) => {
                    self.put_record(now, event, bucket, &role, &record)
                }
            };
            self.note_delivery(now, event, arn, sent, "DestinationDeliveryFailures");
        }
        if let Some(target) = dead_letter_target {
            let attributes = dead_letter_attributes(event, condition, response);
            let sent = match queue_name(&target) {
                Some(queue) => self.send(now, queue, message(event.payload.get(), attributes)),
                None => Err("it is not a queue".to_owned()),
            };
            self.note_delivery(now, event, target, sent, "DeadLetterErrors");
        }
    }

    fn send(&mut self, now: Timestamp, queue: &str, message: Outgoing) -> Result<(), String> {
        self.sqs.send(now, queue, message).map(drop).map_err(|error| error.to_string())
    }

    fn send_event(
        &mut self,
        now: Timestamp,
        event: &QueuedEvent,
        function: &str,
        record: Payload,
    ) -> Result<(), String> {
        let function = self.lambda.function(function).map_err(|error| error.to_string())?;
        let name = Arc::clone(&function.configuration.name);
        let bytes = record.get().len();
        if bytes > ASYNCHRONOUS_BYTES_MAX {
            return Err(format!(
                "a record of {bytes} bytes exceeds the limit of an event, {ASYNCHRONOUS_BYTES_MAX}"
            ));
        }
        self.accept(now, &name, record, Some(Arc::clone(&event.trace_header)), None, None);
        Ok(())
    }

    fn put_record(
        &mut self,
        now: Timestamp,
        event: &QueuedEvent,
        bucket: &str,
        role: &str,
        record: &Payload,
    ) -> Result<(), String> {
        let ids = self.s3.request_ids();
        let put = Put {
            bucket,
            key: &record_key(now, &event.function, &self.lambda.ids.uuid()),
            bytes: record.get().as_bytes().into(),
            content_type: None,
            principal: &sender_id(now, role),
            trace_header: Some(&event.trace_header),
        };
        self.put_object(now, &put, &ids).map(drop).map_err(|error| error.to_string())
    }

    fn note_delivery(
        &mut self,
        at: Timestamp,
        event: &QueuedEvent,
        destination: Arc<str>,
        sent: Result<(), String>,
        failure_metric: &'static str,
    ) {
        let what = match sent {
            Ok(()) => What::DestinationSent { destination },
            Err(reason) => What::DestinationFailed { destination, reason, metric: failure_metric },
        };
        self.note(at, event, what);
    }

    pub(super) fn note(&mut self, at: Timestamp, event: &QueuedEvent, what: What) {
        self.happened.push(Event::new(at, &event.function, Some(&event.request_id), what));
    }
}

/// The key of a record that Lambda puts into a bucket, as its documentation says.
fn record_key(now: Timestamp, function: &str, id: &str) -> String {
    format!("aws/lambda/async/{function}/{}-{id}", now.format("%Y/%m/%d/%Y-%m-%dT%H.%M.%S"))
}

/// The `SenderId` of messages that Lambda sends for a function: the id of the function's role, and the session in
/// which Lambda assumes it. Roles are only names here, so the id is derived from the name, in AWS's format.
pub(super) fn sender_id(now: Timestamp, role: &str) -> Arc<str> {
    let letters = Sha256::digest(role).into_iter().map(|byte| char::from(b'A' + byte % 26));
    let role_id: String = letters.take(ROLE_ID_LENGTH).collect();
    format!("AROA{role_id}:awslambda_0_{}", now.format("%Y%m%d%H%M%S%3f")).into()
}

/// The longest error message in a dead letter's attribute. The rest is cut off.
const ERROR_MESSAGE_BYTES_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Success,
    RetriesExhausted,
    /// The event is too old, or would be too old at its next run.
    EventAgeExceeded,
    ZeroReservedConcurrency,
    /// It is in a recursive loop. AWS doesn't document this value; it is the name of the error of a synchronous
    /// invocation.
    RecursiveInvocation,
}

impl Condition {
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::RetriesExhausted => "RetriesExhausted",
            Self::EventAgeExceeded => "EventAgeExceeded",
            Self::ZeroReservedConcurrency => "ZeroReservedConcurrency",
            Self::RecursiveInvocation => "RecursiveInvocation",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    version: &'static str,
    timestamp: String,
    request_context: RequestContext<'a>,
    request_payload: &'a Payload,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_context: Option<ResponseContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_payload: Option<Payload>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext<'a> {
    request_id: &'a str,
    function_arn: String,
    condition: &'static str,
    approximate_invoke_count: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseContext {
    status_code: u16,
    executed_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_error: Option<&'static str>,
}

/// The record of an event that has ended. Without a response, it has no response members.
fn record(
    now: Timestamp,
    event: &QueuedEvent,
    condition: Condition,
    response: Option<&Response>,
) -> Payload {
    Payload::of(&Record {
        version: "1.0",
        timestamp: now.to_rfc3339_opts(SecondsFormat::Millis, true),
        request_context: RequestContext {
            request_id: &event.request_id,
            function_arn: name::qualified_arn(&event.function),
            condition: condition.name(),
            approximate_invoke_count: event.runs,
        },
        request_payload: &event.payload,
        response_context: response.map(|response| ResponseContext {
            status_code: 200,
            executed_version: name::LATEST,
            function_error: response.is_error().then_some("Unhandled"),
        }),
        response_payload: response.map(|response| Payload::of_response(&response.payload)),
    })
}

/// The attributes of a dead letter: the request id, an HTTP status and the error's message. AWS doesn't document the
/// last two for an event that never ran. Here they are the status of a synchronous invocation, and the condition's
/// name.
fn dead_letter_attributes(
    event: &QueuedEvent,
    condition: Condition,
    response: Option<&Response>,
) -> MessageAttributes {
    let (code, message) = match response {
        Some(response) => (200, response.error_message()),
        None if condition == Condition::RecursiveInvocation => (400, condition.name().to_owned()),
        None => (429, condition.name().to_owned()),
    };
    let mut attributes = MessageAttributes::from([
        ("RequestID".to_owned(), MessageAttribute::string(event.request_id.as_ref())),
        ("ErrorCode".to_owned(), MessageAttribute::number(code)),
    ]);
    let message = attribute_text(&message);
    if !message.is_empty() {
        // SQS refuses attributes with an empty value.
        attributes.insert("ErrorMessage".to_owned(), MessageAttribute::string(message));
    }
    attributes
}

/// `message` without the characters that SQS refuses, and truncated.
fn attribute_text(message: &str) -> String {
    let mut text: String = message.chars().filter(|character| is_valid_char(*character)).collect();
    text.truncate(text.floor_char_boundary(ERROR_MESSAGE_BYTES_MAX));
    text
}
