//! An event, taken out of its envelope.
//!
//! The runtime is given the payload that its function was first given, and finds the facts of the retry where it
//! looks for what a caller says of itself: in the client context. An asynchronous invocation has none of
//! its own.

use comeback_core::envelope::{Envelope, INVOCATION_MAX};

use crate::{client_context, http::AnswerHead};

/// The header that carries the client context.
const CLIENT_CONTEXT: &str = "Lambda-Runtime-Client-Context";

/// What has come of an answer's body, as far as it counts while there is more to come.
#[derive(Debug, Default)]
pub struct Content {
    length: usize,
    /// The first byte that is no white space.
    first: Option<u8>,
}

impl Content {
    /// Some more has come.
    pub fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        self.first = self.first.or_else(|| bytes.trim_ascii_start().first().copied());
    }

    /// Whether this may be the beginning of an envelope, and has to be waited for. Envelopes come from asynchronous
    /// invocations; what is larger than those can't be one, nor what is no object.
    pub fn may_be_envelope(&self) -> bool {
        self.length <= INVOCATION_MAX && self.first.is_none_or(|first| first == b'{')
    }
}

/// The head and the payload of an answer whose body is an envelope.
pub fn open<'a>(head: &[u8], body: &'a [u8]) -> Option<(Vec<u8>, &'a [u8])> {
    let (retry, payload) = Envelope::find(str::from_utf8(body).ok()?)?;
    let payload = payload.get().as_bytes();
    let answer = AnswerHead::read(head, false).ok()?;
    let context = match answer.values(CLIENT_CONTEXT)[..] {
        [] => client_context::with_facts(None, &retry),
        [context] => client_context::with_facts(Some(context), &retry),
        // Nobody can tell which of them counts.
        [_, _, ..] => None,
    };
    // The status line stays as it is, and so does each header but those that are not true any more.
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
