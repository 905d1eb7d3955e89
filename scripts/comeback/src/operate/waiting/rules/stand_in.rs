//! An in-memory register and clock for tests. The program's own tests run with DynamoDB.

use std::{
    cell::{RefCell, RefMut},
    collections::BTreeMap,
    time::Duration,
};

use comeback_core::{Timestamp, claim::Order, lineage::Key, register::Entry, time::later};

use super::port::{Page, Partition, Register};

use crate::account::fault::{Answer, Clock, Fault};

pub(super) const PAGE: usize = 3;

/// An event that comes back at the second `due`.
pub fn event(id: &str, due: u64) -> Entry {
    Entry {
        key: Key { id: "orders".to_owned(), run: id.to_owned() },
        target: "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST".to_owned(),
        queue_url: "https://sqs/1/retry".to_owned(),
        event_id: format!("event-{id}"),
        attempt: 2,
        due: second(due),
        first_failure: second(0),
        error_type: Some("app.Down".to_owned()),
        error_message: Some("no route to host".to_owned()),
        policy: Some("app.* of orders".to_owned()),
        receipt_handle: Some(format!("handle-{id}")),
        order: None,
    }
}

pub fn second(second: u64) -> Timestamp {
    later(Timestamp::UNIX_EPOCH, Duration::from_secs(second))
}

#[derive(Default)]
pub struct State {
    now: Timestamp,
    pub(super) events: BTreeMap<String, Entry>,
    pub(super) kept_until: BTreeMap<String, Timestamp>,
    /// The ids of events that end between being listed and being ordered.
    pub(super) over: Vec<String>,
    pub(super) throttled: u32,
    pub(super) shown: usize,
    /// Whether every ordered event fails immediately, and waits for another hour.
    pub(super) fails_again: bool,
    pub(super) refuses_to_show: bool,
}

#[derive(Default)]
pub struct StandIn(RefCell<State>);

impl StandIn {
    pub fn of(events: impl IntoIterator<Item = Entry>) -> Self {
        let events = events.into_iter().map(|event| (event.key.run.clone(), event)).collect();
        Self(RefCell::new(State { now: second(0), events, ..State::default() }))
    }

    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }
}

fn fault(code: &str) -> Fault {
    Fault::of("dynamodb:Query", "table", code, "")
}

impl Register for StandIn {
    type Cursor = (Timestamp, Key);

    async fn page(
        &self,
        part: &Partition,
        from: Option<Self::Cursor>,
    ) -> Answer<Page<Self::Cursor>> {
        let mut state = self.state();
        if state.throttled > 0 {
            state.throttled -= 1;
            return Err(fault("ThrottlingException"));
        }
        let is_there = |event: &&Entry| match part {
            Partition::Target(target) => event.target == *target,
            Partition::Segment(nth, of) => event.key.run.len() as u16 % of == *nth || *of == 1,
        };
        let position = |event: &Entry| (event.due, event.key.clone());
        let mut events: Vec<_> = state
            .events
            .values()
            .filter(is_there)
            .filter(|event| from.as_ref().is_none_or(|from| position(event) > *from))
            .cloned()
            .collect();
        events.sort_by_key(position);
        let has_more = events.len() > PAGE;
        events.truncate(PAGE);
        Ok(Page { next: events.last().filter(|_| has_more).map(position), events })
    }

    async fn order(&self, key: &Key, order: Order, keep_until: Timestamp) -> Answer<Option<Entry>> {
        let id = &*key.run;
        let mut state = self.state();
        if state.over.iter().any(|over| over == id) {
            return Ok(None);
        }
        let state = &mut *state;
        state.kept_until.insert(id.to_owned(), keep_until);
        let Some(event) = state.events.get_mut(id) else { return Ok(None) };
        event.order = Some(order);
        let ordered = event.clone();
        if state.fails_again {
            event.due = later(event.due, Duration::from_hours(1));
        }
        Ok(Some(ordered))
    }

    async fn show(&self, _: &str, receipt_handles: &[&str]) -> Vec<Answer<()>> {
        let mut state = self.state();
        let show = |_: &&str| {
            if state.refuses_to_show {
                return Err(fault("AccessDenied"));
            }
            state.shown += 1;
            Ok(())
        };
        receipt_handles.iter().map(show).collect()
    }
}

impl Clock for StandIn {
    fn now(&self) -> Timestamp {
        self.state().now
    }

    async fn sleep(&self, duration: Duration) {
        let mut state = self.state();
        state.now = later(state.now, duration);
    }
}
