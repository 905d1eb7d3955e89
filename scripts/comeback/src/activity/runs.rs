//! The runs of events, by the payload that a function is given. A queue's consumer is given a batch of messages, and
//! its run counts as one run for each of them.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use comeback_core::envelope::{Envelope, METADATA, RetryMetadata};
use serde::Deserialize;

use crate::events_of_runs::Of;

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub request_id: Arc<str>,
    /// The attempt; 0 is Lambda's own invocation.
    pub attempt: u32,
    /// The request id of the event's first failed invocation, or `request_id` if the payload names none.
    pub event_id: Arc<str>,
    /// The ARN of the queue that the event is a message of, if it is one. Its request ids are message ids.
    pub queue: Option<Arc<str>>,
}

impl Run {
    /// The event that it names.
    pub fn of(&self) -> Of {
        Of { event_id: Arc::clone(&self.event_id), attempt: self.attempt }
    }

    /// Takes it for a run of this event.
    pub fn join(&mut self, of: &Of) {
        (self.event_id, self.attempt) = (Arc::clone(&of.event_id), of.attempt);
    }

    /// Whether its payload names no event, so that it is a first run, or a retry without an envelope.
    pub fn is_nameless(&self) -> bool {
        self.event_id == self.request_id
    }
}

/// The event of a queue's consumer.
#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(rename = "Records", borrow)]
    records: Vec<Message<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    message_id: Arc<str>,
    #[serde(rename = "eventSourceARN")]
    queue: Arc<str>,
    message_attributes: BTreeMap<String, MessageAttribute>,
    #[serde(borrow, default)]
    body: Cow<'a, str>,
}

#[derive(Deserialize)]
struct MessageAttribute {
    #[serde(rename = "stringValue")]
    text: Option<String>,
}

/// The runs of the batch that a queue's consumer is given: one for each message. `None` if this is no batch.
pub fn of_batch(payload: &str) -> Option<Vec<Run>> {
    let Batch { records } = serde_json::from_str(payload).ok()?;
    let run = |Message { message_id, queue, message_attributes, .. }: Message<'_>| {
        let metadata = message_attributes.get(METADATA).and_then(|it| it.text.as_deref());
        let metadata = metadata.and_then(RetryMetadata::read);
        Run { queue: Some(queue), ..run_of(message_id, metadata) }
    };
    let runs: Vec<_> = records.into_iter().map(run).collect();
    (!runs.is_empty()).then_some(runs)
}

/// The run of a function that is given this payload.
pub fn of_event(request_id: Arc<str>, payload: &str) -> Run {
    run_of(request_id, Envelope::read(payload).map(|envelope| envelope.metadata))
}

/// The body of a message in the batch that a queue's consumer was given.
pub fn body(batch: &str, message_id: &str) -> Option<String> {
    let Batch { records } = serde_json::from_str(batch).ok()?;
    let message = records.into_iter().find(|it| *it.message_id == *message_id)?;
    Some(message.body.into_owned())
}

fn run_of(request_id: Arc<str>, metadata: Option<RetryMetadata>) -> Run {
    let attempt = metadata.as_ref().map_or(0, |metadata| metadata.attempt.get());
    let event_id = metadata.and_then(|metadata| Some(metadata.request_id?.into()));
    let event_id = event_id.unwrap_or_else(|| Arc::clone(&request_id));
    Run { event_id, request_id, attempt, queue: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_payload_of_a_queues_message_is_its_body_in_the_batch() {
        let message = |id: &str, body: &str| {
            json!({
                "messageId": id, "eventSourceARN": "arn:q", "messageAttributes": {}, "body": body,
            })
        };
        let batch = json!({ "Records": [message("m1", "plain"), message("m2", "\"\n")] });
        let batch = batch.to_string();
        assert_eq!(body(&batch, "m1").as_deref(), Some("plain"));
        assert_eq!(body(&batch, "m2").as_deref(), Some("\"\n"));
        assert_eq!(body(&batch, "m3"), None);
        assert_eq!(body("{}", "m1"), None);
    }
}
