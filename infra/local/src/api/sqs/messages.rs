//! SendMessage with its batch, and ReceiveMessage.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use comeback_core::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Call,
    batch::{self, Batch, BatchResult},
    queue_name, up_to,
};
use crate::model::sqs::{
    AttributeValue, MESSAGE_BYTES_MAX, Md5, MessageAttribute, MessageAttributes, Outgoing,
    Received, Sqs, SqsError, WAIT_SECONDS_MAX, bad_delay, bad_visibility,
};

/// The only system attribute that a sender may set.
const TRACE_HEADER: &str = "AWSTraceHeader";

/// A request to send a message. An entry of a batch also has an id.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendMessage {
    queue_url: Option<String>,
    id: Option<String>,
    message_body: Option<Arc<str>>,
    delay_seconds: Option<i64>,
    message_attributes: Option<BTreeMap<String, WrittenAttribute>>,
    message_system_attributes: Option<BTreeMap<String, WrittenAttribute>>,
    message_deduplication_id: Option<String>,
    message_group_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrittenAttribute {
    data_type: Option<String>,
    string_value: Option<String>,
    #[serde(default, deserialize_with = "base64_bytes")]
    binary_value: Option<Vec<u8>>,
}

fn base64_bytes<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text = Option::<String>::deserialize(source)?;
    text.map(|text| STANDARD.decode(text).map_err(serde::de::Error::custom)).transpose()
}

#[derive(Serialize)]
pub(super) struct SentAnswer {
    #[serde(rename = "MessageId")]
    message_id: Arc<str>,
    #[serde(rename = "MD5OfMessageBody")]
    md5_of_body: Md5,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_attributes: Option<Md5>,
    #[serde(rename = "MD5OfMessageSystemAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_system_attributes: Option<Md5>,
}

pub(super) fn send(mut request: SendMessage, mut call: Call<'_>) -> Result<SentAnswer, SqsError> {
    let queue_url = request.queue_url.take();
    request.send(&mut call, queue_name(&queue_url)?)
}

pub(super) fn send_batch(
    request: Batch<SendMessage>,
    mut call: Call<'_>,
) -> Result<BatchResult<SentAnswer>, SqsError> {
    let queue = queue_name(&request.queue_url)?;
    let entries = request.entries.unwrap_or_default();
    batch::check("SendMessageBatch", entries.iter().map(|entry| &entry.id))?;
    let sent = entries.iter().map(SendMessage::size).sum();
    if sent > MESSAGE_BYTES_MAX as usize {
        return Err(SqsError::BatchRequestTooLong { max: MESSAGE_BYTES_MAX, sent });
    }
    call.sqs.queue(queue)?;
    let id = |entry: &mut SendMessage| entry.id.take();
    Ok(batch::perform(entries, id, |entry| entry.send(&mut call, queue)))
}

impl SendMessage {
    fn send(self, call: &mut Call<'_>, queue: &str) -> Result<SentAnswer, SqsError> {
        if let Some(id) = self.message_deduplication_id {
            let reason = "The request include parameter that is not valid for this queue type.";
            return Err(SqsError::invalid("MessageDeduplicationId", id, reason));
        }
        let delay = self.delay_seconds.map(u32::try_from).transpose();
        let delay = delay.map_err(|_| bad_delay(self.delay_seconds.unwrap_or_default()))?;
        let system = attributes(self.message_system_attributes)?;
        let trace_header = trace_header(&system)?.or(call.trace_header).map(str::to_owned);
        let message = Outgoing {
            body: self.message_body.unwrap_or_default(),
            attributes: attributes(self.message_attributes)?,
            trace_header,
            group_id: self.message_group_id,
            sender_id: None,
            delay,
        };
        let sent = call.sqs.send(call.now, queue, message)?;
        Ok(SentAnswer {
            md5_of_body: sent.md5_of_body(),
            md5_of_attributes: sent.md5_of_attributes(),
            message_id: Arc::clone(&sent.message_id),
            md5_of_system_attributes: Md5::of_attributes(&system),
        })
    }

    /// The size that the limit on the whole batch counts.
    fn size(&self) -> usize {
        let attributes = self.message_attributes.iter().flatten().map(|(name, written)| {
            let text = [&written.data_type, &written.string_value].into_iter().flatten();
            let binary = written.binary_value.as_ref().map_or(0, Vec::len);
            name.len() + text.map(String::len).sum::<usize>() + binary
        });
        self.message_body.as_ref().map_or(0, |body| body.len()) + attributes.sum::<usize>()
    }
}

fn attributes(
    written: Option<BTreeMap<String, WrittenAttribute>>,
) -> Result<MessageAttributes, SqsError> {
    let written = written.unwrap_or_default().into_iter();
    written.map(|(name, written)| Ok((name.clone(), written.read(&name)?))).collect()
}

impl WrittenAttribute {
    /// The attribute, which must have one value. The model checks the value.
    fn read(self, name: &str) -> Result<MessageAttribute, SqsError> {
        let value = match (self.string_value, self.binary_value) {
            (Some(text), None) => AttributeValue::String(text),
            (None, Some(bytes)) => AttributeValue::Binary(bytes),
            (None, None) => AttributeValue::String(String::new()),
            (Some(_), Some(_)) => {
                return Err(SqsError::InvalidRequest(format!(
                    "Message (user) attribute '{name}' must have one value, either StringValue or BinaryValue."
                )));
            }
        };
        Ok(MessageAttribute { data_type: self.data_type.unwrap_or_default(), value })
    }
}

