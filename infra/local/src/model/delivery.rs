//! Destinations and dead-letter queues: where Lambda sends an event when it succeeds or is given up.
//!
//! Each message or invocation carries the trace header of the event's last run, or the header that the event was
//! accepted with if it never ran. Recursion detection counts the runs in this header.

use std::sync::Arc;

use comeback_core::Timestamp;
use sha2::{Digest as _, Sha256};

use super::{
    Cloud,
    arn::queue_name,
    invocation::ASYNCHRONOUS_BYTES_MAX,
    lambda::{
        asynchronous::QueuedEvent,
        invoke_config::{Destination, DestinationKind},
        record::{self, Condition},
        run::Response,
    },
    payload::Payload,
    sqs::{MessageAttributes, Outgoing},
};
use crate::journal::{Event, What};

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
        let config = function.and_then(|function| function.event_invoke_config.as_ref());
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
        if let Some(destination) = destination {
            let record = record::record(now, event, condition, response);
            let sent = self.send_record(now, event, &role, &destination, record);
            self.note_delivery(now, event, destination.arn, sent);
        }
        if let Some(target) = dead_letter_target {
            let attributes = record::dead_letter_attributes(event, condition, response);
            let queue = queue_name(&target).ok_or_else(|| "it is not a queue".to_owned());
            let body = event.payload.get();
            let sent = queue
                .and_then(|queue| self.send_message(now, event, &role, queue, body, attributes));
            self.note_delivery(now, event, target, sent);
        }
    }

    fn send_record(
        &mut self,
        now: Timestamp,
        event: &QueuedEvent,
        role: &str,
        destination: &Destination,
        record: Payload,
    ) -> Result<(), String> {
        match &destination.kind {
            DestinationKind::Queue(queue) => {
                self.send_message(now, event, role, queue, record.get(), MessageAttributes::new())
            }
            DestinationKind::Function(name) => {
                let function = self.lambda.function(name).map_err(|error| error.to_string())?;
                let name = Arc::clone(&function.configuration.name);
                let bytes = record.get().len();
                if bytes > ASYNCHRONOUS_BYTES_MAX {
                    return Err(format!(
                        "a record of {bytes} bytes exceeds the limit of an event, {ASYNCHRONOUS_BYTES_MAX}"
                    ));
                }
                self.accept(now, &name, record, Some(Arc::clone(&event.trace_header)), None);
                Ok(())
            }
        }
    }

    fn send_message(
        &mut self,
        now: Timestamp,
        event: &QueuedEvent,
        role: &str,
        queue: &str,
        body: &str,
        attributes: MessageAttributes,
    ) -> Result<(), String> {
        let message = Outgoing {
            body: body.into(),
            attributes,
            trace_header: Some(event.trace_header.to_string()),
            sender_id: Some(sender_id(now, role)),
            ..Outgoing::default()
        };
        self.sqs.send(now, queue, message).map(|_| ()).map_err(|error| error.to_string())
    }

    fn note_delivery(
        &mut self,
        at: Timestamp,
        event: &QueuedEvent,
        destination: Arc<str>,
        sent: Result<(), String>,
    ) {
        let what = match sent {
            Ok(()) => What::DestinationSent { destination },
            Err(reason) => What::DestinationFailed { destination, reason },
        };
        self.note(at, event, what);
    }

    pub(super) fn note(&mut self, at: Timestamp, event: &QueuedEvent, what: What) {
        self.happened.push(Event::new(at, &event.function, Some(&event.request_id), what));
    }
}

/// The `SenderId` of messages that Lambda sends for a function: the id of the function's role, and the session in
/// which Lambda assumes it. Roles are only names here, so the id is derived from the name, in AWS's format.
fn sender_id(now: Timestamp, role: &str) -> Arc<str> {
    let letters = Sha256::digest(role).into_iter().map(|byte| char::from(b'A' + byte % 26));
    let role_id: String = letters.take(ROLE_ID_LENGTH).collect();
    format!("AROA{role_id}:awslambda_0_{}", now.format("%Y%m%d%H%M%S%3f")).into()
}
