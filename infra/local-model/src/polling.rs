//! Event source mappings: they receive messages from their queue, invoke their function with batches of them, and
//! delete the messages that succeeded.
//!
//! Without `ReportBatchItemFailures`, a successful run means that all messages succeeded. With it, the response
//! may list the messages that failed. An invalid response fails the whole batch, so that no message is lost.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use comeback_core::{Timestamp, time::later};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{
    Cloud, Payload, REGION,
    lambda::{
        Origin,
        error::LambdaError,
        mapping::{Mapping, MappingSettings},
        poller::Held,
        recursion::TraceHeader,
        run::Run,
    },
    sqs::{AttributeValue, Md5, MessageAttribute, Received, Sqs},
};

const RECEIVE_MAX: usize = 10;

impl Cloud {
    /// Creates a mapping of the queue with the ARN `event_source_arn` to `function`.
    pub fn create_mapping(
        &mut self,
        now: Timestamp,
        event_source_arn: &str,
        function: &str,
        settings: &MappingSettings,
    ) -> Result<&Mapping, LambdaError> {
        if event_source_arn.is_empty() {
            return Err(LambdaError::invalid("Unrecognized event source."));
        }
        let configuration = self
            .lambda
            .configuration(function)
            .cloned()
            .map_err(|_| LambdaError::invalid("Function does not exist"))?;
        let uuid: Arc<str> = self.lambda.ids.uuid().into();
        let name = Arc::clone(&configuration.name);
        let mapping = Mapping::new(now, Arc::clone(&uuid), event_source_arn, name, settings)?;
        let Ok(visibility) = self.sqs.settings(&mapping.queue).map(|it| it.visibility) else {
            return Err(LambdaError::invalid(
                "Error occurred while ReceiveMessage. SQS Error Code: \
                 AWS.SimpleQueueService.NonExistentQueue. SQS Error Message: The specified queue \
                 does not exist.",
            ));
        };
        if visibility < configuration.timeout_secs {
            return Err(LambdaError::invalid(format_args!(
                "Queue visibility timeout: {visibility} seconds is less than Function timeout: {} \
                 seconds",
                configuration.timeout_secs
            )));
        }
        let same =
            |other: &&Mapping| other.queue == mapping.queue && other.function == mapping.function;
        if let Some(other) = self.lambda.mappings.values().find(same) {
            return Err(LambdaError::ResourceConflict(format!(
                "An event source mapping with SQS arn (\" {event_source_arn} \") and function (\" \
                 {function} \") already exists. Please update or delete the existing mapping with \
                 UUID {}",
                other.uuid
            )));
        }
        Ok(self.lambda.mappings.entry(uuid).or_insert(mapping))
    }

    pub(super) fn poll_queues(&mut self, now: Timestamp, runs: &mut Vec<Run>) {
        // Polling borrows the whole cloud, so the mappings are taken out of it meanwhile.
        let mut mappings = std::mem::take(&mut self.lambda.mappings);
        for mapping in mappings.values_mut() {
            // A mapping whose function was deleted does not receive messages.
            if mapping.polls(now) && self.lambda.function(&mapping.function).is_ok() {
                self.poll(now, mapping, runs);
            }
        }
        self.lambda.mappings = mappings;
    }

    fn poll(&mut self, now: Timestamp, mapping: &mut Mapping, runs: &mut Vec<Run>) {
        mapping.poller.drop_expired(now);
        while mapping.may_deliver(now) {
            match mapping.take_batch(now) {
                Some(batch) => runs.extend(self.run_batch(now, mapping, batch)),
                None if self.receive(now, mapping) => {}
                None => {
                    mapping.poller.drained();
                    break;
                }
            }
        }
    }

    fn receive(&mut self, now: Timestamp, mapping: &mut Mapping) -> bool {
        let wanted = mapping.wanted().min(RECEIVE_MAX);
        let visible =
            |sqs: &mut Sqs| sqs.next_visible_at(&mapping.queue, now).is_some_and(|at| at <= now);
        if wanted == 0 || !visible(&mut self.sqs) {
            return false;
        }
        // With a visibility timeout of zero, this loop would receive the same message forever.
        let settings = self.sqs.settings(&mapping.queue);
        let visibility = settings.map_or(1, |settings| settings.visibility.max(1));
        let received = self.sqs.receive(now, &mapping.queue, wanted, Some(visibility));
        let received = received.unwrap_or_default();
        let any = !received.is_empty();
        if !any && visible(&mut self.sqs) {
            mapping.poller.starved(now);
        }
        let hidden_until = later(now, Duration::from_secs(visibility.into()));
        for message in received {
            mapping.poller.hold(Held {
                record: record(&message, mapping),
                message_id: message.message_id,
                receipt_handle: message.receipt_handle.into(),
                trace_header: message.trace_header,
                received_at: now,
                hidden_until,
            });
        }
        any
    }

