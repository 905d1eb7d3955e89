//! A message: what is sent, what SQS answers to it, what is received, and what SQS refuses to carry.

use std::{collections::BTreeMap, sync::Arc};

use comeback_core::Timestamp;

use super::{error::SqsError, md5::Md5};

/// SQS carries at most this many bytes in a message, attributes included, and as many in a batch.
pub const MESSAGE_BYTES_MAX: u32 = 1_048_576;

/// SQS refuses a message with more message attributes.
pub const MESSAGE_ATTRIBUTES_MAX: usize = 10;

/// SQS refuses a longer name or type of a message attribute, in characters.
const ATTRIBUTE_LABEL_MAX: usize = 256;

/// A `Number` has at most this many digits.
const NUMBER_DIGITS_MAX: usize = 38;

/// How long a message may be kept from its first receiver, in seconds: a quarter of an hour.
pub const DELAY_SECONDS_MAX: u32 = 900;

/// A message's own attributes by name, in the order in which AWS digests them.
pub type MessageAttributes = BTreeMap<String, MessageAttribute>;

/// One attribute of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, and perhaps a label of the sender's after a full stop.
    pub data_type: String,
    /// The value.
    pub value: AttributeValue,
}

/// The value of a message's attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Text, or a number in decimal.
    String(String),
    /// Bytes.
    Binary(Vec<u8>),
}

impl MessageAttribute {
    /// An attribute of type `String`.
    pub fn string(value: impl Into<String>) -> Self {
        Self { data_type: "String".to_owned(), value: AttributeValue::String(value.into()) }
    }

    /// An attribute of type `Number`.
    pub fn number(value: impl ToString) -> Self {
        Self { data_type: "Number".to_owned(), value: AttributeValue::String(value.to_string()) }
    }
}

/// A message as its sender gives it to SQS.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// The body. Copies of the message share it.
    pub body: Arc<str>,
    /// The sender's attributes.
    pub attributes: MessageAttributes,
    /// The trace that the message belongs to: system attribute `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// The tenant that the message belongs to: system attribute `MessageGroupId`. It is handed on
    /// and has no influence on the order.
    pub group_id: Option<String>,
    /// Who sends it; the account where it is not given.
    pub sender_id: Option<Arc<str>>,
    /// For how many seconds nobody shall receive it; the queue's own delay where it is not given.
    pub delay: Option<u32>,
}

/// SQS has the message.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The message's identifier, the same at every receive.
    pub message_id: String,
    /// Digest of the body.
    pub md5_of_body: Md5,
    /// Digest of the attributes, where there are any.
    pub md5_of_attributes: Option<Md5>,
}

/// A message as a receiver gets it.
#[derive(Clone, Debug)]
pub struct Received {
    /// The message's identifier.
    pub message_id: String,
    /// What this receiver names the message by to delete it or to change its visibility.
    pub receipt_handle: String,
    /// The body.
    pub body: Arc<str>,
    /// Digest of the body.
    pub md5_of_body: Md5,
    /// The sender's attributes.
    pub attributes: Arc<MessageAttributes>,
    /// When SQS took it; a move to a dead-letter queue keeps this.
    pub sent_at: Timestamp,
    /// When it was first received.
    pub first_received_at: Timestamp,
    /// How often it has been received, in all the queues it has been in, this time included.
    pub receive_count: u32,
    /// Who sent it.
    pub sender_id: Arc<str>,
    /// The trace that it belongs to.
    pub trace_header: Option<Arc<str>>,
    /// The tenant that it belongs to.
    pub group_id: Option<Arc<str>>,
    /// The queue that gave it up, where this is a dead-letter queue.
    pub dead_letter_source: Option<Arc<str>>,
}

impl Outgoing {
    /// What the limits on a message's and on a batch's size count: the body, and name, type and
    /// value of every attribute. System attributes are free.
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

    /// Whether a queue that takes messages of up to `bytes_max` takes this one.
    pub(super) fn check(&self, bytes_max: u32) -> Result<(), SqsError> {
        if self.body.is_empty() {
            return Err(SqsError::MissingParameter("MessageBody"));
        }
        if self.size() > bytes_max as usize {
            return Err(SqsError::too_long(bytes_max));
        }
        if !self.body.chars().all(is_carried) {
            return Err(SqsError::InvalidMessageContents);
        }
        if let Some(delay) = self.delay.filter(|delay| *delay > DELAY_SECONDS_MAX) {
            return Err(SqsError::delay(delay));
        }
        if let Some(group) = self.group_id.as_ref().filter(|group| !is_group_id(group)) {
            let reason = "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.";
            return Err(SqsError::invalid("MessageGroupId", group, reason));
        }
        check_attributes(&self.attributes)
    }
}

/// Whether SQS carries `character` in a body or an attribute: those that XML 1.0 can tell.
pub(crate) fn is_carried(character: char) -> bool {
    !matches!(
        character,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}'
    )
}

fn is_group_id(group: &str) -> bool {
    (1..=128).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_graphic())
}

fn check_attributes(attributes: &MessageAttributes) -> Result<(), SqsError> {
    if attributes.len() > MESSAGE_ATTRIBUTES_MAX {
        return Err(SqsError::InvalidMessage(format!(
            "Number of message attributes [{}] exceeds the allowed maximum [{MESSAGE_ATTRIBUTES_MAX}].",
            attributes.len()
        )));
    }
    attributes.iter().try_for_each(|(name, attribute)| {
        check_attribute(name, attribute).map_err(|fault| {
            SqsError::InvalidMessage(format!("Message (user) attribute '{name}' {fault}"))
        })
    })
}

