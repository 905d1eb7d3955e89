//! The digests of a message. SDKs reject a response whose digest differs from their own, so the encoding of attributes
//! follows AWS's published algorithm exactly.

use std::fmt;

use md5::{Digest as _, Md5 as Hasher};
use serde::{Serialize, Serializer};

use super::message_attribute::{AttributeValue, MessageAttribute};

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