    /// Invokes the function with a batch. A throttled batch goes back to the mapping, which tries it again. A
    /// batch that is refused for another reason is dropped, and its messages become visible in the queue again.
    fn run_batch(
        &mut self,
        now: Timestamp,
        mapping: &mut Mapping,
        batch: Vec<Held>,
    ) -> Option<Run> {
        // The messages of a larger batch may have different traces, so the run continues none of them.
        let header = match batch.as_slice() {
            [only] => only.trace_header.clone(),
            _ => None,
        };
        let trace = TraceHeader::parse(header.as_deref().unwrap_or_default());
        match self.may_run(now, &mapping.function, &trace, None) {
            Ok(()) => {}
            Err(LambdaError::TooManyRequests(_)) => {
                mapping.poller.throttled(now, batch);
                return None;
            }
            Err(_) => return None,
        }
        let configuration = Arc::clone(self.lambda.configuration(&mapping.function).ok()?);
        let payload = event(&batch);
        let request_id: Arc<str> = self.lambda.ids.uuid().into();
        let origin = Origin::Mapping {
            uuid: Arc::clone(&mapping.uuid),
            queue: Arc::clone(&mapping.queue),
            report_batch_item_failures: mapping.report_batch_item_failures,
            batch,
        };
        mapping.poller.delivered(now);
        Some(self.begin(now, configuration, request_id, &trace, payload, origin))
    }

    /// Deletes the messages of a batch that succeeded. Without a report, these are all of them.
    pub(super) fn delete_batch(
        &mut self,
        now: Timestamp,
        queue: &str,
        batch: &[Held],
        report: Option<&[u8]>,
    ) {
        let has = |id: &str| batch.iter().any(|held| held.message_id.as_ref() == id);
        let failed = report.map_or(Some(Vec::new()), |report| failures(report, has));
        let Some(failed) = failed else { return };
        for held in batch {
            if !failed.iter().any(|id| *id == *held.message_id) {
                // If the queue was deleted, there is nothing to delete.
                let _ = self.sqs.delete(now, queue, &held.receipt_handle);
            }
        }
    }

    /// Whether a queue has messages for another batch, which its mapping may not run now.
    pub fn is_behind(&mut self, now: Timestamp, queue: &str) -> bool {
        let Self { sqs, lambda, .. } = self;
        let mut mappings = lambda.mappings.values().filter(|mapping| *mapping.queue == *queue);
        mappings.any(|mapping| mapping.holds_batch(now))
            || sqs.next_visible_at(queue, now).is_some_and(|at| at <= now)
    }

    /// Whether a mapping uses all batches that it may run, so that it may run more if that lasts.
    pub fn may_scale(&self) -> bool {
        self.lambda.mappings.values().any(|mapping| mapping.poller.is_saturated())
    }

    pub(super) fn next_poll(&mut self, now: Timestamp) -> Option<Timestamp> {
        let Self { sqs, lambda, .. } = self;
        let mappings = lambda.mappings.values();
        let polling = mappings.filter(|mapping| lambda.function(&mapping.function).is_ok());
        let polls = polling.filter_map(|mapping| {
            let visible_at = sqs.next_visible_at(&mapping.queue, now);
            mapping.next_poll(visible_at)
        });
        polls.min()
    }
}

/// The element of `Records` for one message. Its members are sorted by name, as in the event itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    attributes: SystemAttributes<'a>,
    aws_region: &'static str,
    body: &'a str,
    event_source: &'static str,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: &'a str,
    md5_of_body: Md5,
    /// AWS does the same: for a message without attributes, the member is `null` if the mapping has a batching window,
    /// and absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    md5_of_message_attributes: Option<Option<Md5>>,
    message_attributes: Attributes<'a>,
    message_id: &'a str,
    receipt_handle: &'a str,
}

