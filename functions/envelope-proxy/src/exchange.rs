//! One connection's requests and answers: which answer is an event, and what becomes of it.
//!
//! Requests are only looked at on their way up. Answers come in the order of the requests; the one that
//! holds an event is kept until it is whole, and all others are passed on as they come.

use std::{borrow::Cow, collections::VecDeque, mem};

use comeback_core::envelope::INVOCATION_MAX;

use crate::{
    event::{self, Content},
    http::{AnswerHead, Begun, Body, NotUnderstood, RequestHead},
};

/// The longest answer that is kept: an event in its envelope, with its head and the lines between its chunks.
const KEPT_MAX: usize = INVOCATION_MAX + 256 * 1024;

/// What a request asks for, as far as it counts for its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// An event.
    Event,
    /// No body.
    Head,
    /// Anything else.
    Other,
}

/// Looks at requests on their way up.
#[derive(Debug)]
pub enum Requests {
    /// In a head.
    Head(Begun),
    /// In a body.
    Body(Body),
    /// Not understood: no more is.
    Lost,
}

impl Requests {
    /// At the beginning of a connection.
    pub fn new() -> Self {
        Self::Head(Begun::default())
    }

    /// Looks at the next bytes, and adds what the requests that have begun with them ask for.
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

/// Passes answers on, and opens the events among them.
#[derive(Debug)]
pub enum Answers {
    /// In a head.
    Head(Begun),
    /// In a body that is passed on.
    Body(Body),
    /// In a body that may be an event in its envelope.
    Event(Kept),
    /// Not understood: all is passed on.
    Lost,
}

/// An answer that is not passed on yet.
#[derive(Debug, Default)]
pub struct Kept {
    /// All of it so far, as it came.
    raw: Vec<u8>,
    /// The length of its head.
    head: usize,
    /// What is to come.
    body: Body,
    /// What has come.
    begun: Content,
}

impl Answers {
    /// At the beginning of a connection.
    pub fn new() -> Self {
        Self::Head(Begun::default())
    }

    /// Takes the next bytes, and adds to `out` what is to be passed on by now.
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

    /// The connection has ended: adds what was kept until now.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Event(kept) if matches!(kept.body, Body::UntilClose) => {
                mem::take(kept).finish(out);
                *self = Self::Lost;
            }
            Self::Head(_) | Self::Body(_) | Self::Event(_) | Self::Lost => self.give_up(out),
        }
    }

    /// Passes on what was kept, as it is, and all that comes.
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
                } else if kept.raw.len() > KEPT_MAX || !kept.begun.may_be_envelope() {
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

    /// What comes after this head.
    fn after_head(head: Vec<u8>, asked: &mut VecDeque<Asked>, out: &mut Vec<u8>) -> Self {
        // Without a request it is an answer like a time-out, and the connection is over after it.
        let read =
            asked.front().map(|&first| (first, AnswerHead::read(&head, first == Asked::Head)));
        let Some((first, Ok(AnswerHead { status, body, .. }))) = read else {
            out.extend_from_slice(&head);
            return Self::Lost;
        };
        // An answer of 100 to 199 comes before the real one.
        if status >= 200 {
            asked.pop_front();
        }
        let is_event = first == Asked::Event && status == 200;
        if is_event && !body.is_over() && body.is_at_most(INVOCATION_MAX) {
            return Self::Event(Kept::new(head, body));
        }
        out.extend_from_slice(&head);
        if body.is_over() { Self::new() } else { Self::Body(body) }
    }
}

impl Kept {
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

    /// Adds the event without its envelope, or the answer as it came.
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

/// What the chunks of a whole body carry.
fn unchunked(body: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(body.len());
    // It was understood when it came.
    let _ = Body::chunked().take(body, |chunk| content.extend_from_slice(chunk));
    content
}

#[cfg(test)]
mod tests;
