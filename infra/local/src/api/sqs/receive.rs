//! ReceiveMessage.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use comeback_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Call, queue_name, up_to};
use crate::model::sqs::{
    Md5, MessageAttribute, Received, Sqs, SqsError, WAIT_SECONDS_MAX, bad_visibility,
};

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
    messages: Vec<MessageAnswer>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MessageAnswer {
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
    pub(super) answer: ReceivedAnswer,
    pub(super) wait: Duration,
    /// When to receive again, even if nothing changes before.
    pub(super) next_visible_at: Option<Timestamp>,
}

impl ShortPoll {
    pub(super) fn found_nothing(&self) -> bool {
        self.answer.messages.is_empty()
    }
}

pub(super) fn receive(
    request: ReceiveMessage,
    Call { sqs, now, .. }: Call<'_>,
) -> Result<ReceivedAnswer, SqsError> {
    request.short_poll(sqs, now).map(|poll| poll.answer)
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
        let selection = Selection::of(self)?;
        let wait = wait.map_or_else(|| sqs.settings(queue).map(|it| it.wait), Ok)?;
        let received = sqs.receive(now, queue, max, visibility.transpose()?)?;
        let messages = received.into_iter().map(|it| selection.answer(it)).collect();
        Ok(ShortPoll {
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
}

struct Selection<'a> {
    system: Vec<&'a str>,
    attributes: &'a [String],
}

impl<'a> Selection<'a> {
    fn of(request: &'a ReceiveMessage) -> Result<Self, SqsError> {
        let names = [&request.attribute_names, &request.message_system_attribute_names];
        let system: Vec<&str> = names.into_iter().flatten().flatten().map(String::as_str).collect();
        if let Some(name) = system.iter().find(|name| !is_system_attribute(name)) {
            return Err(SqsError::InvalidAttributeName { name: (*name).to_owned() });
        }
        Ok(Self { system, attributes: request.message_attribute_names.as_deref().unwrap_or(&[]) })
    }

    fn selects_system(&self, name: &str) -> bool {
        self.system.iter().any(|wanted| *wanted == "All" || *wanted == name)
    }

    /// Attributes are requested by name, by prefix (`name.*`), or all at once.
    fn selects(&self, name: &str) -> bool {
        self.attributes.iter().any(|wanted| match wanted.as_str() {
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
