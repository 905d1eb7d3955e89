//! JSON pointers (RFC 6901) into the text of a payload, which is never decoded and encoded again.

use std::{borrow::Cow, fmt};

use serde_json::value::RawValue;

use crate::json::Object;

/// A pointer, as it is written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pointer(String);

impl Pointer {
    /// The pointers that [`Self::parse`] accepts, except for the empty one, which is the whole document.
    pub const PATTERN: &str = "^(/([^/~]|~[01])*)+$";

    pub fn parse(text: &str) -> Option<Self> {
        let is_escape = |part: &str| part.starts_with(['0', '1']);
        let is_good = text.is_empty() || text.starts_with('/');
        (is_good && text.split('~').skip(1).all(is_escape)).then(|| Self(text.to_owned()))
    }

    /// The value at the pointer.
    pub fn find<'a>(&self, json: &'a str) -> Option<&'a RawValue> {
        let whole: &RawValue = serde_json::from_str(json).ok()?;
        self.0.split('/').skip(1).try_fold(whole, |value, name| member(value, &unescaped(name)))
    }

    /// The pointer to the parent, and the name of the member.
    pub fn split(&self) -> Option<(Self, String)> {
        let (parent, name) = self.0.rsplit_once('/')?;
        Some((Self(parent.to_owned()), unescaped(name).into_owned()))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn member<'a>(value: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    if let Some(object) = Object::read(value.get()) {
        return object.get(name);
    }
    let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
    let is_index = name == "0" || !name.starts_with(['0', '+']);
    items.get(name.parse::<usize>().ok().filter(|_| is_index)?).copied()
}

fn unescaped(name: &str) -> Cow<'_, str> {
    if name.contains('~') { name.replace("~1", "/").replace("~0", "~").into() } else { name.into() }
}
