//! Message attributes, with every type that SQS has, and the characters that SQS accepts in a message.

use std::borrow::Cow;

/// The largest message, and the largest batch, that SQS accepts: bodies and attributes together.
pub const SIZE_MAX: usize = 1_048_576;

/// A message has at most this many attributes.
pub const ATTRIBUTES_MAX: usize = 10;

/// The data type of the attributes that Comeback writes.
pub const DATA_TYPE: &str = "String";

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attribute<'a> {
    pub name: Cow<'a, str>,
    /// Its data type, such as `String`, `Number` or `Binary.png`.
    pub data_type: Cow<'a, str>,
    pub value: Value<'a>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Value<'a> {
    Text(Cow<'a, str>),
    /// The value of an attribute of the type `Binary`.
    Binary(Cow<'a, [u8]>),
}

impl<'a> Attribute<'a> {
    pub fn text(name: &'a str, value: impl Into<Cow<'a, str>>) -> Self {
        Self { name: name.into(), data_type: DATA_TYPE.into(), value: Value::Text(value.into()) }
    }

    /// The size as SQS counts it.
    pub fn size(&self) -> usize {
        let value = match &self.value {
            Value::Text(text) => text.len(),
            Value::Binary(bytes) => bytes.len(),
        };
        self.name.len() + self.data_type.len() + value
    }
}

/// The size of a message, as SQS counts it.
pub fn message_size(body: &str, attributes: &[Attribute<'_>]) -> usize {
    body.len() + attributes.iter().map(Attribute::size).sum::<usize>()
}

/// Whether SQS accepts a character. It accepts those of XML 1.0.
pub(crate) fn is_accepted(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// The same JSON without characters that SQS refuses. JSON can have them only in strings, where an escape means the
/// same.
pub(crate) fn acceptable_json(json: Cow<'_, str>) -> Cow<'_, str> {
    if json.chars().all(is_accepted) {
        return json;
    }
    let mut acceptable = String::with_capacity(json.len());
    for c in json.chars() {
        if is_accepted(c) {
            acceptable.push(c);
        } else {
            acceptable.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    acceptable.into()
}