struct SystemAttributes<'a>(&'a Received);

impl Serialize for SystemAttributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.system_attributes())
    }
}

struct Attributes<'a>(&'a [(String, MessageAttribute)]);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, it)| (name, Attribute::of(it))))
    }
}

/// SQS has never implemented list values, so both lists are always empty.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attribute<'a> {
    binary_list_values: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
    data_type: &'a str,
    string_list_values: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<&'a str>,
}

impl<'a> Attribute<'a> {
    fn of(attribute: &'a MessageAttribute) -> Self {
        let (string_value, binary_value) = match &attribute.value {
            AttributeValue::String(text) => (Some(text.as_str()), None),
            AttributeValue::Binary(bytes) => (None, Some(BASE64.encode(bytes))),
        };
        let data_type = &attribute.data_type;
        Self {
            binary_list_values: [],
            binary_value,
            data_type,
            string_list_values: [],
            string_value,
        }
    }
}

fn record(message: &Received, mapping: &Mapping) -> Payload {
    let md5 = message.md5_of_attributes();
    Payload::of(&Record {
        attributes: SystemAttributes(message),
        aws_region: REGION,
        body: &message.body,
        event_source: "aws:sqs",
        event_source_arn: &mapping.event_source_arn,
        md5_of_body: message.md5_of_body(),
        md5_of_message_attributes: (md5.is_some() || !mapping.window.is_zero()).then_some(md5),
        message_attributes: Attributes(&message.attributes),
        message_id: &message.message_id,
        receipt_handle: &message.receipt_handle,
    })
}

fn event(batch: &[Held]) -> Payload {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Event<'a> {
        records: Vec<&'a Payload>,
    }
    Payload::of(&Event { records: batch.iter().map(|held| &held.record).collect() })
}

/// The ids of the messages that failed, according to the response for a batch. `None` if the response is invalid, so
/// that all messages failed. `has` tells whether a message id belongs to the batch.
pub fn failures(response: &[u8], has: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    // Runtimes encode "no return value" in different ways. An empty body counts as `null`, and on AWS an empty
    // list does too.
    if response.is_empty() {
        return Some(Vec::new());
    }
    let failures = match serde_json::from_slice(response).ok()? {
        Value::Null => return Some(Vec::new()),
        Value::String(text) if text.is_empty() => return Some(Vec::new()),
        Value::Array(items) if items.is_empty() => return Some(Vec::new()),
        Value::Object(mut members) => members.remove("batchItemFailures").unwrap_or_default(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
    };
    if failures.is_null() {
        return Some(Vec::new());
    }
    let ids: Option<Vec<String>> = failures.as_array()?.iter().map(identifier).collect();
    ids.filter(|ids| ids.iter().all(|id| has(id)))
}

/// The message id in an item of the response, or `None` if the item is malformed.
fn identifier(item: &Value) -> Option<String> {
    item.get("itemIdentifier")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_names_the_messages_that_failed_and_an_invalid_one_fails_the_whole_batch() {
        let items = |items: &str| format!(r#"{{"batchItemFailures":[{items}]}}"#);
        let (a, b) = (r#"{"itemIdentifier":"a"}"#, r#"{"itemIdentifier":"b","more":1}"#);
        for (response, failed) in [
            ("", Some(&[][..])),
            ("null", Some(&[])),
            ("\"\"", Some(&[])),
            ("[]", Some(&[])),
            ("{}", Some(&[])),
            (r#"{"batchItemFailures":null}"#, Some(&[])),
            (&items(""), Some(&[])),
            (&items(b), Some(&["b"])),
            (&items(&format!("{a},{b}")), Some(&["a", "b"])),
            ("{", None),
            ("true", None),
            ("7", None),
            ("\"done\"", None),
            ("[1]", None),
            (r#"{"batchItemFailures":{}}"#, None),
            (&items(r#""a""#), None),
            (&items(r#"["a"]"#), None),
            (&items(r#"{"ItemIdentifier":"a"}"#), None),
            (&items(&format!(r#"{a},{{"itemIdentifier":"c"}}"#)), None),
        ] {
            let told = failures(response.as_bytes(), |id| id == "a" || id == "b");
            assert_eq!(told, failed.map(|ids| ids.iter().map(|&id| id.to_owned()).collect()));
        }
    }
}
