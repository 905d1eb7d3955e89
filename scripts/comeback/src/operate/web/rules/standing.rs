//! Where the events of a function stand. Each event is in one place at a time, so the numbers always add up:
//! failed = waiting + at Lambda + back + given up.

use std::collections::BTreeMap;

use comeback_core::Timestamp;

use super::event::{Place, State};

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Standing {
    events: BTreeMap<Place, u64>,
    /// When the next waiting event comes back.
    pub next: Option<Timestamp>,
    /// When the oldest waiting event failed first.
    pub oldest: Option<Timestamp>,
}

impl Standing {
    /// Takes an event from one place to another. It is new if it was nowhere, and forgotten if it goes nowhere.
    pub(super) fn moves(&mut self, from: Option<Place>, to: Option<Place>) {
        if let Some(from) = from.and_then(|from| self.events.get_mut(&from)) {
            *from -= 1;
        }
        if let Some(to) = to {
            *self.events.entry(to).or_default() += 1;
        }
    }

    /// The events that have failed at least once.
    pub fn failed(&self) -> u64 {
        self.events
            .iter()
            .filter(|((has_failed, _), _)| *has_failed)
            .map(|(_, events)| events)
            .sum()
    }

    /// Failed events in the retry queue, or on the way to it.
    pub fn waiting(&self) -> u64 {
        self.those([State::Queued, State::Waiting])
    }

    /// Failed events that were handed back: their attempt is queued, or it runs. If ends are unknown, as in an account,
    /// it may also have succeeded.
    pub fn at_lambda(&self) -> u64 {
        self.queued() + self.running()
    }

    /// Failed events whose attempt is queued at Lambda, or in their own queue.
    pub fn queued(&self) -> u64 {
        self.those([State::AtLambda, State::Retried])
    }

    pub fn running(&self) -> u64 {
        self.those([State::Running])
    }

    /// Failed events that have succeeded since, and events that were not delivered at first and are now.
    pub fn back(&self) -> u64 {
        self.those([State::Succeeded, State::Delivered])
    }

    pub fn given_up(&self) -> u64 {
        self.those([State::GivenUp])
    }

    /// Events that Lambda has accepted and not run yet. They have not failed.
    pub fn first_runs(&self) -> u64 {
        self.events.get(&(false, State::AtLambda)).copied().unwrap_or_default()
    }

    fn those<const N: usize>(&self, states: [State; N]) -> u64 {
        states.iter().filter_map(|state| self.events.get(&(true, *state))).sum()
    }

    /// The sum of the numbers of several functions.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for Self { events, next, oldest } in all {
            for (place, number) in events {
                *sum.events.entry(*place).or_default() += number;
            }
            sum.next = sum.next.into_iter().chain(*next).min();
            sum.oldest = sum.oldest.into_iter().chain(*oldest).min();
        }
        sum
    }
}
