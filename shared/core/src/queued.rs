//! A message of a queue whose consumer failed to process it, or that could not be delivered to the queue.
//!
//! SQS's own redrive moves such a message to the retry queue, and a retry sends it back to its source queue: the same
//! body, the same attributes, and one more, [`METADATA`], which a consumer may ignore. Nothing is wrapped, so a message
//! of any content can be retried.
//!
//! A dead letter has attributes of its own. The message's travel in one of them, [`ORIGINAL_ATTRIBUTES`]:
//!
//! ```json
//! {"tenant":{"type":"String","value":"blue"},"key":{"type":"Binary","value":"AAEC"}}
//! ```

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    Timestamp,
    attribute::{ATTRIBUTES_MAX, Attribute, SIZE_MAX, Value, message_size},
    envelope::{METADATA, RetryMetadata},
    reason::Reason,
};

/// The attribute of a dead letter that holds the attributes of the message.
pub const ORIGINAL_ATTRIBUTES: &str = "OriginalAttributes";

/// SQS's data type of values that are no text. A type may have a label: `Binary.png`.
const BINARY: &str = "Binary";

#[derive(Clone, Debug)]
pub struct Queued<'a> {
    pub body: Cow<'a, str>,
    /// The message's own attributes, without ours.
    pub attributes: Vec<Attribute<'a>>,
    /// The metadata of the retry that failed, if it was one.
    pub retried: Option<RetryMetadata>,
    /// When the source queue got the message. SQS keeps a message that it moves no longer because of the move.
    pub(crate) enqueued_at: Option<Timestamp>,
}

impl<'a> Queued<'a> {
    /// A message as its queue had it, from its attributes in the retry queue without those that we added there.
    pub(crate) fn read(
        body: &'a str,
        mut attributes: Vec<Attribute<'a>>,
        enqueued_at: Option<Timestamp>,
    ) -> Self {
        let metadata = attributes.iter().position(|it| it.name == METADATA);
        let metadata = metadata.map(|at| attributes.swap_remove(at).value);
        let retried = match metadata {
            Some(Value::Text(text)) => RetryMetadata::read(&text),
            Some(Value::Binary(_)) | None => None,
        };
        Self { body: body.into(), attributes, retried, enqueued_at }
    }

    /// A message as its producer would have sent it.
    pub(crate) fn fresh(body: Cow<'a, str>, attributes: Vec<Attribute<'a>>) -> Self {
        Self { body, attributes, retried: None, enqueued_at: None }
    }

    /// The attributes to send back to the source queue.
    pub(crate) fn with(&self, metadata: Option<&RetryMetadata>) -> Vec<Attribute<'_>> {
        let metadata = metadata.map(|metadata| Attribute::text(METADATA, metadata.to_attribute()));
        self.attributes.iter().cloned().chain(metadata).collect()
    }

    /// Whether SQS accepts the message with this metadata.
    pub(crate) fn check(&self, metadata: Option<&RetryMetadata>) -> Result<(), Reason> {
        let attributes = self.with(metadata);
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(Reason::AttributeLimit);
        }
        if message_size(&self.body, &attributes) > SIZE_MAX {
            return Err(Reason::PayloadTooLarge);
        }
        Ok(())
    }

    /// The message's own attributes as JSON, or `None` if it has none.
    pub(crate) fn attributes_json(&self) -> Option<String> {
        let attributes = Some(&self.attributes).filter(|all| !all.is_empty())?;
        // Writing strings to memory can't fail.
        serde_json::to_string(&Json(attributes)).ok()
    }
}

/// Reads what [`Queued::attributes_json`] has written.
pub fn read_attributes(json: &str) -> Option<Vec<Attribute<'static>>> {
    let members: BTreeMap<String, JsonAttribute<'_>> = serde_json::from_str(json).ok()?;
    let attribute = |(name, JsonAttribute { data_type, value }): (String, JsonAttribute<'_>)| {
        let value = if data_type.starts_with(BINARY) {
            Value::Binary(BASE64.decode(&*value).ok()?.into())
        } else {
            Value::Text(value.into_owned().into())
        };
        Some(Attribute { name: name.into(), data_type: data_type.into_owned().into(), value })
    };
    members.into_iter().map(attribute).collect()
}

struct Json<'a>(&'a [Attribute<'a>]);

#[derive(Serialize, Deserialize)]
struct JsonAttribute<'a> {
    #[serde(rename = "type")]
    data_type: Cow<'a, str>,
    value: Cow<'a, str>,
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|Attribute { name, data_type, value }| {
            let value = match value {
                Value::Text(text) => Cow::Borrowed(&**text),
                Value::Binary(bytes) => BASE64.encode(bytes).into(),
            };
            (name, JsonAttribute { data_type: (&**data_type).into(), value })
        }))
    }
}

#[cfg(test)]
mod tests;
