//! The digests with which SDKs verify what SQS received and returned.
//!
//! SDKs reject a response whose digest differs from their own, so the encoding of attributes follows AWS's published
//! algorithm exactly.

use std::fmt;

use md5::{Digest as _, Md5 as Hasher};
use serde::{Serialize, Serializer};

use super::attribute::{AttributeValue, MessageAttribute};

/// The type byte of strings and numbers in AWS's encoding of an attribute.
const TRANSPORT_STRING: u8 = 1;

/// The type byte of binary values in AWS's encoding of an attribute.
const TRANSPORT_BINARY: u8 = 2;

/// An MD5 digest, written in hexadecimal.
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
    use super::{super::attribute::MessageAttributes, *};

    fn digest(attributes: &[(&str, &str, AttributeValue)]) -> Option<String> {
        let attributes: MessageAttributes = attributes
            .iter()
            .map(|(name, data_type, value)| {
                let value = value.clone();
                ((*name).to_owned(), MessageAttribute { data_type: (*data_type).to_owned(), value })
            })
            .collect();
        Md5::of_attributes(&attributes).map(|md5| md5.to_string())
    }

    fn text(value: &str) -> AttributeValue {
        AttributeValue::String(value.to_owned())
    }

    #[test]
    fn digests_of_bodies_are_md5_in_hexadecimal() {
        for (body, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("test", "098f6bcd4621d373cade4e832627b4f6"),
            ("msg", "6e2baaf3b97dbeef01c0043275f9a0e7"),
            ("a message whose digest begins with a zero: 26", "03d6eb5d746f371e24fc072eca22d6a9"),
        ] {
            assert_eq!(Md5::of_body(body).to_string(), expected, "{body:?}");
        }
    }

    #[test]
    fn digests_of_attributes_are_those_of_aws() {
        let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        let binary = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01";
        for (attributes, expected) in [
            (
                vec![("timestamp", "Number", text("1493147359900"))],
                "235c5c510d26fb653d073faed50ae77c",
            ),
            (vec![("AWSTraceHeader", "String", text(trace))], "5ae4d5d7636402d80f4eb6d213245a88"),
            (
                vec![("Hello", "String", text("There")), ("General", "String", text("Kenobi"))],
                "fca026605781cb4126a1e9044df24232",
            ),
            (
                vec![("attr1", "Binary", AttributeValue::Binary(binary.to_vec()))],
                "8cbe4db156db8a94db8b801b7addb984",
            ),
        ] {
            assert_eq!(digest(&attributes).as_deref(), Some(expected), "{attributes:?}");
        }
    }

    #[test]
    fn no_attributes_have_no_digest() {
        assert_eq!(digest(&[]), None);
    }
}
