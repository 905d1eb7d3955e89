//! What a phase hands on.

use crate::{item::Item, report::Outcome};

/// The messages of a batch after a phase.
pub(crate) struct Phase<T, D> {
    /// Those for the next phase.
    pub(crate) go_on: Vec<T>,
    /// Those that no later phase concerns.
    pub(crate) done: Vec<D>,
}

/// A message that no later phase concerns.
pub(crate) enum Done<'e> {
    /// It has ended.
    Ended(Item<'e>, Outcome),
    /// It is settled as it was judged: it waits, as a rule.
    Settled(Item<'e>),
}

impl<'e> Done<'e> {
    pub(crate) fn into_item(self) -> Item<'e> {
        match self {
            Self::Ended(item, _) | Self::Settled(item) => item,
        }
    }
}
