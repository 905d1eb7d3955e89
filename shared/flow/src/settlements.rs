//! Collects the remaining calls for the messages of a batch, to make as few as possible.

use std::collections::BTreeMap;

use comeback_core::{
    Timestamp, attribute::SIZE_MAX, dead_letter::DeadLetter, decision::Settlement, reason::Reason,
};

use crate::{item::Item, message::Source, ports::ENTRIES_MAX};

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

/// Splits `entries`, in order, into parts that fit into one call: at most ten entries, and together no larger than
/// SQS accepts. An entry that is too large by itself gets a part of its own.
pub(crate) fn by_size<T>(entries: &[T], size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut parts = Vec::new();
    let (mut start, mut total) = (0, 0);
    for (index, entry) in entries.iter().enumerate() {
        let size = size(entry);
        if index > start && (index - start == ENTRIES_MAX || total + size > SIZE_MAX) {
            parts.push(&entries[start..index]);
            (start, total) = (index, 0);
        }
        total += size;
    }
    if start < entries.len() {
        parts.push(&entries[start..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_holds_ten_entries_and_what_fits_into_one_message() {
        let lengths = |sizes: &[usize]| {
            by_size(sizes, |&size| size).iter().map(|part| part.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[]), [0usize; 0]);
        assert_eq!(lengths(&[1; 10]), [10]);
        assert_eq!(lengths(&[1; 21]), [10, 10, 1]);
        assert_eq!(lengths(&[SIZE_MAX / 2; 5]), [2, 2, 1]);
        assert_eq!(lengths(&[1, SIZE_MAX, 1, SIZE_MAX - 1]), [1, 1, 2]);
        assert_eq!(lengths(&[SIZE_MAX + 1, SIZE_MAX + 1]), [1, 1]);
    }
}
