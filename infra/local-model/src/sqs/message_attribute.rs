//! The attributes of a message, and SQS's limits of them.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Serialize, Serializer};

use super::error::SqsError;

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

pub(super) fn check_attributes(attributes: &MessageAttributes) -> Result<(), SqsError> {
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
