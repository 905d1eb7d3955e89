//! The requests and answers of one connection. Finds the answers that are events, and opens their envelopes.
//!
//! Requests are observed and passed on unchanged. Answers come in the order of the requests. An answer with an
//! event is held back until it is complete; all others are passed on as they arrive.

use std::{borrow::Cow, collections::VecDeque, mem};

use comeback_core::envelope::INVOCATION_MAX;

use crate::{
    event::{self, Content},
    http::{AnswerHead, Body, NotUnderstood, PartialHead, RequestHead},
};

/// The longest answer that is held back: an event in its envelope, with its head and the lines between its chunks.
const HELD_BACK_MAX: usize = INVOCATION_MAX + 256 * 1024;

/// The kind of a request, which determines how its answer is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    Event,
    /// A HEAD request, whose answer has no body.
    Head,
    Other,
}

/// Observes the requests on their way to the API.
#[derive(Debug)]
pub enum Requests {
    Head(PartialHead),
    Body(Body),
    /// A request was not understood. Everything after it is ignored.
    Lost,
}

impl Requests {
    pub fn new() -> Self {
        Self::Head(PartialHead::default())
    }

    /// Reads the next bytes, and adds the kinds of the requests whose heads end in them.
    pub fn look(&mut self, mut bytes: &[u8], asked: &mut VecDeque<Asked>) {
        while !bytes.is_empty() {
            match self.step(bytes, asked) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(NotUnderstood) => {
                    *self = Self::Lost;
                    return;
                }
            }
        }
    }

    fn step(&mut self, bytes: &[u8], asked: &mut VecDeque<Asked>) -> Result<usize, NotUnderstood> {
        match self {
            Self::Head(begun) => {
                let (taken, head) = begun.take(bytes)?;
                if let Some(head) = head {
                    let head = RequestHead::read(&head)?;
                    asked.push_back(match (head.is_for_event, head.is_for_head) {
                        (true, _) => Asked::Event,
                        (false, true) => Asked::Head,
                        (false, false) => Asked::Other,
                    });
                    *self = Self::after(head.body);
                }
                Ok(taken)
            }
            Self::Body(body) => {
                let taken = body.take(bytes, |_| ())?;
                if body.is_over() {
                    *self = Self::new();
                }
                Ok(taken)
            }
            Self::Lost => Ok(bytes.len()),
        }
    }

    fn after(body: Body) -> Self {
        if body.is_over() { Self::new() } else { Self::Body(body) }
    }
}

/// Passes answers on to the runtime, and opens envelopes.
#[derive(Debug)]
pub enum Answers {
    Head(PartialHead),
    Body(Body),
    /// Holding back an answer whose body may be an event in its envelope.
    Event(HeldBack),
    /// An answer was not understood. Everything after it is passed on.
    Lost,
}

#[derive(Debug, Default)]
pub struct HeldBack {
    /// Its bytes so far, unchanged.
    raw: Vec<u8>,
    head: usize,
    body: Body,
    /// What is known about the body so far.
    begun: Content,
}

impl Answers {
    pub fn new() -> Self {
        Self::Head(PartialHead::default())
    }

    /// Takes the next bytes, and adds to `out` what can be passed on by now.
    pub fn pass(&mut self, mut bytes: &[u8], asked: &mut VecDeque<Asked>, out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            match self.step(bytes, asked, out) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(NotUnderstood) => {
                    self.give_up(out);
                    out.extend_from_slice(bytes);
                    return;
                }
            }
        }
    }

    /// Adds what was held back, at the end of the connection.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Event(kept) if matches!(kept.body, Body::UntilClose) => {
                mem::take(kept).finish(out);
                *self = Self::Lost;
            }
            Self::Head(_) | Self::Body(_) | Self::Event(_) | Self::Lost => self.give_up(out),
        }
    }

    /// Passes on unchanged what was held back, and everything after it.
    fn give_up(&mut self, out: &mut Vec<u8>) {
        match mem::replace(self, Self::Lost) {
            Self::Head(begun) => out.extend_from_slice(&begun.into_bytes()),
            Self::Event(kept) => out.extend_from_slice(&kept.raw),
            Self::Body(_) | Self::Lost => {}
        }
    }

    fn step(
        &mut self,
        bytes: &[u8],
        asked: &mut VecDeque<Asked>,
        out: &mut Vec<u8>,
    ) -> Result<usize, NotUnderstood> {
        match self {
            Self::Head(begun) => {
                let (taken, head) = begun.take(bytes)?;
                if let Some(head) = head {
                    *self = Self::after_head(head, asked, out);
                }
                Ok(taken)
            }
            Self::Body(body) => {
                let taken = body.take(bytes, |_| ())?;
                out.extend_from_slice(&bytes[..taken]);
                if body.is_over() {
                    *self = Self::new();
                }
                Ok(taken)
            }
            Self::Event(kept) => {
                let taken = kept.take(bytes)?;
                if kept.body.is_over() {
                    mem::take(kept).finish(out);
                    *self = Self::new();
                } else if kept.raw.len() > HELD_BACK_MAX || !kept.begun.may_be_envelope() {
                    out.extend_from_slice(&kept.raw);
                    *self = Self::Body(mem::replace(&mut kept.body, Body::NONE));
                }
                Ok(taken)
            }
            Self::Lost => {
                out.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }

    fn after_head(head: Vec<u8>, asked: &mut VecDeque<Asked>, out: &mut Vec<u8>) -> Self {
        // If an answer has no request, the server ends the connection, for example because of a time-out.
        let read =
            asked.front().map(|&first| (first, AnswerHead::read(&head, first == Asked::Head)));
        let Some((first, Ok(AnswerHead { status, body, .. }))) = read else {
            out.extend_from_slice(&head);
            return Self::Lost;
        };
        // A status of 100 to 199 is an interim answer.
        if status >= 200 {
            asked.pop_front();
        }
        let is_event = first == Asked::Event && status == 200;
        if is_event && !body.is_over() && body.is_at_most(INVOCATION_MAX) {
            return Self::Event(HeldBack::new(head, body));
        }
        out.extend_from_slice(&head);
        if body.is_over() { Self::new() } else { Self::Body(body) }
    }
}

impl HeldBack {
    fn new(mut head: Vec<u8>, body: Body) -> Self {
        if let Body::Length(length) = body {
            head.reserve_exact(usize::try_from(length).unwrap_or_default());
        }
        Self { head: head.len(), raw: head, body, begun: Content::default() }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<usize, NotUnderstood> {
        let begun = &mut self.begun;
        let taken = self.body.take(bytes, |content| begun.add(content))?;
        self.raw.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Adds the event without its envelope, or the unchanged answer.
    fn finish(self, out: &mut Vec<u8>) {
        let (head, body) = self.raw.split_at(self.head);
        let content = match self.body {
            Body::Length(_) | Body::UntilClose => Cow::Borrowed(body),
            Body::Chunked(_) => Cow::Owned(unchunked(body)),
        };
        match event::open(head, &content) {
            Some((head, payload)) => {
                out.reserve_exact(head.len() + payload.len());
                out.extend_from_slice(&head);
                out.extend_from_slice(payload);
            }
            None => out.extend_from_slice(&self.raw),
        }
    }
}

fn unchunked(body: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(body.len());
    // It can't fail, because the body was understood when it arrived.
    let _ = Body::chunked().take(body, |chunk| content.extend_from_slice(chunk));
    content
}

#[cfg(test)]
mod tests;