/// What is wrong with one attribute, as the end of a sentence that begins with its name.
fn check_attribute(name: &str, attribute: &MessageAttribute) -> Result<(), String> {
    check_name(name)?;
    let data_type = attribute.data_type.as_str();
    if data_type.chars().count() > ATTRIBUTE_LABEL_MAX || !data_type.chars().all(is_carried) {
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
        ("String", AttributeValue::String(value)) if !value.chars().all(is_carried) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(body: &str) -> Outgoing {
        Outgoing { body: body.into(), ..Outgoing::default() }
    }

    fn with(name: &str, data_type: &str, value: AttributeValue) -> Outgoing {
        let attribute = MessageAttribute { data_type: data_type.to_owned(), value };
        Outgoing { attributes: [(name.to_owned(), attribute)].into(), ..outgoing("x") }
    }

    fn text(value: &str) -> AttributeValue {
        AttributeValue::String(value.to_owned())
    }

    #[test]
    fn a_body_carries_the_characters_of_xml_and_no_others() {
        for (body, carried) in [
            ("\t\n\r \u{7f}\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{10ffff}", true),
            ("a\0", false),
            ("\u{8}", false),
            ("\u{b}", false),
            ("\u{c}", false),
            ("\u{1f}", false),
            ("\u{fffe}", false),
            ("\u{ffff}", false),
        ] {
            let expected = if carried { Ok(()) } else { Err(SqsError::InvalidMessageContents) };
            assert_eq!(outgoing(body).check(MESSAGE_BYTES_MAX), expected, "{body:?}");
        }
    }

    #[test]
    fn an_empty_body_is_a_missing_one() {
        let expected = Err(SqsError::MissingParameter("MessageBody"));
        assert_eq!(outgoing("").check(MESSAGE_BYTES_MAX), expected);
    }

    #[test]
    fn names_types_and_values_of_attributes_count_as_the_body_does() {
        let mut message = with("k", "String", text("x"));
        message.body = "é".repeat(8).into();
        assert_eq!(message.size(), 16 + 1 + 6 + 1);
        assert_eq!(message.check(24), Ok(()));
        assert_eq!(
            message.check(23).unwrap_err().to_string(),
            "One or more parameters are invalid. Reason: Message must be shorter than 23 bytes."
        );
        let binary = with("k", "Binary", AttributeValue::Binary(vec![0; 5]));
        assert_eq!(binary.size(), 1 + 1 + 6 + 5);
    }

    #[test]
    fn an_attribute_that_is_well_formed_is_taken() {
        for (name, data_type, value) in [
            ("a", "String", text("x")),
            ("a.b-c_9", "String.label", text("x")),
            ("a", "Number", text("-12.50e-3")),
            ("a", "Number.int", text("12345678901234567890123456789012345678")),
            ("a", "Binary.gif", AttributeValue::Binary(vec![0, 255])),
        ] {
            assert_eq!(with(name, data_type, value.clone()).check(1024), Ok(()), "{value:?}");
        }
    }

    #[test]
    fn an_attribute_that_is_not_is_refused_by_name() {
        let long = "n".repeat(257);
        for (name, data_type, value) in [
            ("", "String", text("x")),
            (long.as_str(), "String", text("x")),
            ("a b", "String", text("x")),
            ("ä", "String", text("x")),
            ("aWs.x", "String", text("x")),
            ("AMAZON.x", "String", text("x")),
            (".a", "String", text("x")),
            ("a.", "String", text("x")),
            ("a..b", "String", text("x")),
            ("a", "", text("x")),
            ("a", "string", text("x")),
            ("a", "Stringent", text("x")),
            ("a", &format!("String.{long}"), text("x")),
            ("a", "String", text("")),
            ("a", "String", text("\u{1}")),
            ("a", "Number", text("")),
            ("a", "Number", text("twelve")),
            ("a", "Number", text("1e")),
            ("a", "Number", text(".")),
            ("a", "Number", text("123456789012345678901234567890123456789")),
            ("a", "Binary", AttributeValue::Binary(vec![])),
            ("a", "Binary", text("x")),
            ("a", "String", AttributeValue::Binary(vec![1])),
        ] {
            let refusal = with(name, data_type, value.clone()).check(4096).unwrap_err();
            let SqsError::InvalidMessage(text) = &refusal else { panic!("{refusal:?}") };
            let expected = format!("Message (user) attribute '{name}' ");
            assert!(text.starts_with(&expected), "{data_type:?} {value:?}: {text}");
        }
    }

    #[test]
    fn ten_attributes_are_taken_and_eleven_refused() {
        let message = |count: usize| Outgoing {
            attributes: (0..count)
                .map(|number| (format!("a{number}"), MessageAttribute::number(number)))
                .collect(),
            ..outgoing("x")
        };
        assert_eq!(message(10).check(1024), Ok(()));
        assert!(matches!(message(11).check(1024), Err(SqsError::InvalidMessage(_))));
    }

    #[test]
    fn a_delay_is_at_most_a_quarter_of_an_hour() {
        let delayed = |delay| Outgoing { delay: Some(delay), ..outgoing("x") };
        assert_eq!(delayed(900).check(1024), Ok(()));
        assert_eq!(
            delayed(901).check(1024).unwrap_err().to_string(),
            "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
        );
    }

    #[test]
    fn a_group_is_named_in_up_to_128_printable_characters() {
        let grouped = |group: &str| Outgoing { group_id: Some(group.into()), ..outgoing("x") };
        for (group, taken) in
            [("tenant-7!", true), ("", false), ("a b", false), (&"g".repeat(129), false)]
        {
            assert_eq!(grouped(group).check(1024).is_ok(), taken, "{group:?}");
        }
    }
}
