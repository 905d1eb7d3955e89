//! Finds where HTTP/1 messages begin and end in a stream of bytes.
//!
//! The proxy passes bytes on instead of being an HTTP server, so that it preserves everything that it doesn't know. It
//! only has to find the answers to requests for events. If it does not understand a message, it stops searching, and
//! passes on the rest of the connection.

mod body;
mod head;

pub use body::Body;
pub use head::{AnswerHead, RequestHead};

/// Bytes that are not HTTP/1, or a part of it that is not supported here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotUnderstood;

/// The longest head that is read. Clients of Lambda send a few hundred bytes; servers refuse heads of 64 KiB or more.
const HEAD_MAX: usize = 1024 * 1024;

/// The bytes of an incomplete head.
#[derive(Debug, Default)]
pub struct PartialHead(Vec<u8>);

impl PartialHead {
    /// Takes the bytes that belong to the head. Returns their number, and the whole head if it ends with them. If
    /// the head is too long, takes nothing.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), NotUnderstood> {
        // The empty line may have begun in the earlier bytes.
        let before = self.0.len();
        let from = before.saturating_sub(3);
        self.0.extend_from_slice(bytes);
        if let Some(end) = end_of_head(&self.0[from..]) {
            let end = from + end;
            self.0.truncate(end);
            return Ok((end - before, Some(std::mem::take(&mut self.0))));
        }
        if self.0.len() > HEAD_MAX {
            self.0.truncate(before);
            return Err(NotUnderstood);
        }
        Ok((bytes.len(), None))
    }

    /// The bytes so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The end of a head, after an empty line. Lines may end without a carriage return.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut lines = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n').map(|(at, _)| at);
    lines.find_map(|at| match bytes.get(at + 1..)? {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}
