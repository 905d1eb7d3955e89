//! A message as it is sent and as it is received: its attributes, its digests, and SQS's limits.
//!
//! SDKs reject a response whose digest differs from their own, so the encoding of attributes follows AWS's published
//! algorithm exactly.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use comeback_core::Timestamp;
use md5::{Digest as _, Md5 as Hasher};
use serde::{Serialize, Serializer};

use super::error::SqsError;

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

const MESSAGE_ATTRIBUTES_MAX: usize = 10;

const ATTRIBUTE_LABEL_MAX: usize = 256;

const NUMBER_DIGITS_MAX: usize = 38;

/// A message's attributes by name, in the order in which AWS hashes them.
pub type MessageAttributes = BTreeMap<String, MessageAttribute>;

/// An attribute. Its JSON is that of SQS's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, and optionally a full stop and a label.
    pub data_type: String,
    #[serde(flatten)]
    pub value: AttributeValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum AttributeValue {
    #[serde(rename = "StringValue")]
    String(String),
    #[serde(rename = "BinaryValue", serialize_with = "base64")]
    Binary(Vec<u8>),
}

fn base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

impl MessageAttribute {
    pub fn string(value: impl Into<String>) -> Self {
        Self { data_type: "String".to_owned(), value: AttributeValue::String(value.into()) }
    }

    pub fn number(value: impl ToString) -> Self {
        Self { data_type: "Number".to_owned(), value: AttributeValue::String(value.to_string()) }
    }
}

/// Whether SQS accepts `character` in a body or an attribute. It accepts the characters of XML 1.0.
pub fn is_valid_char(character: char) -> bool {
    !matches!(
        character,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}'
    )
}

fn check_attributes(attributes: &MessageAttributes) -> Result<(), SqsError> {
    if attributes.len() > MESSAGE_ATTRIBUTES_MAX {
        return Err(SqsError::InvalidRequest(format!(
            "Number of message attributes [{}] exceeds the allowed maximum [{MESSAGE_ATTRIBUTES_MAX}].",
            attributes.len()
        )));
    }
    attributes.iter().try_for_each(|(name, attribute)| {
        check_attribute(name, attribute).map_err(|fault| {
            SqsError::InvalidRequest(format!("Message (user) attribute '{name}' {fault}"))
        })
    })
}

/// Checks one attribute. The error is the end of a sentence that begins with the attribute's name.
fn check_attribute(name: &str, attribute: &MessageAttribute) -> Result<(), String> {
    check_name(name)?;
    let data_type = attribute.data_type.as_str();
    if data_type.chars().count() > ATTRIBUTE_LABEL_MAX || !data_type.chars().all(is_valid_char) {
        return Err(format!(
            "must have a type of up to {ATTRIBUTE_LABEL_MAX} characters that a message may have."
        ));
    }
    let kind = data_type.split('.').next().unwrap_or_default();
    match (kind, &attribute.value) {
        ("String" | "Number", AttributeValue::String(value)) if value.is_empty() => {
            Err(format!("must contain a non-empty value of type '{data_type}'."))
        }
        ("Binary", AttributeValue::Binary(value)) if value.is_empty() => {
            Err(format!("must contain a non-empty value of type '{data_type}'."))
        }
        ("String", AttributeValue::String(value)) if !value.chars().all(is_valid_char) => {
            Err("must contain only characters that a message may have.".to_owned())
        }
        ("Number", AttributeValue::String(value)) if !is_number(value) => {
            Err(format!("must contain a number of up to {NUMBER_DIGITS_MAX} digits."))
        }
        ("String" | "Number", AttributeValue::String(_)) => Ok(()),
        ("Binary", AttributeValue::Binary(_)) => Ok(()),
        ("String" | "Number", AttributeValue::Binary(_)) => {
            Err(format!("must have its value of type '{data_type}' in StringValue."))
        }
        ("Binary", AttributeValue::String(_)) => {
            Err(format!("must have its value of type '{data_type}' in BinaryValue."))
        }
        (_, _) => Err(format!(
            "must have a type that begins with String, Number or Binary, not '{data_type}'."
        )),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !(1..=ATTRIBUTE_LABEL_MAX).contains(&name.len()) || !name.bytes().all(allowed) {
        return Err(format!(
            "must have a name of 1 to {ATTRIBUTE_LABEL_MAX} alphanumeric characters, underscores, hyphens and periods."
        ));
    }
    if lower.starts_with("aws.") || lower.starts_with("amazon.") {
        return Err("can't have a name that begins with 'AWS.' or 'Amazon.'.".to_owned());
    }
    if name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return Err("can't have a name that begins or ends with a period or has two in sequence."
            .to_owned());
    }
    Ok(())
}

/// Whether `value` is a decimal number: a sign, digits, a fraction, an exponent.
fn is_number(value: &str) -> bool {
    let (mantissa, exponent) = match value.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (value, None),
    };
    let unsigned = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = whole.len() + fraction.len();
    (1..=NUMBER_DIGITS_MAX).contains(&digits)
        && are_digits(whole)
        && are_digits(fraction)
        && exponent.is_none_or(|exponent| exponent.parse::<i16>().is_ok())
}

/// The type byte of strings and numbers in AWS's encoding of an attribute.
const TRANSPORT_STRING: u8 = 1;

const TRANSPORT_BINARY: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md5([u8; 16]);

impl Md5 {
    pub fn of_body(body: &str) -> Self {
        Self(Hasher::digest(body.as_bytes()).into())
    }

    /// The digest of `attributes`, which must be sorted by name. `None` if there are no attributes.
    pub fn of_attributes<'a>(
        attributes: impl IntoIterator<Item = (&'a String, &'a MessageAttribute)>,
    ) -> Option<Self> {
        let mut attributes = attributes.into_iter().peekable();
        attributes.peek()?;
        let mut hasher = Hasher::new();
        for (name, attribute) in attributes {
            encode(&mut hasher, name.as_bytes());
            encode(&mut hasher, attribute.data_type.as_bytes());
            match &attribute.value {
                AttributeValue::String(text) => {
                    hasher.update([TRANSPORT_STRING]);
                    encode(&mut hasher, text.as_bytes());
                }
                AttributeValue::Binary(bytes) => {
                    hasher.update([TRANSPORT_BINARY]);
                    encode(&mut hasher, bytes);
                }
            }
        }
        Some(Self(hasher.finalize().into()))
    }
}

/// Hashes one part of an attribute: its length in four bytes, then its bytes. A message's size limit keeps the
/// length far below what four bytes can hold.
fn encode(hasher: &mut Hasher, part: &[u8]) {
    hasher.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
    hasher.update(part);
}

impl fmt::Display for Md5 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl Serialize for Md5 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_up_to_38_digits_a_sign_a_fraction_and_an_exponent() {
        let digits = "12345678901234567890123456789012345678";
        for number in ["7", "-12.50e-3", "+.5E9", digits] {
            assert!(is_number(number), "{number}");
        }
        for text in ["", "twelve", "1e", ".", "1.2.3", &format!("{digits}9")] {
            assert!(!is_number(text), "{text}");
        }
    }
}
