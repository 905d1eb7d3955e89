//! Where the messages of HTTP/1 begin and end in a stream of bytes.
//!
//! The proxy passes bytes on and does not speak HTTP itself, so that nothing is lost that it does not
//! know. All it has to find out of a connection is which answer belongs to a request for an event. What
//! can't be understood ends that search, never the connection.

mod body;
mod head;

pub use body::Body;
pub use head::{AnswerHead, RequestHead};

/// Bytes that are not HTTP/1 as it is understood here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotUnderstood;

/// Beyond this a head is not kept to be understood. Clients of Lambda send some hundred bytes; servers end
/// heads of 64 KiB or more with an error.
const HEAD_MAX: usize = 1024 * 1024;

/// Bytes of a head that has not ended yet.
#[derive(Debug, Default)]
pub struct Begun(Vec<u8>);

impl Begun {
    /// Takes what belongs to the head of these bytes, and returns how many those are and the whole head,
    /// when it has ended with them. Of a head that is too long, nothing more is taken.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), NotUnderstood> {
        // An end may have begun in the bytes before.
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

    /// What was taken.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Where a head ends: after an empty line. Lines may end without a carriage return.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut lines = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n').map(|(at, _)| at);
    lines.find_map(|at| match bytes.get(at + 1..)? {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}
