//! JSON that keeps its original bytes.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// An event, or a function's response: any JSON value, never re-encoded. Copies share the bytes.
///
/// White space around the value is not part of it.
#[derive(Clone, Debug)]
pub struct Payload(Arc<RawValue>);

impl Payload {
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<Box<RawValue>>(bytes).map(|raw| Self(raw.into()))
    }

    /// A function's response. If it isn't JSON, it becomes a JSON string, because records must be JSON.
    pub fn of_response(bytes: &[u8]) -> Self {
        Self::parse(bytes).unwrap_or_else(|_| Self::of(&String::from_utf8_lossy(bytes)))
    }

    /// `value` as JSON, or `null` if it can't be serialized.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        let raw =
            serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self(raw.into())
    }

    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_to_the_last_digit() {
        for json in [
            r#"{"b":1,"a":12345678901234567890123456789,"b":2.50}"#,
            r#"[ 1 , "\u00e9\ud800" ]"#,
            "null",
            "\"x\"",
        ] {
            let payload = Payload::parse(json.as_bytes()).unwrap();
            assert_eq!(payload.get(), json);
            assert_eq!(serde_json::to_string(&payload).unwrap(), json);
        }
    }

    #[test]
    fn invalid_json_is_refused_as_an_event_and_quoted_as_a_response() {
        for bytes in [&b"{"[..], b"", b"1 2", b"\"\xff\""] {
            assert!(Payload::parse(bytes).is_err());
        }
        assert_eq!(Payload::of_response(b"<a>").get(), "\"<a>\"");
        assert_eq!(Payload::of_response(b"").get(), "\"\"");
    }
}
