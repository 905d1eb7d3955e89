//! What is still to be done for the messages of a batch, gathered for as few calls as can be.

use std::collections::BTreeMap;

use comeback_core::{
    Timestamp,
    dead_letter::{DeadLetter, Reason},
};

use crate::{item::Item, ports::CallFault};

/// What is to be put back, by queue, what is to be given up, and what is to be marked as acted on.
#[derive(Default)]
pub(crate) struct Settlements<'a, 'e> {
    pub(crate) waits: BTreeMap<&'a str, Vec<Wait<'a, 'e>>>,
    pub(crate) letters: Vec<Letter<'a, 'e>>,
    pub(crate) marks: Vec<&'a Item<'e>>,
}

/// A message to be put back until its time comes.
pub(crate) struct Wait<'a, 'e> {
    pub(crate) item: &'a Item<'e>,
    pub(crate) until: Timestamp,
}

/// A message to be given up.
pub(crate) struct Letter<'a, 'e> {
    pub(crate) item: &'a Item<'e>,
    pub(crate) reason: Reason,
    pub(crate) content: DeadLetter,
}

impl<'a, 'e> Settlements<'a, 'e> {
    pub(crate) fn wait(&mut self, item: &'a Item<'e>, until: Timestamp) {
        match item.queue_url() {
            Some(url) => self.waits.entry(url).or_default().push(Wait { item, until }),
            None => {
                let unknown = "its eventSourceARN names no queue: set RETRY_QUEUE_URL";
                item.left_to_queue("wait", &CallFault(unknown.to_owned()));
            }
        }
    }

    pub(crate) fn mark(&mut self, item: &'a Item<'e>) {
        self.marks.push(item);
    }

    pub(crate) fn give_up(&mut self, item: &'a Item<'e>, reason: Reason) {
        self.letters.push(Letter { item, reason, content: item.dead_letter(reason) });
    }
}
