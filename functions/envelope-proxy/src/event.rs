//! Takes an event out of its envelope.
//!
//! The runtime receives the original payload. The retry metadata goes into the client context, which an asynchronous
//! invocation doesn't use: Lambda passes on only the client context of a synchronous caller.

use comeback_core::envelope::{Envelope, INVOCATION_MAX};

use crate::{client_context, http::AnswerHead};

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
        [] => client_context::with_facts(None, &retry),
        [context] => client_context::with_facts(Some(context), &retry),
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
