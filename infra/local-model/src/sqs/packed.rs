//! The texts of a message, packed while the message waits.
//!
//! A queue may hold millions of messages, of which most differ only in ids and times. So they are compressed, with an
//! earlier message of the queue as the dictionary. A failure record takes a third of its memory then.

use std::sync::Arc;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use super::{
    message::Texts,
    message_attribute::{AttributeValue, MessageAttribute},
};

/// The largest body that is packed. A larger one is kept as it is: to compress it could take milliseconds.
const SIZE_MAX: usize = 4_096;

/// How many messages in a row may be unlike the sample. The next one that is unlike it becomes the sample.
const UNLIKE_MAX: u32 = 8;

/// What is written of a message: its id and body, its sender, trace and group, and its attributes, each as name, type,
/// text or bytes.
type Written<'a> =
    (&'a str, &'a str, &'a str, Option<&'a str>, Option<&'a str>, Vec<Attribute<'a>>);

type Attribute<'a> = (&'a str, &'a str, Option<&'a str>, &'a minicbor::bytes::ByteSlice);

#[derive(Debug)]
pub(super) enum Packed {
    Large(Box<Texts>),
    Small {
        bytes: Box<[u8]>,
        /// The size of what is packed.
        size: u32,
        sample: Arc<[u8]>,
    },
}

/// Packs messages that are like an earlier one.
#[derive(Debug, Default)]
pub(super) struct Packer {
    sample: Arc<[u8]>,
    /// How many messages since the last that was like the sample.
    unlike: u32,
}

impl Packer {
    pub(super) fn pack(&mut self, texts: &Texts) -> Packed {
        if texts.body.len() > SIZE_MAX {
            return Packed::Large(texts.clone().into());
        }
        let written = write(texts);
        let bytes = compress_with_dict(&written, &self.sample).into_boxed_slice();
        self.unlike = if bytes.len() > written.len() / 2 { self.unlike + 1 } else { 0 };
        let sample = Arc::clone(&self.sample);
        let packed = Packed::Small { bytes, size: written.len() as u32, sample };
        if self.unlike > UNLIKE_MAX || self.sample.is_empty() {
            *self = Self { sample: written.into(), unlike: 0 };
        }
        packed
    }
}

#[allow(clippy::expect_used, reason = "writing to memory can't fail")]
fn write(texts: &Texts) -> Vec<u8> {
    let attributes =
        texts.attributes.iter().map(|(name, MessageAttribute { data_type, value })| {
            let (text, bytes) = match value {
                AttributeValue::String(text) => (Some(text.as_str()), &[][..]),
                AttributeValue::Binary(bytes) => (None, bytes.as_slice()),
            };
            (name.as_str(), data_type.as_str(), text, bytes.into())
        });
    let written: Written<'_> = (
        &texts.message_id,
        &texts.body,
        &texts.sender_id,
        texts.trace_header.as_deref(),
        texts.group_id.as_deref(),
        attributes.collect(),
    );
    minicbor::to_vec(&written).expect("memory")
}

impl Packed {
    #[allow(clippy::expect_used, reason = "it was packed by `Packer::pack`")]
    pub(super) fn unpack(&self) -> Texts {
        let (bytes, size, sample) = match self {
            Self::Large(texts) => return Texts::clone(texts),
            Self::Small { bytes, size, sample } => (bytes, *size as usize, sample),
        };
        let written = decompress_with_dict(bytes, size, sample).expect("what was compressed");
        let (message_id, body, sender_id, trace, group, attributes): Written<'_> =
            minicbor::decode(&written).expect("what was written");
        let attributes = attributes.into_iter().map(|(name, data_type, text, bytes)| {
            let value = match text {
                Some(text) => AttributeValue::String(text.to_owned()),
                None => AttributeValue::Binary(bytes.to_vec()),
            };
            (name.to_owned(), MessageAttribute { data_type: data_type.to_owned(), value })
        });
        Texts {
            message_id: message_id.into(),
            body: body.into(),
            md5_of_body: Arc::default(),
            sender_id: sender_id.into(),
            trace_header: trace.map(Arc::from),
            group_id: group.map(Arc::from),
            attributes: attributes.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Ids;

    fn texts(body: String, attributes: Vec<(String, MessageAttribute)>) -> Texts {
        Texts {
            message_id: Ids::new(7).uuid().into(),
            body: body.into(),
            md5_of_body: Arc::default(),
            sender_id: "000000000000".into(),
            trace_header: None,
            group_id: None,
            attributes: attributes.into(),
        }
    }

    fn attribute() -> impl Strategy<Value = (String, MessageAttribute)> {
        let text = any::<String>().prop_map(AttributeValue::String);
        let bytes = any::<Vec<u8>>().prop_map(AttributeValue::Binary);
        let (name, value) = (any::<String>(), prop_oneof![text, bytes]);
        (name, any::<String>(), value)
            .prop_map(|(name, data_type, value)| (name, MessageAttribute { data_type, value }))
    }

    proptest! {
        #[test]
        fn every_message_is_unpacked_as_it_was(
            messages in prop::collection::vec(
                (
                    any::<String>(),
                    0_usize..500,
                    prop::collection::vec(attribute(), 0..4),
                    any::<Option<String>>(),
                    any::<Option<String>>(),
                ),
                1..20,
            ),
        ) {
            let mut packer = Packer::default();
            let like = |(body, times, attributes, trace, group): (String, _, _, _, _)| Texts {
                trace_header: Option::<String>::map(trace, Arc::from),
                group_id: Option::<String>::map(group, Arc::from),
                ..texts(body.repeat(times), attributes)
            };
            let messages: Vec<_> = messages.into_iter().map(like).collect();
            let packed: Vec<_> = messages.iter().map(|texts| packer.pack(texts)).collect();
            for (packed, texts) in packed.iter().zip(messages) {
                prop_assert_eq!(packed.unpack(), texts);
            }
        }
    }

    /// The size of the last of `count` packed messages with these bodies.
    fn size(count: u32, body: impl Fn(u32) -> String) -> usize {
        let mut packer = Packer::default();
        let sizes = (0..count).map(|nth| match packer.pack(&texts(body(nth), Vec::new())) {
            Packed::Small { bytes, .. } => bytes.len(),
            Packed::Large(_) => usize::MAX,
        });
        sizes.last().unwrap_or_default()
    }

    #[test]
    fn a_message_like_an_earlier_one_takes_a_third_of_its_size_also_if_the_first_was_another() {
        let mut ids = Ids::new(8);
        let ids: Vec<_> = (0..200).map(|_| ids.uuid()).collect();
        let record = |nth: u32| {
            let id = &ids[nth as usize];
            let arn = "arn:aws:lambda:us-east-1:000000000000:function:orders:$LATEST";
            format!(
                r#"{{"version":"1.0","timestamp":"2026-02-02T03:05:29.{nth:03}Z","requestContext":{{"requestId":"{id}","functionArn":"{arn}","condition":"RetriesExhausted","approximateInvokeCount":3}},"requestPayload":{{"order":"{nth}"}},"responseContext":{{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"}},"responsePayload":{{"errorType":"Timeout","errorMessage":"the upstream did not answer"}}}}"#
            )
        };
        let whole = record(1).len();
        assert!(size(2, record) < whole / 3, "{} of {whole}", size(2, record));
        let other = |nth| if nth == 0 { "another".to_owned() } else { record(nth) };
        assert!(size(200, other) < whole / 3, "{} of {whole}", size(200, other));
    }
}
