//! What is to happen, and when: the order of a world.

use std::{cmp::Ordering, collections::BinaryHeap};

use comeback_core::Timestamp;

/// Things to come, those of the same moment in the order in which they were planned.
pub(crate) struct Agenda<T> {
    coming: BinaryHeap<Entry<T>>,
    sequence: u64,
}

struct Entry<T> {
    at: Timestamp,
    sequence: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self { coming: BinaryHeap::new(), sequence: 0 }
    }

    pub(crate) fn plan(&mut self, at: Timestamp, what: T) {
        self.sequence += 1;
        self.coming.push(Entry { at, sequence: self.sequence, what });
    }

    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.coming.peek().map(|entry| entry.at)
    }

    /// Takes what is next, if its time has come.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        self.coming.pop().map(|entry| entry.what)
    }
}

impl<T> Ord for Entry<T> {
    /// The greatest is the first to come.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}
