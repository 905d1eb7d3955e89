//! Collects the remaining calls for the messages of a batch, to make as few as possible.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, dead_letter::DeadLetter, decision::Settlement, reason::Reason};

use crate::{item::Item, message::Source};

/// The messages to put back, by their queue, those to give up, and those that are done and whose claims need a mark.
#[derive(Default)]
pub(crate) struct Settlements<'a, 'e> {
    pub(crate) waits: BTreeMap<Option<Source<'e>>, Vec<Wait<'a, 'e>>>,
    pub(crate) letters: Vec<Letter<'a, 'e>>,
    pub(crate) done: Vec<&'a Item<'e>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Wait<'a, 'e> {
    pub(crate) item: &'a Item<'e>,
    pub(crate) until: Timestamp,
}

pub(crate) struct Letter<'a, 'e> {
    pub(crate) item: &'a Item<'e>,
    pub(crate) reason: Reason,
    pub(crate) content: DeadLetter<'a>,
}

impl<'a, 'e> Settlements<'a, 'e> {
    pub(crate) fn add(&mut self, item: &'a Item<'e>, settlement: Settlement) {
        match settlement {
            Settlement::Wait { until } => {
                self.waits.entry(item.source()).or_default().push(Wait { item, until });
            }
            Settlement::DeadLetter(reason) => {
                let content = item.judgement.dead_letter(reason);
                self.letters.push(Letter { item, reason, content });
            }
        }
    }
}
