//! What events are known by, in few bytes: an outage has millions of them.

use std::{
    fmt,
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use uuid::{Uuid, fmt::Hyphenated};

/// A request id or message id. Those of Lambda and SQS are UUIDs, and strangers write any text.
#[derive(Clone, Eq, Hash, PartialEq)]
pub enum Id {
    Uuid(Uuid),
    Other(Arc<str>),
}

impl Id {
    fn text<'a>(&'a self, buffer: &'a mut [u8; Hyphenated::LENGTH]) -> &'a str {
        match self {
            Self::Uuid(uuid) => uuid.as_hyphenated().encode_lower(buffer),
            Self::Other(text) => text,
        }
    }

    /// The text of this id after others.
    pub fn after(&self, texts: &[&str]) -> String {
        let mut all = texts.concat();
        all.push_str(self.text(&mut [0; Hyphenated::LENGTH]));
        all
    }

    /// What `text` has before this id.
    pub fn before<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.strip_suffix(self.text(&mut [0; Hyphenated::LENGTH]))
    }
}

/// Only what is written as Lambda does counts as a UUID, so that its text is the same again.
impl From<&str> for Id {
    fn from(text: &str) -> Self {
        let uuid = Uuid::try_parse(text).map(Self::Uuid);
        let same = uuid.ok().filter(|uuid| *uuid == *text);
        same.unwrap_or_else(|| Self::Other(text.into()))
    }
}

impl PartialEq<str> for Id {
    fn eq(&self, other: &str) -> bool {
        self.text(&mut [0; Hyphenated::LENGTH]) == other
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; Hyphenated::LENGTH]))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A trace header, as 128 bits of its hash. The judge only asks whether two are the same, and two of the millions that
/// a world has would have the same hash in one of 10^24 worlds.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Trace([u8; 16]);

impl From<&str> for Trace {
    fn from(header: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(header.as_bytes());
        let first = hasher.finish();
        hasher.write_u8(0);
        let second = hasher.finish();
        Self((u128::from(first) << 64 | u128::from(second)).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_the_text_that_it_was_made_of() {
        let lambda = "5f0c7c8e-1a57-4d2b-9f3e-0123456789ab";
        let others =
            ["", "stranger-7", "5F0C7C8E-1A57-4D2B-9F3E-0123456789AB", &lambda.replace('-', "")];
        for text in others.into_iter().chain([lambda]) {
            let id = Id::from(text);
            assert_eq!(id.to_string(), text);
            assert!(id == *text, "{id}");
            assert_eq!(id.before(&format!("arn/{text}")), Some("arn/"));
            assert_eq!(matches!(id, Id::Uuid(_)), text == lambda, "{text}");
        }
    }

    #[test]
    fn headers_that_differ_anywhere_are_different_traces() {
        let header = "Root=1-69813980-00000000c3a5d1f2b4e69788;Parent=53995c3f42cd8ad8;Sampled=0";
        let changed = |at: usize| format!("{}x{}", &header[..at], &header[at + 1..]);
        assert!((0..header.len()).all(|at| Trace::from(&*changed(at)) != Trace::from(header)));
        assert!(Trace::from(header) == Trace::from(&*header.to_owned()));
    }
}
