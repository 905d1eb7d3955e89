//! The waiting events, and an operator's orders for them.
//!
//! [`visit()`] reads the register: the events of some functions by due time, or all events in no order. [`carry_out`]
//! writes orders to retry events now or to cancel them. The handler carries an order out, unless it has already acted
//! on the event.

mod order;
#[cfg(test)]
pub mod stand_in;

use std::time::Duration;

use comeback_core::{
    Timestamp,
    claim::Order,
    register::{Entry, claim_key},
    target::Target,
    time::later,
};
use futures_util::future::join_all;
use serde::Serialize;

pub use crate::operate::waiting::rules::order::{Plan, Tally, carry_out, pause_done};

use crate::operate::rules::{
    Answer, Clock, FailureFilter, NONE, any,
    life::{Life, Next, StepKind},
    target_name, with_backoff,
};

/// If an event is later than this, its message is gone, or nothing receives from its queue.
const LATE_MAX: Duration = Duration::from_mins(15);

/// A waiting event from the handler's log, which has neither queue nor error message; `None` if it doesn't wait.
pub fn of_life(life: Life) -> Option<Entry> {
    let Next::Waits { until } = life.next else { return None };
    let first = life.steps.first()?;
    let last = life.steps.iter().rfind(|step| matches!(step.what, StepKind::Failed { .. }))?;
    let StepKind::Failed { error_type, .. } = &last.what else { return None };
    Some(Entry {
        key: claim_key(life.function.as_deref()?, &last.request_id),
        target: life.function?,
        queue_url: String::new(),
        event_id: life.event_id,
        attempt: last.attempt.unwrap_or_default(),
        due: until,
        first_failure: first.at,
        error_type: error_type.clone(),
        error_message: None,
        receipt_handle: None,
        order: None,
    })
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Listed {
    pub event_id: String,
    /// The request id of the last failed invocation.
    pub request_id: String,
    pub function: String,
    pub attempt: u32,
    pub due_at: Timestamp,
    pub first_failed_at: Timestamp,
    pub error_type: Option<String>,
    /// The message of the last error, possibly truncated.
    pub error_message: Option<String>,
    pub queue: Option<String>,
    /// How the message waits, if known: `in_flight` or `delayed`.
    pub kept: Option<&'static str>,
    /// Whether it is over 15 minutes late: its message is gone, or nothing receives from its queue.
    pub overdue: bool,
    /// The operator's order, if any: `retry` or `cancel`.
    pub order: Option<&'static str>,
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
        }
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

/// A filter for events. All conditions that are set must be met. For a list, one matching entry is enough.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selection {
    /// Event ids or the request ids of the latest failures, or prefixes of them.
    pub ids: Vec<String>,
    pub failures: FailureFilter,
    pub due_before: Option<Timestamp>,
}

impl Selection {
    pub fn matches(&self, event: &Entry) -> bool {
        any(&self.ids, |id| event.event_id.starts_with(id) || event.request_id().starts_with(id))
            && self.failures.matches(
                Target::parse(&event.target).as_ref(),
                event.error_type.as_deref(),
                event.error_message.as_deref(),
            )
            && self.due_before.is_none_or(|before| event.due < before)
    }
}

/// Visits the events of these partitions until `visit` returns false. Those of one function are sorted by due time.
pub async fn visit<R: Register>(
    parts: &[Partition],
    register: &R,
    mut visit: impl FnMut(Entry) -> bool,
) -> Answer<()> {
    let mut pages = Pages::of(parts);
    while let Some(events) = pages.next(register).await? {
        for event in events {
            if !visit(event) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The pages of some partitions, of which one page each is read concurrently.
struct Pages<'a, C>(Vec<(&'a Partition, Option<C>)>);

impl<'a, C: Clone> Pages<'a, C> {
    fn of(parts: &'a [Partition]) -> Self {
        Self(parts.iter().map(|part| (part, None)).collect())
    }

    /// The events of the next page of each partition; `None` if there are no more.
    async fn next<R: Register<Cursor = C>>(&mut self, register: &R) -> Answer<Option<Vec<Entry>>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let pages = self.0.drain(..).map(|(part, from)| async move {
            (part, with_backoff(register, || register.page(part, from.clone())).await)
        });
        let mut events = Vec::new();
        for (part, page) in join_all(pages).await {
            let Page { events: of_part, next } = page?;
            events.extend(of_part);
            self.0.extend(next.map(|next| (part, Some(next))));
        }
        Ok(Some(events))
    }
}

