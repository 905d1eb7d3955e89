//! A message as it is sent and as it is received, and SQS's limits of it.

use std::sync::{Arc, OnceLock};

use comeback_core::Timestamp;

use super::{
    error::SqsError,
    md5::Md5,
    message_attribute::{
        AttributeValue, MessageAttribute, MessageAttributes, check_attributes, is_valid_char,
    },
};

/// The largest message, in bytes with its attributes. A batch has the same limit.
pub const MESSAGE_BYTES_MAX: u32 = 1_048_576;

pub const DELAY_SECONDS_MAX: u32 = 900;

#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    pub body: Arc<str>,
    pub attributes: MessageAttributes,
    /// The trace that the message belongs to: system attribute `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// The tenant that the message belongs to: system attribute `MessageGroupId`. It has no effect on the order.
    pub group_id: Option<String>,
    pub sender_id: Option<Arc<str>>,
    /// The delay in seconds. The default is the queue's.
    pub delay: Option<u32>,
}

/// The texts of a message, which don't change while it is in its queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Texts {
    pub(super) message_id: Arc<str>,
    pub(super) body: Arc<str>,
    pub(super) md5_of_body: Arc<OnceLock<Md5>>,
    pub(super) sender_id: Arc<str>,
    pub(super) trace_header: Option<Arc<str>>,
    pub(super) group_id: Option<Arc<str>>,
    pub(super) attributes: Arc<[(String, MessageAttribute)]>,
}

impl Texts {
    /// Those of a new message with this identifier. `account` is the default sender.
    pub(super) fn new(message_id: Arc<str>, outgoing: Outgoing, account: &Arc<str>) -> Self {
        Self {
            message_id,
            body: outgoing.body,
            md5_of_body: Arc::default(),
            sender_id: outgoing.sender_id.unwrap_or_else(|| Arc::clone(account)),
            trace_header: outgoing.trace_header.map(Arc::from),
            group_id: outgoing.group_id.map(Arc::from),
            attributes: outgoing.attributes.into_iter().collect(),
        }
    }
}

/// A received message, or an accepted one, whose receive count is 0.
#[derive(Clone, Debug)]
pub struct Received {
    /// The message's identifier, the same at every receive.
    pub message_id: Arc<str>,
    /// Identifies this receive in requests to delete the message or to change its visibility. Empty before the first.
    pub receipt_handle: String,
    pub body: Arc<str>,
    /// Digest of the body, computed on first use. Copies of the message share it.
    pub(super) md5_of_body: Arc<OnceLock<Md5>>,
    /// The sender's attributes by name. A map of them would take several times the memory.
    pub attributes: Arc<[(String, MessageAttribute)]>,
    /// When it was sent. A move to a dead-letter queue doesn't change this.
    pub sent_at: Timestamp,
    pub first_received_at: Timestamp,
    /// The number of receives in all its queues, including this one.
    pub receive_count: u32,
    pub sender_id: Arc<str>,
    pub trace_header: Option<Arc<str>>,
    pub group_id: Option<Arc<str>>,
    /// The ARN of the queue that gave it up, if this is a dead-letter queue.
    pub dead_letter_source: Option<Arc<str>>,
}

impl Received {
    pub fn md5_of_body(&self) -> Md5 {
        *self.md5_of_body.get_or_init(|| Md5::of_body(&self.body))
    }

    pub fn md5_of_attributes(&self) -> Option<Md5> {
        Md5::of_attributes(self.attributes.iter().map(|(name, it)| (name, it)))
    }

    /// The system attributes. Times are in milliseconds since 1970.
    pub fn system_attributes(&self) -> impl Iterator<Item = (&'static str, String)> {
        let text = |value: &Option<Arc<str>>| value.as_deref().map(str::to_owned);
        let millis = |at: Timestamp| Some(at.timestamp_millis().to_string());
        [
            ("AWSTraceHeader", text(&self.trace_header)),
            ("ApproximateFirstReceiveTimestamp", millis(self.first_received_at)),
            ("ApproximateReceiveCount", Some(self.receive_count.to_string())),
            ("DeadLetterQueueSourceArn", text(&self.dead_letter_source)),
            ("MessageGroupId", text(&self.group_id)),
            ("SenderId", Some(self.sender_id.to_string())),
            ("SentTimestamp", millis(self.sent_at)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

impl Outgoing {
    /// The size that SQS limits: the body, and the name, type and value of each attribute. System attributes don't
    /// count.
    pub fn size(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, attribute)| {
            let value = match &attribute.value {
                AttributeValue::String(text) => text.len(),
                AttributeValue::Binary(bytes) => bytes.len(),
            };
            name.len() + attribute.data_type.len() + value
        });
        self.body.len() + attributes.sum::<usize>()
    }

    pub(super) fn check(&self, bytes_max: u32) -> Result<(), SqsError> {
        if self.body.is_empty() {
            return Err(SqsError::MissingParameter("MessageBody"));
        }
        if self.size() > bytes_max as usize {
            return Err(too_long(bytes_max));
        }
        if !is_printable(&self.body) && !self.body.chars().all(is_valid_char) {
            return Err(SqsError::InvalidMessageContents);
        }
        if let Some(delay) = self.delay.filter(|delay| *delay > DELAY_SECONDS_MAX) {
            return Err(bad_delay(delay));
        }
        if let Some(group) = self.group_id.as_ref().filter(|group| !is_group_id(group)) {
            let reason = "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.";
            return Err(SqsError::invalid("MessageGroupId", group, reason));
        }
        check_attributes(&self.attributes)
    }
}

pub fn bad_delay(seconds: impl ToString) -> SqsError {
    let reason = format!("DelaySeconds must be >= 0 and <= {DELAY_SECONDS_MAX}.");
    SqsError::invalid("DelaySeconds", seconds, reason)
}

pub fn too_long(bytes_max: u32) -> SqsError {
    SqsError::InvalidRequest(format!(
        "One or more parameters are invalid. Reason: Message must be shorter than {bytes_max} bytes."
    ))
}

/// Whether `text` is printable ASCII, as most bodies are. The loop has no early exit, so that the compiler can
/// vectorize it.
fn is_printable(text: &str) -> bool {
    text.bytes().fold(true, |printable, byte| printable & matches!(byte, b' '..=b'~'))
}

fn is_group_id(group: &str) -> bool {
    (1..=128).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_graphic())
}