fn trace_header(system: &MessageAttributes) -> Result<Option<&str>, SqsError> {
    if let Some(name) = system.keys().find(|name| *name != TRACE_HEADER) {
        return Err(SqsError::InvalidRequest(format!(
            "Message system attribute name '{name}' is invalid. Only {TRACE_HEADER} can be sent."
        )));
    }
    match system.get(TRACE_HEADER) {
        None => Ok(None),
        Some(MessageAttribute { data_type, value: AttributeValue::String(header) })
            if data_type == "String" && !header.is_empty() =>
        {
            Ok(Some(header))
        }
        Some(_) => Err(SqsError::InvalidRequest(format!(
            "Message system attribute '{TRACE_HEADER}' must contain a non-empty value of type 'String'."
        ))),
    }
}

const MESSAGES_MAX: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceiveMessage {
    queue_url: Option<String>,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
    /// The deprecated name of `message_system_attribute_names`.
    attribute_names: Option<Vec<String>>,
    message_system_attribute_names: Option<Vec<String>>,
    message_attribute_names: Option<Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceivedAnswer {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) messages: Vec<MessageAnswer>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MessageAnswer {
    message_id: Arc<str>,
    receipt_handle: String,
    #[serde(rename = "MD5OfBody")]
    md5_of_body: Md5,
    body: Arc<str>,
    #[serde(rename = "Attributes", skip_serializing_if = "BTreeMap::is_empty")]
    system: BTreeMap<&'static str, String>,
    /// The digest of the returned attributes only.
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_attributes: Option<Md5>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    message_attributes: BTreeMap<String, MessageAttribute>,
}

pub(super) struct ShortPoll {
    pub(super) queue: String,
    pub(super) answer: ReceivedAnswer,
    pub(super) wait: Duration,
    /// When to receive again, even if nothing changes before.
    pub(super) next_visible_at: Option<Timestamp>,
}

impl ReceiveMessage {
    pub(super) fn short_poll(&self, sqs: &mut Sqs, now: Timestamp) -> Result<ShortPoll, SqsError> {
        let queue = queue_name(&self.queue_url)?;
        let max = self.max_number_of_messages.unwrap_or(1);
        let max = up_to(MESSAGES_MAX, "MaxNumberOfMessages", max)?;
        let wait = self.wait()?;
        let visibility = self
            .visibility_timeout
            .map(|seconds| u32::try_from(seconds).map_err(|_| bad_visibility(seconds)));
        if let Some(name) = self.system_names().find(|name| !is_system_attribute(name)) {
            return Err(SqsError::InvalidAttributeName { name: name.clone() });
        }
        let wait = wait.map_or_else(|| sqs.settings(queue).map(|it| it.wait), Ok)?;
        let received = sqs.receive(now, queue, max, visibility.transpose()?)?;
        let messages = received.into_iter().map(|it| self.answer(it)).collect();
        Ok(ShortPoll {
            queue: queue.to_owned(),
            answer: ReceivedAnswer { messages },
            wait: Duration::from_secs(wait.into()),
            next_visible_at: sqs.next_visible_at(queue, now),
        })
    }

    fn wait(&self) -> Result<Option<u32>, SqsError> {
        let Some(seconds) = self.wait_time_seconds else { return Ok(None) };
        match u32::try_from(seconds) {
            Ok(wait) if wait <= WAIT_SECONDS_MAX => Ok(Some(wait)),
            Ok(_) | Err(_) => {
                let reason = format!("Must be >= 0 and <= {WAIT_SECONDS_MAX}, if provided.");
                Err(SqsError::invalid("WaitTimeSeconds", seconds, reason))
            }
        }
    }

    /// The names of the system attributes that are requested.
    fn system_names(&self) -> impl Iterator<Item = &String> {
        let names = [&self.attribute_names, &self.message_system_attribute_names];
        names.into_iter().flatten().flatten()
    }

    fn selects_system(&self, name: &str) -> bool {
        self.system_names().any(|wanted| *wanted == "All" || *wanted == name)
    }

    /// Attributes are requested by name, by prefix (`name.*`), or all at once.
    fn selects(&self, name: &str) -> bool {
        self.message_attribute_names.iter().flatten().any(|wanted| match wanted.as_str() {
            "All" | "*" | ".*" => true,
            wanted => {
                wanted.strip_suffix(".*").map_or(wanted == name, |begin| name.starts_with(begin))
            }
        })
    }

    fn answer(&self, message: Received) -> MessageAnswer {
        let system =
            message.system_attributes().filter(|(name, _)| self.selects_system(name)).collect();
        let attributes = || message.attributes.iter().map(|(name, it)| (name, it));
        let selected = || attributes().filter(|(name, _)| self.selects(name));
        let attributes = selected().map(|(name, it)| (name.clone(), it.clone()));
        MessageAnswer {
            md5_of_attributes: Md5::of_attributes(selected()),
            message_attributes: attributes.collect(),
            system,
            md5_of_body: message.md5_of_body(),
            message_id: message.message_id,
            receipt_handle: message.receipt_handle,
            body: message.body,
        }
    }
}

/// Whether this is a system attribute, of FIFO queues too, or `All`.
fn is_system_attribute(name: &str) -> bool {
    matches!(
        name,
        "All"
            | "AWSTraceHeader"
            | "ApproximateFirstReceiveTimestamp"
            | "ApproximateReceiveCount"
            | "DeadLetterQueueSourceArn"
            | "MessageDeduplicationId"
            | "MessageGroupId"
            | "SenderId"
            | "SentTimestamp"
            | "SequenceNumber"
            | "SqsManagedSseEnabled"
    )
}
