//! SendMessage and its batch.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use comeback_core::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Call, Caller,
    batch::{self, Batch, BatchResult},
    queue_name,
};
use crate::model::sqs::{
    AttributeValue, MESSAGE_BYTES_MAX, Md5, MessageAttribute, MessageAttributes, Outgoing, Sqs,
    SqsError, bad_delay,
};

/// The only system attribute that a sender may set.
const TRACE_HEADER: &str = "AWSTraceHeader";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendMessage {
    queue_url: Option<String>,
    #[serde(flatten)]
    message: SendEntry,
}

/// A message in a request, or in an entry of a batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendEntry {
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

pub(super) fn send(
    request: SendMessage,
    Call { sqs, now, caller }: Call<'_>,
) -> Result<SentAnswer, SqsError> {
    request.message.send(sqs, now, queue_name(&request.queue_url)?, caller)
}

pub(super) fn send_batch(
    request: Batch<SendEntry>,
    Call { sqs, now, caller }: Call<'_>,
) -> Result<BatchResult<SentAnswer>, SqsError> {
    let queue = queue_name(&request.queue_url)?;
    let entries = request.entries.unwrap_or_default();
    batch::check("SendMessageBatchRequestEntry", entries.iter().map(|entry| &entry.id))?;
    let sent = entries.iter().map(SendEntry::size).sum();
    if sent > MESSAGE_BYTES_MAX as usize {
        return Err(SqsError::BatchRequestTooLong { max: MESSAGE_BYTES_MAX, sent });
    }
    sqs.queue(queue)?;
    let id = |entry: &mut SendEntry| entry.id.take();
    Ok(batch::perform(entries, id, |entry| entry.send(sqs, now, queue, caller)))
}

impl SendEntry {
    fn send(
        self,
        sqs: &mut Sqs,
        now: Timestamp,
        queue: &str,
        caller: &Caller<'_>,
    ) -> Result<SentAnswer, SqsError> {
        if let Some(id) = self.message_deduplication_id {
            let reason = "The request include parameter that is not valid for this queue type.";
            return Err(SqsError::invalid("MessageDeduplicationId", id, reason));
        }
        let delay = self.delay_seconds.map(u32::try_from).transpose();
        let delay = delay.map_err(|_| bad_delay(self.delay_seconds.unwrap_or_default()))?;
        let system = attributes(self.message_system_attributes)?;
        let trace_header = trace_header(&system)?.or(caller.trace_header).map(str::to_owned);
        let message = Outgoing {
            body: self.message_body.unwrap_or_default(),
            attributes: attributes(self.message_attributes)?,
            trace_header,
            group_id: self.message_group_id,
            sender_id: None,
            delay,
        };
        let sent = sqs.send(now, queue, message)?;
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
