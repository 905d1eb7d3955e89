//! Collects the remaining calls for the messages of a batch, to make as few as possible.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, dead_letter::DeadLetter, decision::Settlement, reason::Reason};

use crate::{item::Item, message::Source, task::Task};

/// The messages to put back, by their queue, those to give up, and those that are done and whose claims need a mark.
#[derive(Default)]
pub(crate) struct Settlements<'a> {
    pub(crate) waits: BTreeMap<Option<Source<'a>>, Vec<Wait<'a>>>,
    pub(crate) letters: Vec<Letter<'a>>,
    pub(crate) done: Vec<&'a Item<'a>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Wait<'a> {
    pub(crate) task: &'a Task<'a>,
    pub(crate) until: Timestamp,
}

pub(crate) struct Letter<'a> {
    pub(crate) item: &'a Item<'a>,
    pub(crate) reason: Reason,
    pub(crate) content: DeadLetter<'a>,
}

impl<'a> Settlements<'a> {
    pub(crate) fn add(&mut self, task: &'a Task<'a>, settlement: Settlement) {
        let item = task.item;
        match settlement {
            Settlement::Wait { until } => {
                self.waits.entry(item.source()).or_default().push(Wait { task, until });
            }
            Settlement::DeadLetter(reason) => {
                let content = item.judgement.dead_letter(reason);
                self.letters.push(Letter { item, reason, content });
            }
        }
    }
}
