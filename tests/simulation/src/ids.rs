//! What events are known by, in few bytes: an outage has millions of them.

use std::{
    borrow::Cow,
    fmt,
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use uuid::{Uuid, fmt::Hyphenated};

/// A request id or message id, or the owner of a claim. Those of Lambda and SQS are UUIDs, owners are UUIDs with a
/// number, and strangers write any text.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Id {
    Uuid(Uuid),
    /// A UUID, a slash and a number.
    Numbered(Uuid, u8),
    Other(Arc<str>),
}

impl Id {
    /// No other id is before this one.
    pub const FIRST: Self = Self::Uuid(Uuid::nil());

    fn text<'a>(&'a self, buffer: &'a mut [u8; Hyphenated::LENGTH]) -> Cow<'a, str> {
        match self {
            Self::Uuid(uuid) => Cow::Borrowed(uuid.as_hyphenated().encode_lower(buffer)),
            Self::Numbered(uuid, number) => format!("{uuid}/{number}").into(),
            Self::Other(text) => Cow::Borrowed(text),
        }
    }
}

/// Only what is written as Lambda does counts as a UUID, so that its text is the same again.
impl From<&str> for Id {
    fn from(text: &str) -> Self {
        let short = match text.split_once('/') {
            Some((uuid, number)) => {
                let numbered = |uuid| Some(Self::Numbered(uuid, number.parse().ok()?));
                Uuid::try_parse(uuid).ok().and_then(numbered)
            }
            None => Uuid::try_parse(text).ok().map(Self::Uuid),
        };
        let same = short.filter(|short| *short == *text);
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
        f.write_str(&self.text(&mut [0; Hyphenated::LENGTH]))
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
