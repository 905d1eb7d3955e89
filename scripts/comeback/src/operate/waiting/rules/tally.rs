//! How many events an order is for, and what became of them.

use std::collections::{BTreeMap, BTreeSet};

use comeback_core::{claim::Order, register::Entry};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::names::target_name,
    notice::{Notice, Tone},
    text::events,
    untrusted,
};

#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Plan {
    pub events: BTreeMap<String, u64>,
    pub delayed: u64,
}

impl Plan {
    pub fn count(&mut self, event: Entry) {
        self.delayed += u64::from(event.receipt_handle.is_none());
        *self.events.entry(event.target).or_default() += 1;
    }

    /// The number of events that the order is for.
    pub fn all(&self) -> u64 {
        self.events.values().sum()
    }

    pub fn notices(&self, order: Order) -> Vec<Notice> {
        let what = match order {
            Order::Retry => "to retry now",
            Order::Cancel => "to give up, as dead letters with the reason cancelled",
        };
        let line = |(function, number): (&String, &u64)| {
            Notice::plain(format!("{} of {} {what}", events(*number), target_name(function)))
        };
        let mut notices: Vec<_> = self.events.iter().map(line).collect();
        if notices.is_empty() {
            notices.push(Notice::nothing_to_do());
        }
        if self.delayed > 0 {
            let text = format!("{} delayed: within 15 minutes", events(self.delayed));
            notices.push(Notice { tone: Tone::Faint, text });
        }
        notices
    }
}

#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Tally {
    /// The number of events for which an order was written, by function. Their messages come back immediately.
    pub ordered: BTreeMap<String, u64>,
    /// The number of these that are delayed. SQS can't shorten a delay, so they come back within 15 minutes.
    pub delayed: u64,
    pub too_late: u64,
    pub failed: u64,
    /// The number of orders whose messages could not be made visible. These events come back when they are due.
    pub not_shown: u64,
    #[schemars(with = "BTreeSet<untrusted::Text>")]
    pub faults: BTreeSet<String>,
}

impl Tally {
    pub fn ordered(&self) -> u64 {
        self.ordered.values().sum()
    }

    pub fn notices(&self, order: Order) -> Vec<Notice> {
        let what = |number| match (order, number) {
            (Order::Retry, 1) => "comes back now",
            (Order::Retry, _) => "come back now",
            (Order::Cancel, 1) => "is given up",
            (Order::Cancel, _) => "are given up",
        };
        let line = |(function, number): (&String, &u64)| {
            let (events, function) = (events(*number), target_name(function));
            Notice::good(format!("{events} of {function} {}", what(*number)))
        };
        let mut notices: Vec<_> = self.ordered.iter().map(line).collect();
        if notices.is_empty() {
            notices.push(Notice::nothing_done());
        }
        for (tone, number, text) in [
            (Tone::Faint, self.delayed, "of these delayed: they come back within 15 minutes"),
            (Tone::Faint, self.too_late, "no longer waited"),
            (
                Tone::Bad,
                self.not_shown,
                "of these could not be brought forward: they are handled when they are due",
            ),
            (Tone::Bad, self.failed, "could not be ordered"),
        ] {
            if number > 0 {
                notices.push(Notice { tone, text: format!("{} {text}", events(number)) });
            }
        }
        notices.extend(self.faults.iter().map(Notice::bad));
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::waiting::rules::stand_in::event;

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
        let text = |notices: Notice| notices.text;
        assert_eq!(
            plan.notices(Order::Retry).into_iter().map(text).collect::<Vec<_>>(),
            [
                "2 events of orders to retry now",
                "1 event of arn:other to retry now",
                "1 event delayed: within 15 minutes",
            ]
        );
        assert_eq!(Plan::default().notices(Order::Cancel), [Notice::nothing_to_do()]);
    }
}
