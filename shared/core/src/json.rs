//! One level of a JSON object, with the value of each member as raw JSON.
//!
//! Documents from a queue are read leniently: a member of the wrong type counts as absent, and a payload is never
//! decoded. `serde`'s derived structs can do neither.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

pub struct Object<'a>(Vec<(Name<'a>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Reads `text` if it is an object.
    pub fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Reads only the members with these names, however many others there are.
    pub(crate) fn with(text: &'a str, names: &[&str]) -> Option<Self> {
        let mut members: Vec<(Name, &RawValue)> = Vec::new();
        for_each_member(text, |name, value| {
            if names.iter().any(|it| it.as_bytes() == name) {
                members.retain(|(other, _)| *other.0 != *name);
                members.push((Name(name.to_owned().into()), value));
            }
        })?;
        Some(Self(members))
    }

    /// The value of a member. If a name occurs twice the last one counts, as in most parsers.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rfind(|(member, _)| *member.0 == *name.as_bytes()).map(|&(_, value)| value)
    }

    /// The value of a member that is an object.
    pub(crate) fn object(&self, name: &str) -> Option<Object<'a>> {
        Self::read(self.get(name)?.get())
    }

    /// The value of a member that is a string.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?)
    }

    /// The members whose names are valid UTF-8, in order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().filter_map(|(name, value)| Some((str::from_utf8(&name.0).ok()?, *value)))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All members in order, with their names as bytes.
    pub fn into_members(self) -> impl Iterator<Item = (Cow<'a, [u8]>, &'a RawValue)> {
        self.0.into_iter().map(|(name, value)| (name.0, value))
    }
}

/// Calls `each` with the name and the value of each member of an object, in order. Returns `None` if `text` is no
/// object. Nothing is kept, so the object may have any number of members.
pub(crate) fn for_each_member<'a>(
    text: &'a str,
    each: impl FnMut(&[u8], &'a RawValue),
) -> Option<()> {
    struct Members<F>(F);
    impl<'de, F: FnMut(&[u8], &'de RawValue)> Visitor<'de> for Members<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some((Name(name), value)) = map.next_entry()? {
                self.0(&name, value);
            }
            Ok(())
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(Members(each)).ok()?;
    deserializer.end().ok()
}

/// Calls `each` with each element of an array, in order. Returns `None` if `text` is no array.
pub(crate) fn for_each_element<'a>(text: &'a str, each: impl FnMut(&'a RawValue)) -> Option<()> {
    struct Elements<F>(F);
    impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Elements<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<(), A::Error> {
            while let Some(element) = array.next_element()? {
                self.0(element);
            }
            Ok(())
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_seq(Elements(each)).ok()?;
    deserializer.end().ok()
}

/// The bytes of a JSON string: UTF-8, except for lone surrogates.
pub fn bytes(value: &RawValue) -> Option<Cow<'_, [u8]>> {
    if let Some(text) = plain(value) {
        return Some(text.as_bytes().into());
    }
    let Name(bytes) = serde_json::from_str(value.get()).ok()?;
    Some(bytes)
}

/// The text of a JSON string. A lone surrogate is valid in JSON and not in UTF-8; it is replaced.
pub(crate) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    if let Some(text) = plain(value) {
        return Some(text.into());
    }
    Some(match bytes(value)? {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
    })
}

/// The text of a JSON string that has no escapes. Most have none.
fn plain(value: &RawValue) -> Option<&str> {
    let text = value.get().strip_prefix('"')?.strip_suffix('"')?;
    (!text.as_bytes().contains(&b'\\')).then_some(text)
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(Name<'de>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Members).map(Object)
    }
}

/// A JSON string as bytes. For a `String`, `serde_json` would reject the whole document because of one lone
/// surrogate; for bytes it does not.
struct Name<'a>(Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(bytes.to_vec())))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// A JSON pointer (RFC 6901) into the text of a payload, which is never decoded and encoded again.
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
        self.0.split('/').skip(1).try_fold(whole, |value, name| member_of(value, &unescaped(name)))
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

fn member_of<'a>(value: &'a RawValue, name: &str) -> Option<&'a RawValue> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_bytes() {
        let text = r#"{ "a" : {"z":1.0,"y":12345678901234567890123} , "b":"x" }"#;
        let object = Object::read(text).unwrap();
        assert_eq!(object.get("a").unwrap().get(), r#"{"z":1.0,"y":12345678901234567890123}"#);
        assert_eq!(object.text("b").unwrap(), "x");
        assert_eq!(object.text("a"), None);
        assert!(object.object("a").is_some());
        assert!(object.object("b").is_none());
        let twice = Object::read(r#"{"a":1,"\u0061":2}"#).unwrap();
        assert_eq!(twice.get("a").unwrap().get(), "2", "the last one counts");
    }

    #[test]
    fn of_many_members_only_those_are_kept_that_are_asked_for() {
        let others = r#""":1,"#.repeat(100);
        let text = format!(r#"{{"a":1,{others}"\u0061":2,"b":{{}}}}"#);
        let object = Object::with(&text, &["a", "b", "c"]).unwrap();
        assert_eq!((object.get("a").unwrap().get(), object.len()), ("2", 2), "the last one counts");
        assert!(object.get("").is_none() && object.object("b").is_some());
        for text in ["", "[]", "{}x", "{\"a\"}"] {
            assert!(Object::with(text, &["a"]).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_lone_surrogate_spoils_neither_the_object_nor_the_text() {
        let object = Object::read(r#"{"\ud800":1,"a":"x\udfffy"}"#).unwrap();
        assert_eq!(object.text("a").unwrap().chars().next(), Some('x'));
        assert_eq!(object.members().count(), 1);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "null", "[]", "1", "\"{}\"", "{", "{}x", "{\"a\"}", "\u{feff}{}"] {
            assert!(Object::read(text).is_none(), "{text:?}");
        }
    }
}
