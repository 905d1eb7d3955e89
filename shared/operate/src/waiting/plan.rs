//! What an order would be given for.

use std::collections::BTreeMap;

use comeback_core::{claim::Order, register::Entry};
use serde::Serialize;

use crate::{
    systems::function_name,
    told::{Told, Tone, events},
};

/// What an order would be given for.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Plan {
    /// How many events, by function.
    pub events: BTreeMap<String, u64>,
    /// How many of those are delayed.
    pub delayed: u64,
}

impl Plan {
    /// Counts an event that is selected.
    pub fn count(&mut self, event: Entry) {
        self.delayed += u64::from(event.receipt_handle.is_none());
        *self.events.entry(event.target).or_default() += 1;
    }

    /// How many events there are.
    pub fn all(&self) -> u64 {
        self.events.values().sum()
    }

    /// What the order would do.
    pub fn told(&self, order: Order) -> Vec<Told> {
        let what = match order {
            Order::Retry => "to retry now",
            Order::Cancel => "to give up, as dead letters with the reason cancelled",
        };
        let line = |(function, number): (&String, &u64)| {
            Told::plain(format!("{} of {} {what}", events(*number), function_name(function)))
        };
        let mut told: Vec<_> = self.events.iter().map(line).collect();
        if told.is_empty() {
            told.push(Told::nothing_to_do());
        }
        if self.delayed > 0 {
            let text = format!("{} delayed: within 15 minutes", events(self.delayed));
            told.push(Told { tone: Tone::Faint, text });
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::stand_in::event;

    #[test]
    fn a_plan_counts_events_by_function_and_those_that_are_delayed() {
        let mut plan = Plan::default();
        let delayed = Entry { receipt_handle: None, ..event("b", 2) };
        let other = Entry { target: "arn:other".to_owned(), ..event("c", 3) };
        let orders = delayed.target.clone();
        for event in [event("a", 1), delayed, other] {
            plan.count(event);
        }
        assert_eq!(plan.events, [(orders, 2), ("arn:other".to_owned(), 1)].into());
        assert_eq!((plan.delayed, plan.all()), (1, 3));
        let text = |told: Told| told.text;
        assert_eq!(
            plan.told(Order::Retry).into_iter().map(text).collect::<Vec<_>>(),
            [
                "2 events of orders to retry now",
                "1 event of arn:other to retry now",
                "1 event delayed: within 15 minutes",
            ]
        );
        assert_eq!(Plan::default().told(Order::Cancel), [Told::nothing_to_do()]);
    }
}
