//! A waiting event, as it is listed, grouped and selected.

use std::{collections::BTreeSet, time::Duration};

use comeback_core::{
    Timestamp, circuit::Circuit, claim::Order, lineage::Key, register::Entry, target::Target,
    time::later,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::held::Held;

use crate::{
    account::names::target_name,
    filter::{FailureFilter, any},
    life::{Life, Next},
    typed::{NONE, not_empty},
    untrusted,
};

/// If an event is later than this, its message is gone, or nothing receives from its queue.
const LATE_MAX: Duration = Duration::from_mins(15);

/// A waiting event from the handler's log, which has neither queue nor error message; `None` if it doesn't wait.
pub fn of_life(life: Life) -> Option<Entry> {
    let Next::Waits { until } = life.next else { return None };
    let first = life.steps.first()?;
    let last = life.steps.iter().rfind(|step| step.what.is_failure())?;
    let error_type = last.what.error_type().map(str::to_owned);
    Some(Entry {
        // The log has no payload, so this is not the key of its item.
        key: Key { id: life.function.clone()?, run: last.request_id.clone() },
        target: life.function?,
        queue_url: String::new(),
        event_id: life.event_id,
        attempt: last.attempt.unwrap_or_default(),
        due: until,
        first_failure: first.at,
        error_type,
        error_message: None,
        policy: life.steps.last().and_then(|step| step.policy.clone()),
        receipt_handle: None,
        order: None,
    })
}

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Listed {
    #[schemars(with = "untrusted::Id")]
    pub event_id: String,
    /// The request id of the last failed invocation.
    #[schemars(with = "untrusted::Id")]
    pub request_id: String,
    pub function: String,
    pub attempt: u32,
    pub due_at: Timestamp,
    pub first_failed_at: Timestamp,
    #[schemars(with = "Option<untrusted::Text>")]
    pub error_type: Option<String>,
    /// The message of the last error, possibly truncated.
    #[schemars(with = "Option<untrusted::Text>")]
    pub error_message: Option<String>,
    /// The policy that decided, if it is that of the last error, such as `RateLimited* of orders`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    pub queue: Option<String>,
    /// How the message waits, if known: `in_flight` or `delayed`.
    pub kept: Option<&'static str>,
    /// Whether it is over 15 minutes late: its message is gone, or nothing receives from its queue.
    pub overdue: bool,
    /// The operator's order, if any: `retry` or `cancel`.
    pub order: Option<&'static str>,
    /// What holds the event back although its due time is over: that time is an old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

impl Listed {
    pub fn of(event: &Entry, now: Timestamp) -> Self {
        Self {
            event_id: event.event_id.clone(),
            request_id: event.request_id().to_owned(),
            function: event.target.clone(),
            attempt: event.attempt,
            due_at: event.due,
            first_failed_at: event.first_failure,
            error_type: event.error_type.clone(),
            error_message: event.error_message.clone(),
            policy: event.policy.clone(),
            queue: Some(event.queue_url.clone()).filter(|queue| !queue.is_empty()),
            kept: match (&event.receipt_handle, event.queue_url.is_empty()) {
                (Some(_), _) => Some("in_flight"),
                (None, false) => Some("delayed"),
                (None, true) => None,
            },
            overdue: later(event.due, LATE_MAX) < now,
            order: event.order.map(|order| match order {
                Order::Retry => "retry",
                Order::Cancel => "cancel",
            }),
            held: None,
        }
    }

    /// The same event, held back by its circuit if it should have come back. An order overrides the circuit.
    #[must_use]
    pub fn under(self, circuit: Option<&Circuit>, now: Timestamp) -> Self {
        let is_over = self.due_at <= now && !self.overdue && self.order.is_none();
        let held = circuit.filter(|_| is_over).and_then(Held::by);
        Self { held, ..self }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GroupBy {
    Function,
    Error,
    Attempt,
}

impl GroupBy {
    pub const ALL: [(&str, Self); 3] =
        [("function", Self::Function), ("error", Self::Error), ("attempt", Self::Attempt)];

    pub fn key(self, event: &Entry) -> String {
        match self {
            Self::Function => target_name(&event.target).into_owned(),
            Self::Error => event.error_type.clone().unwrap_or_else(|| NONE.to_owned()),
            Self::Attempt => event.attempt.to_string(),
        }
    }
}

/// Filters on events. All filters must match. A repeatable filter matches if one of its values does.
#[derive(Clone, Debug, Default, Eq, PartialEq, clap::Args)]
pub struct Selection {
    /// The beginning of an event's id or of its latest request id; repeatable.
    #[arg(long = "id", value_name = "ID", value_parser = not_empty)]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub failures: FailureFilter,
    #[arg(skip)]
    pub due_before: Option<Timestamp>,
    /// The keys of the only events to select, if a plan has named them.
    #[arg(skip)]
    pub named: Option<BTreeSet<String>>,
}

impl Selection {
    pub fn matches(&self, event: &Entry) -> bool {
        self.named.as_ref().is_none_or(|named| named.contains(&event.key.to_string()))
            && any(&self.ids, |id| {
                event.event_id.starts_with(id) || event.request_id().starts_with(id)
            })
            && self.failures.matches(
                Target::parse(&event.target).as_ref(),
                event.error_type.as_deref(),
                event.error_message.as_deref(),
            )
            && self.due_before.is_none_or(|before| event.due < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{
        life::{
            lives,
            tests::{WAIT, at, line},
        },
        operate::waiting::rules::stand_in::{event, second},
    };

    #[test]
    fn an_event_that_should_have_come_back_long_ago_is_overdue() {
        let event = event("a", 100);
        let overdue = |now| Listed::of(&event, second(now)).overdue;
        assert!(!overdue(0) && !overdue(100) && !overdue(1000));
        assert!(overdue(1001));
    }

    #[test]
    fn an_event_that_should_have_come_back_is_held_by_a_circuit_that_is_not_closed() {
        let text = r#"{"by":"","patience_seconds":0,"phase":{"open":{"since":0,"next_at":200000,"interval_seconds":60}}}"#;
        let open = Circuit::read(text).unwrap();
        let ordered = Entry { order: Some(Order::Retry), ..event("a", 100) };
        for (event, circuit, now, expected) in [
            (&event("a", 100), Some(&open), 99, None),
            (&event("a", 100), Some(&open), 100, Some("open")),
            (&event("a", 100), None, 100, None),
            (&event("a", 100), Some(&Circuit::new(second(0))), 100, None),
            (&event("a", 100), Some(&open), 1001, None),
            (&ordered, Some(&open), 100, None),
        ] {
            let listed = Listed::of(event, second(now)).under(circuit, second(now));
            assert_eq!(listed.held.map(|held| held.circuit), expected, "{now}");
        }
    }

    #[test]
    fn every_event_has_a_group() {
        let mut event = event("a", 100);
        let keys = |event: &Entry| GroupBy::ALL.map(|(_, by)| by.key(event));
        assert_eq!(keys(&event), ["orders", "app.Down", "2"]);
        event.error_type = None;
        event.target = "arn:aws:lambda:us-east-1:1:function:orders:live".to_owned();
        assert_eq!(keys(&event), ["orders:live", "none", "2"]);
    }

    #[test]
    fn an_event_whose_life_waits_is_listed_from_the_log_alone() {
        let other = line(1, "another", "other", WAIT);
        let lines = [&*other, "START RequestId: first", "{}", r#"{"_aws":{}}"#, ""];
        let waiting: Vec<_> = lives(lines).into_iter().filter_map(of_life).collect();
        let [event] = &*waiting else { panic!("{waiting:?}") };
        assert_eq!((&*event.event_id, event.request_id(), event.attempt), ("another", "other", 1));
        assert_eq!((event.due, event.first_failure), (at(3), at(1)));
        assert_eq!(event.error_type.as_deref(), Some("Down"));
        assert_eq!(Listed::of(event, at(2)).kept, None);
    }
}