/// The maximum number of messages whose visibility SQS changes in one call.
pub const SHOWN_MAX: usize = 10;

/// A part of the register that is read separately from the others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Partition {
    /// The events of the function with this ARN, by due time.
    Target(String),
    /// A segment of all events, in no order: its index, and the number of segments.
    Segment(u16, u16),
}

#[derive(Debug)]
pub struct Page<C> {
    pub events: Vec<Entry>,
    pub next: Option<C>,
}

pub trait Register: Clock {
    type Cursor: Clone;

    /// The first page of a partition, or the one that starts at `from`.
    fn page(
        &self,
        part: &Partition,
        from: Option<Self::Cursor>,
    ) -> impl Future<Output = Answer<Page<Self::Cursor>>>;

    /// Writes an order for the event with this id, which is kept until `keep_until`. Returns the updated event, or
    /// `None` if it no longer waits.
    fn order(
        &self,
        id: &str,
        order: Order,
        keep_until: Timestamp,
    ) -> impl Future<Output = Answer<Option<Entry>>>;

    /// Makes at most [`SHOWN_MAX`] messages of a queue visible immediately, and returns a result for each, in order. A
    /// message that is no longer in flight under its handle is a success: it has already come back, and the handler
    /// finds the order.
    fn show(
        &self,
        queue_url: &str,
        receipt_handles: &[&str],
    ) -> impl Future<Output = Vec<Answer<()>>>;
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::operate::waiting::rules::stand_in::{StandIn, event, second};

    #[test]
    fn an_event_that_should_have_come_back_long_ago_is_overdue() {
        let event = event("a", 100);
        let overdue = |now| Listed::of(&event, second(now)).overdue;
        assert!(!overdue(0) && !overdue(100) && !overdue(1000));
        assert!(overdue(1001));
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

    fn ids(register: &StandIn, parts: &[Partition], most: usize) -> Vec<String> {
        let mut ids = Vec::new();
        let visited = visit(parts, register, |event| {
            ids.push(event.request_id().to_owned());
            ids.len() < most
        });
        visited.now_or_never().unwrap().unwrap();
        ids
    }

    #[test]
    fn all_pages_of_all_partitions_are_read_until_visit_returns_false() {
        let register = StandIn::of((0..7).map(|nth| event(&nth.to_string(), 100 - nth)));
        let orders = Partition::Target(event("", 0).target);
        assert_eq!(
            ids(&register, std::slice::from_ref(&orders), 99),
            ["6", "5", "4", "3", "2", "1", "0"]
        );
        assert_eq!(ids(&register, &[orders], 2), ["6", "5"]);
        let mut found = ids(&register, &[Partition::Segment(0, 2), Partition::Segment(1, 2)], 99);
        found.sort_unstable();
        assert_eq!(found, ["0", "1", "2", "3", "4", "5", "6"]);
        assert_eq!(ids(&register, &[Partition::Target("arn:other".to_owned())], 99), [""; 0]);
    }

    #[test]
    fn a_throttled_call_is_retried() {
        let register = StandIn::of([event("a", 1)]);
        register.state().throttled = 2;
        assert_eq!(ids(&register, &[Partition::Segment(0, 1)], 99), ["a"]);
        assert!(register.now() > second(0), "it pauses");
    }
}
