//! A call has at most ten entries, and together they are no larger than one message may be.

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::known::Known;

/// SQS accepts at most this many entries in one call, and together at most as many bytes as one message may have.
const ENTRIES_MAX: usize = 10;
const CALL_BYTES_MAX: usize = 1_048_576;

#[derive(Default)]
pub struct Fits;

impl Promise for Fits {
    fn on(&mut self, happens: Happens<'_>, _: &Known) -> Kept {
        let Happens::Sends(entries, of_what, bytes) = happens else { return Ok(()) };
        let fits = entries <= ENTRIES_MAX && (entries == 1 || bytes <= CALL_BYTES_MAX);
        ensure(fits, Check::CallsFit, || {
            format!("{entries} {of_what} of {bytes} bytes in one call")
        })
    }
}
