//! Collects the remaining calls for the messages of a batch, to make as few as possible.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, dead_letter::DeadLetter, decision::Settlement, reason::Reason};

use crate::{message::Source, ports::Resent, task::Act};

/// The messages to put back, by their queue, those to give up, those to send back to the queues whose consumers failed,
/// and those that are done and whose claims need a mark.
#[derive(Default)]
pub(crate) struct Settlements<'a> {
    pub(crate) waits: BTreeMap<Option<Source<'a>>, Vec<Wait<'a>>>,
    pub(crate) letters: Vec<Letter<'a>>,
    pub(crate) returns: Vec<Return<'a>>,
    pub(crate) done: Vec<Act<'a>>,
}

#[derive(Clone)]
pub(crate) struct Wait<'a> {
    pub(crate) act: Act<'a>,
    pub(crate) until: Timestamp,
}

pub(crate) struct Letter<'a> {
    pub(crate) act: Act<'a>,
    pub(crate) reason: Reason,
    pub(crate) content: DeadLetter<'a>,
}

pub(crate) struct Return<'a> {
    pub(crate) act: Act<'a>,
    pub(crate) message: Resent<'a>,
}

impl<'a> Settlements<'a> {
    pub(crate) fn add(&mut self, act: Act<'a>, settlement: Settlement) {
        let item = act.item();
        match settlement {
            Settlement::Wait { until } => {
                self.waits.entry(item.source()).or_default().push(Wait { act, until });
            }
            Settlement::DeadLetter(reason) => {
                let content = item.judgement.dead_letter(reason);
                self.letters.push(Letter { act, reason, content });
            }
        }
    }
}
