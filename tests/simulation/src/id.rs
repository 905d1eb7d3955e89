//! Ids in little memory: an outage has millions of them.

use std::{
    fmt::{self, Display},
    rc::Rc,
};

use uuid::Uuid;

/// An id, of which nearly all are UUIDs, or UUIDs with a number.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Id {
    Uuid([u8; 16]),
    /// A UUID, a slash and a number.
    Numbered([u8; 16], u8),
    Other(Rc<str>),
}

impl Id {
    pub fn of(text: &str) -> Self {
        let short = match text.split_once('/') {
            None => parse(text).map(Self::Uuid),
            Some((uuid, number)) => {
                let numbered = |uuid| Some(Self::Numbered(uuid, number.parse().ok()?));
                parse(uuid).and_then(numbered)
            }
        };
        let is_same = |short: &Self| short.to_string() == text;
        short.filter(is_same).unwrap_or_else(|| Self::Other(text.into()))
    }
}

fn parse(text: &str) -> Option<[u8; 16]> {
    Uuid::try_parse(text).ok().map(Uuid::into_bytes)
}

impl Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(bytes) => Uuid::from_bytes(*bytes).fmt(f),
            Self::Numbered(bytes, number) => write!(f, "{}/{number}", Uuid::from_bytes(*bytes)),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_the_text_that_it_was_made_of() {
        let uuid = "c68498d3-0b1e-4f2a-9a63-5d2f1c1b7e10";
        let numbered = format!("{uuid}/7");
        for (text, is_short) in [
            (uuid, true),
            (&numbered, true),
            (&uuid.to_uppercase(), false),
            (&uuid.replace('-', ""), false),
            (&format!("{uuid}/07"), false),
            (&format!("{uuid}/256"), false),
            (&format!("{uuid}/"), false),
            (&format!("{{{uuid}}}"), false),
            ("operator-7", false),
            ("", false),
        ] {
            let id = Id::of(text);
            assert_eq!(id.to_string(), text);
            assert_eq!(!matches!(id, Id::Other(_)), is_short, "{text}");
        }
    }
}
