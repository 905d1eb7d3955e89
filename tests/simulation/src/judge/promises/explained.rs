//! A dead-letter queue contains what handlers have sent there, and nothing else.

use super::{Happens, Kept, Promise, ensure};
use crate::notes::Check;

#[derive(Default)]
pub struct Explained {
    letters: u64,
}

impl Promise for Explained {
    fn on(&mut self, happens: Happens<'_>) -> Kept {
        let sent = self.letters;
        if let Happens::GivenUp = happens {
            self.letters += 1;
        }
        let Happens::LettersRead(count) = happens else { return Ok(()) };
        ensure(count == sent, Check::NothingUnexplained, || {
            format!("{count} messages are in dead-letter queues, and {sent} were sent there")
        })
    }
}
