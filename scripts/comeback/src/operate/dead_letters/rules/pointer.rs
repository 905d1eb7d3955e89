//! A place in a payload, and the value that it has or is given.

use comeback_core::json::{self, Object, Pointer};
use serde_json::value::RawValue;

/// A JSON pointer and a value, as in `/order/country=DE`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PointerValue {
    pub pointer: Pointer,
    /// The value to find or to set: JSON, or a string without quotes.
    pub value: String,
}

impl PointerValue {
    /// Parses `POINTER=VALUE`. The pointer ends at the first equals sign.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let parsed = text.split_once('=').and_then(|(pointer, value)| {
            Some(Self { pointer: Pointer::parse(pointer)?, value: value.to_owned() })
        });
        parsed.ok_or("expected a JSON pointer and a value, such as /order/country=DE")
    }

    /// Whether the payload has the value at the pointer: the same JSON text, or a string with this text.
    pub fn holds(&self, payload: &str) -> bool {
        let Some(found) = self.pointer.find(payload) else { return false };
        found.get() == self.value
            || json::bytes(found).is_some_and(|bytes| *bytes == *self.value.as_bytes())
    }

    /// The payload with the value at the pointer. The value replaces an existing one or is added to an existing object;
    /// `None` if neither exists.
    pub fn set(&self, payload: &str) -> Option<String> {
        let is_json = serde_json::from_str::<&RawValue>(&self.value).is_ok();
        let value = if is_json { self.value.clone() } else { quoted(&self.value) };
        if let Some(old) = self.pointer.find(payload) {
            let start = offset(payload, old);
            return Some(spliced(payload, start, start + old.get().len(), &value));
        }
        let (parent, name) = self.pointer.split()?;
        let object = parent.find(payload)?;
        let is_empty = Object::read(object.get())?.into_members().next().is_none();
        let end = offset(payload, object) + object.get().len() - 1;
        let comma = if is_empty { "" } else { "," };
        let member = format!("{comma}{}:{value}", quoted(&name));
        Some(spliced(payload, end, end, &member))
    }
}

fn offset(text: &str, part: &RawValue) -> usize {
    part.get().as_ptr().addr() - text.as_ptr().addr()
}

fn spliced(text: &str, start: usize, end: usize, part: &str) -> String {
    [&text[..start], part, &text[end..]].concat()
}

fn quoted(text: &str) -> String {
    // Serializing a string can't fail.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAYLOAD: &str = r#" {"order" : {"country":"D\u0045","n":12345678901234567890123,"lines":[1.0,{"a/b":null}]},
        "empty":{ }, "order2":"x"} "#;

    fn place(text: &str) -> PointerValue {
        PointerValue::parse(text).unwrap()
    }

    #[test]
    fn a_place_holds_a_value_by_its_text() {
        for (text, expected) in [
            ("/order/country=DE", true),
            (r#"/order/country="D\u0045""#, true),
            ("/order/country=FR", false),
            ("/order/n=12345678901234567890124", false),
            ("/order/lines/0=1.0", true),
            ("/order/lines/0=1", false),
            ("/order/lines/1/a~1b=null", true),
            ("/order/missing=", false),
        ] {
            assert_eq!(place(text).holds(PAYLOAD), expected, "{text}");
        }
        assert!(!place("/a=1").holds("no JSON"));
        assert!(place("=7").holds("7"), "the empty pointer is the whole payload");
        for text in ["order=DE", "/order", ""] {
            assert!(PointerValue::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn setting_a_value_leaves_every_other_byte() {
        let set = |text: &str| place(text).set(PAYLOAD).unwrap();
        assert_eq!(set("/order/country=FR"), PAYLOAD.replace(r#""D\u0045""#, r#""FR""#));
        assert_eq!(set("/order/n=7"), PAYLOAD.replace("12345678901234567890123", "7"));
        assert_eq!(set(r#"/order/n="7""#), PAYLOAD.replace("12345678901234567890123", r#""7""#));
        assert_eq!(set("/empty/new~0=true"), PAYLOAD.replace("{ }", r#"{ "new~":true}"#));
        assert_eq!(set("/order/new=1"), PAYLOAD.replace("]}", r#"],"new":1}"#));
        assert_eq!(place("=[]").set("7"), Some("[]".to_owned()));
        for text in ["/order2/x=1", "/none/x=1", "/order/lines/7=1"] {
            assert_eq!(place(text).set(PAYLOAD), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_value_that_was_set_is_found(name in "[a-z~/\"\\\\é]{0,8}", value in "[a-zé\"{}]{0,8}", payload in "\\{(\"a\":1)?\\}") {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            let place = PointerValue { pointer: Pointer::parse(&format!("/{escaped}")).unwrap(), value };
            let set = place.set(&payload).unwrap();
            prop_assert!(place.holds(&set), "{set}");
        }
    }
}
