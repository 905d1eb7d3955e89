//! Each message that handlers receive and send is explained, and a dead-letter queue contains what handlers have sent
//! there, and nothing else.

use super::{Check, Happens, Kept, Promise, broken, ensure};
use crate::judge::known::Known;

#[derive(Default)]
pub struct Explained {
    letters: u64,
}

impl Promise for Explained {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        const CHECK: Check = Check::NothingUnexplained;
        match happens {
            Happens::Received(None, trace) => {
                broken(CHECK, None, format!("a message with an unknown trace, {trace}"))
            }
            Happens::SendsAgain(run, None, sent) => {
                let trace = sent.trace_header.as_deref().unwrap_or_default();
                let event = known.case_with(trace).map(|case| known.event_of(case));
                let what =
                    format!("run {run} sends a message with trace {trace:?}, which none left has");
                broken(CHECK, event, what)
            }
            Happens::SendsAgain(run, Some(of), sent) => {
                let is_notice =
                    known.message(of).is_some_and(|message| known.is_to_be_split(message));
                ensure(!is_notice || of.part.is_some(), CHECK, || {
                    format!("run {run} sends {}, which is no part of its notice", sent.body)
                })
            }
            Happens::GivenUp => {
                self.letters += 1;
                Ok(())
            }
            Happens::LettersRead(count) => {
                let sent = self.letters;
                ensure(count == sent, CHECK, || {
                    format!(
                        "{count} messages are in dead-letter queues, and {sent} were sent there"
                    )
                })
            }
            _ => Ok(()),
        }
    }
}
