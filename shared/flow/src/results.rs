//! What has come of the messages of a batch.
//!
//! The calls that act on the messages run concurrently, and the end of the batch's time cuts off those without an
//! answer. So each result is told here as soon as it is known. Nothing is read before the batch is over: what a phase
//! needs of another one, it gets as a value. A call that is cut off tells nothing, and its message counts as not
//! reached.

use std::cell::RefCell;

use crate::{
    item::Item,
    log,
    report::{Entry, Obstacle, Outcome},
};

/// The results by the places of the messages in their batch.
pub(crate) struct Results(RefCell<Vec<Told>>);

#[derive(Clone, Default)]
struct Told {
    outcome: Option<Outcome>,
    obstacle: Option<Obstacle>,
    /// Whether the message was acted on under a claim that is not marked yet.
    is_unmarked: bool,
}

impl Results {
    pub(crate) fn of(messages: usize) -> Self {
        Self(RefCell::new(vec![Told::default(); messages]))
    }

    /// Ends a message with this outcome, and logs it.
    pub(crate) fn end(&self, item: &Item<'_>, outcome: Outcome) {
        log::ended(item, &outcome);
        self.with(item, |told| {
            debug_assert!(told.outcome.is_none(), "a message ended twice: {:?}", told.outcome);
            told.outcome.get_or_insert(outcome);
        });
    }

    /// Ends a message that was acted on under a claim, which is to be marked.
    pub(crate) fn end_unmarked(&self, item: &Item<'_>, outcome: Outcome) {
        self.end(item, outcome);
        self.with(item, |told| told.is_unmarked = true);
    }

    /// The mark of the message's claim was answered.
    pub(crate) fn mark(&self, item: &Item<'_>) {
        self.with(item, |told| told.is_unmarked = false);
    }

    /// The message has met this obstacle. If it has met several, the first is the cause of the others.
    pub(crate) fn meet(&self, item: &Item<'_>, obstacle: Option<Obstacle>) {
        self.with(item, |told| told.obstacle = told.obstacle.or(obstacle));
    }

    fn with(&self, item: &Item<'_>, tell: impl FnOnce(&mut Told)) {
        if let Some(told) = self.0.borrow_mut().get_mut(item.nth) {
            tell(told);
        }
    }

    /// An entry for each message of the batch, in order. Those that have not ended were not reached.
    pub(crate) fn entries(self, mut items: Vec<Item<'_>>) -> Vec<Entry> {
        items.sort_unstable_by_key(|item| item.nth);
        let results = items.into_iter().zip(self.0.into_inner());
        let entries = results.map(|(item, Told { outcome, obstacle, is_unmarked })| {
            let outcome = outcome.unwrap_or_else(|| {
                log::ended(&item, &Outcome::NotReached);
                Outcome::NotReached
            });
            if is_unmarked {
                log::unmarked(&item);
            }
            item.into_entry(outcome, obstacle)
        });
        entries.collect()
    }
}
