//! Takes an event out of its envelope.
//!
//! The runtime receives the original payload. The retry metadata goes into the client context, which an asynchronous
//! invocation doesn't use: Lambda passes on only the client context of a synchronous caller.
//!
//! Most runtimes allow only strings in the context's member `custom`, so the metadata is a string that holds JSON:
//! `{"custom":{"comeback":"{\"attempt\":2,…}"}}`.

use std::{collections::BTreeMap, fmt::Write};

use comeback_core::envelope::{CONTEXT_FACTS, Envelope, INVOCATION_MAX, RetryMetadata};
use serde_json::value::{RawValue, to_raw_value};

use crate::http::AnswerHead;

const CLIENT_CONTEXT: &str = "Lambda-Runtime-Client-Context";

/// What is known about an answer's body while it is still arriving.
#[derive(Debug, Default)]
pub struct Content {
    length: usize,
    /// The first byte that is not white space.
    first: Option<u8>,
}

impl Content {
    /// Adds bytes that have arrived.
    pub fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        self.first = self.first.or_else(|| bytes.trim_ascii_start().first().copied());
    }

    /// Whether the body may still be an envelope, so that it is held back until its end. It can't be one if it is
    /// larger than an asynchronous invocation, or not an object.
    pub fn may_be_envelope(&self) -> bool {
        self.length <= INVOCATION_MAX && self.first.is_none_or(|first| first == b'{')
    }
}

/// The new head and the payload of an answer, if its body is an envelope.
pub fn open<'a>(head: &[u8], body: &'a [u8]) -> Option<(Vec<u8>, &'a [u8])> {
    let (retry, payload) = Envelope::find(str::from_utf8(body).ok()?)?;
    let payload = payload.get().as_bytes();
    let answer = AnswerHead::read(head, false).ok()?;
    let context = match answer.values(CLIENT_CONTEXT)[..] {
        [] => with_facts(None, &retry),
        [context] => with_facts(Some(context), &retry),
        // It is unclear which of several headers counts.
        [_, _, ..] => None,
    };
    // The status line and the headers stay unchanged, except the headers that would be wrong now.
    let head = head.trim_ascii_start();
    let status_line = head.iter().position(|&byte| byte == b'\n')? + 1;
    let mut opened = Vec::with_capacity(head.len() + 256);
    opened.extend_from_slice(&head[..status_line]);
    let mut add = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            opened.extend_from_slice(part);
        }
    };
    let is_replaced = |name: &str| {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        is("content-length")
            || is("transfer-encoding")
            || is("trailer")
            || context.is_some() && is(CLIENT_CONTEXT)
    };
    for &(name, value) in answer.headers.iter().filter(|(name, _)| !is_replaced(name)) {
        add(name, value);
    }
    add("Content-Length", payload.len().to_string().as_bytes());
    if let Some(context) = &context {
        add(CLIENT_CONTEXT, context.as_bytes());
    }
    opened.extend_from_slice(b"\r\n");
    Some((opened, payload))
}

/// The members of an object, with their values as they were written.
type Members = BTreeMap<String, Box<RawValue>>;

/// Adds the facts of a retry to the client context. Returns `None` if the existing context has another form; it must
/// then stay unchanged.
fn with_facts(context: Option<&[u8]>, retry: &RetryMetadata) -> Option<String> {
    let mut context = match context {
        Some(text) if !text.is_empty() => serde_json::from_slice::<Members>(text).ok()?,
        Some(_) | None => Members::new(),
    };
    let mut custom = match context.get("custom") {
        Some(custom) if custom.get() != RawValue::NULL.get() => {
            serde_json::from_str::<Members>(custom.get()).ok()?
        }
        Some(_) | None => Members::new(),
    };
    custom.insert(CONTEXT_FACTS.to_owned(), facts(retry)?);
    context.insert("custom".to_owned(), to_raw_value(&custom).ok()?);
    // serde_json does not escape all characters that are not allowed in a header.
    Some(in_ascii(&serde_json::to_string(&context).ok()?))
}

fn facts(retry: &RetryMetadata) -> Option<Box<RawValue>> {
    to_raw_value(&serde_json::to_string(&retry.known()).ok()?).ok()
}

/// The same JSON, with only the characters that are allowed in a header.
fn in_ascii(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~') {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // A write to memory can't fail.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use comeback_core::envelope::REQUEST_ID_MAX;
    use serde_json::{Value, json};

    use super::*;

    fn retry(metadata: &str) -> RetryMetadata {
        let event = format!(r#"{{"_retry_metadata":{metadata},"_original_payload":1}}"#);
        Envelope::find(&event).unwrap().0
    }

    fn second() -> RetryMetadata {
        retry(r#"{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b46cbf"}"#)
    }

    const FACTS: &str =
        r#"{\"attempt\":2,\"initial_timestamp\":1643667670,\"request_id\":\"e4b46cbf\"}"#;

    #[test]
    fn the_facts_are_added_to_the_existing_context() {
        for (context, expected) in [
            (None, r#"{"custom":{"comeback":"FACTS"}}"#),
            (Some(""), r#"{"custom":{"comeback":"FACTS"}}"#),
            (Some("{}"), r#"{"custom":{"comeback":"FACTS"}}"#),
            (Some(r#"{"custom":null}"#), r#"{"custom":{"comeback":"FACTS"}}"#),
            (
                Some(
                    r#"{"client":{"app_title":"shöp"},"custom":{"a":1.50,"comeback":"old","é\u007f": [ ]}}"#,
                ),
                r#"{"client":{"app_title":"sh\u00f6p"},"custom":{"a":1.50,"comeback":"FACTS","\u00e9\u007f":[ ]}}"#,
            ),
        ] {
            let context = with_facts(context.map(str::as_bytes), &second());
            assert_eq!(context.unwrap(), expected.replace("FACTS", FACTS));
        }
    }

    #[test]
    fn a_context_of_another_form_stays_unchanged() {
        for context in ["7", "[]", r#""text""#, r#"{"custom":[]}"#, "{", r#"{"custom":"x"}"#] {
            assert_eq!(with_facts(Some(context.as_bytes()), &second()), None, "{context}");
        }
        assert_eq!(with_facts(Some(b"{\"a\":\"\xff\"}"), &second()), None);
    }

    #[test]
    fn the_header_is_one_that_every_runtime_accepts() {
        let told = |metadata: &str| -> Value {
            let context = with_facts(None, &retry(metadata)).unwrap();
            assert!(context.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{context}");
            let context: Value = serde_json::from_str(&context).unwrap();
            serde_json::from_str(context["custom"]["comeback"].as_str().unwrap()).unwrap()
        };
        let odd = r#"{"attempt":1,"initial_timestamp":5,"request_id":"é\u007f\n😀\"","more":"kept in the envelope"}"#;
        let expected =
            json!({ "attempt": 1, "initial_timestamp": 5, "request_id": "é\u{7f}\n😀\"" });
        assert_eq!(told(odd), expected);
        let long = format!(
            r#"{{"attempt":1,"initial_timestamp":5,"request_id":"{}"}}"#,
            "x".repeat(REQUEST_ID_MAX + 1)
        );
        assert_eq!(told(&long), json!({ "attempt": 1, "initial_timestamp": 5 }));
    }
}
