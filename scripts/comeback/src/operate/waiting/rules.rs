//! The waiting events, and an operator's orders for them.
//!
//! [`visit()`] reads the register: the events of some functions by due time, or all events in no order. [`carry_out`]
//! writes orders to retry events now or to cancel them. The handler carries an order out, unless it has already acted
//! on the event.

pub mod pauses;
#[cfg(test)]
pub mod stand_in;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    claim::{self, Order},
    register::Entry,
    target::Target,
    time::{between, later},
};
use futures_util::future::join_all;
use serde::Serialize;

use crate::operate::rules::{
    Answer, Clock, FailureFilter, NONE, Notice, Tone, any, events,
    life::{Life, Next, StepKind},
    slips::not_empty,
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
        key: claim::key(life.function.as_deref()?, &last.request_id),
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

/// How long an order is kept: the longest time for which SQS keeps its message.
const KEEP: Duration = Duration::from_hours(14 * 24);

/// The maximum number of orders to write concurrently.
const CALLS_MAX: usize = 40;

pub fn pause_done(function: &str, is_pause: bool) -> String {
    if is_pause {
        format!("{function} is paused: what is due waits until it is resumed")
    } else {
        format!("{function} is resumed: what was held back comes within 15 minutes")
    }
}

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Plan {
    pub events: BTreeMap<String, u64>,
    pub delayed: u64,
}

impl Plan {
    pub fn count(&mut self, event: Entry) {
        self.delayed += u64::from(event.receipt_handle.is_none());
        *self.events.entry(event.target).or_default() += 1;
    }

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

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Tally {
    /// The number of events for which an order was written, by function. Their messages come back immediately.
    pub ordered: BTreeMap<String, u64>,
    /// The number of these that are delayed. SQS can't shorten a delay, so they come back within 15 minutes.
    pub delayed: u64,
    pub too_late: u64,
    pub failed: u64,
    /// The number of orders whose messages could not be made visible. These events come back when they are due.
    pub not_shown: u64,
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

/// Writes an order for every selected event in these partitions, until there are no more or `goes_on` returns false.
/// `goes_on` is called after every batch. An event that fails and waits again meanwhile gets no second order.
pub async fn carry_out<R: Register>(
    order: Order,
    selection: &Selection,
    parts: &[Partition],
    events_per_second: Option<u32>,
    register: &R,
    goes_on: impl FnMut(&Tally) -> bool,
) -> (Tally, Answer<()>) {
    let mut work = Work { order, register, done: HashSet::new(), tally: Tally::default() };
    let ended = work.until_the_end(selection, parts, events_per_second, goes_on).await;
    (work.tally, ended)
}

struct Work<'a, R> {
    order: Order,
    register: &'a R,
    /// Hashes of the events that an order was tried for.
    done: HashSet<u64>,
    tally: Tally,
}

impl<R: Register> Work<'_, R> {
    async fn until_the_end(
        &mut self,
        selection: &Selection,
        parts: &[Partition],
        events_per_second: Option<u32>,
        mut goes_on: impl FnMut(&Tally) -> bool,
    ) -> Answer<()> {
        let batch_max = events_per_second.map_or(CALLS_MAX, |rate| CALLS_MAX.min(rate as usize));
        let mut pages = Pages::of(parts);
        while let Some(mut events) = pages.next(self.register).await? {
            events.retain(|event| selection.matches(event) && self.done.insert(hash(event)));
            for batch in events.chunks(batch_max) {
                let began = self.register.now();
                self.order(batch).await;
                if !goes_on(&self.tally) {
                    return Ok(());
                }
                if let Some(rate) = events_per_second {
                    let wanted = Duration::from_secs_f64(batch.len() as f64 / f64::from(rate));
                    let taken = between(began, self.register.now());
                    self.register.sleep(wanted.saturating_sub(taken)).await;
                }
            }
        }
        Ok(())
    }

    /// Writes an order for each of these events, then makes their messages visible.
    async fn order(&mut self, batch: &[Entry]) {
        let keep_until = later(self.register.now(), KEEP);
        let orders = batch.iter().map(|event| {
            with_backoff(self.register, || self.register.order(&event.key, self.order, keep_until))
        });
        let mut visible: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ordered in join_all(orders).await {
            match ordered {
                Ok(Some(event)) => {
                    *self.tally.ordered.entry(event.target).or_default() += 1;
                    match event.receipt_handle {
                        Some(handle) => visible.entry(event.queue_url).or_default().push(handle),
                        None => self.tally.delayed += 1,
                    }
                }
                Ok(None) => self.tally.too_late += 1,
                Err(fault) => {
                    self.tally.failed += 1;
                    self.tally.faults.insert(fault.to_string());
                }
            }
        }
        for (queue_url, handles) in visible {
            self.show(&queue_url, &handles).await;
        }
    }

    async fn show(&mut self, queue_url: &str, handles: &[String]) {
        let handles: Vec<_> = handles.iter().map(String::as_str).collect();
        let calls = handles.chunks(SHOWN_MAX).map(|handles| self.register.show(queue_url, handles));
        for shown in join_all(calls).await.into_iter().flatten() {
            if let Err(fault) = shown {
                self.tally.not_shown += 1;
                self.tally.faults.insert(fault.to_string());
            }
        }
    }
}

/// Event ids are no secret, so the failure records of two functions may have the same one.
fn hash(event: &Entry) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&event.target, &event.event_id).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::operate::waiting::rules::stand_in::{PAGE, StandIn, event, second};

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

    const ALL: [Partition; 1] = [Partition::Segment(0, 1)];

    fn retry(register: &StandIn, per_second: Option<u32>) -> Tally {
        let all = Selection::default();
        let done = carry_out(Order::Retry, &all, &ALL, per_second, register, |_| true);
        let (tally, ended) = done.now_or_never().unwrap();
        ended.unwrap();
        tally
    }

    #[test]
    fn every_selected_event_is_ordered_and_its_message_shown() {
        let register = StandIn::of((0..100).map(|nth| event(&nth.to_string(), nth)));
        let soon = Selection { due_before: Some(second(50)), ..Selection::default() };
        let done = carry_out(Order::Cancel, &soon, &ALL, None, &register, |_| true);
        let (tally, ended) = done.now_or_never().unwrap();
        assert_eq!(ended, Ok(()));
        let function = event("", 0).target;
        assert_eq!(tally, Tally { ordered: [(function, 50)].into(), ..Tally::default() });
        let state = register.state();
        let ordered = state.events.values().filter(|event| event.order == Some(Order::Cancel));
        assert_eq!((ordered.count(), state.shown), (50, 50));
        assert_eq!(state.kept_until["7"], later(second(0), KEEP));
    }

    #[test]
    fn late_orders_and_delayed_events_are_counted() {
        let mut delayed = event("delayed", 1);
        delayed.receipt_handle = None;
        let register = StandIn::of([delayed, event("in flight", 2), event("over", 3)]);
        register.state().over.push("over".to_owned());
        let tally = retry(&register, None);
        assert_eq!((tally.ordered(), tally.delayed, tally.too_late, tally.failed), (2, 1, 1, 0));
        assert_eq!(register.state().shown, 1);
    }

    #[test]
    fn an_event_that_waits_again_gets_no_second_order() {
        let register = StandIn::of((0..10).map(|nth| event(&nth.to_string(), nth)));
        register.state().fails_again = true;
        assert_eq!(retry(&register, None).ordered(), 10);
    }

    #[test]
    fn a_message_that_cannot_be_shown_comes_back_when_it_is_due() {
        let register = StandIn::of((0..3).map(|nth| event(&nth.to_string(), nth)));
        register.state().refuses_to_show = true;
        let tally = retry(&register, None);
        assert_eq!((tally.ordered(), tally.not_shown, tally.faults.len()), (3, 3, 1));
        let notices = tally.notices(Order::Retry);
        assert_eq!(notices[0], Notice::good("3 events of orders come back now"));
        assert_eq!(notices[1].tone, Tone::Bad);
        assert_eq!(notices[2], Notice::bad(tally.faults.first().unwrap()));
        assert_eq!(notices.len(), 3);
    }

    #[test]
    fn the_rate_is_kept_and_an_interruption_ends_the_work() {
        let register = StandIn::of((0..25).map(|nth| event(&nth.to_string(), nth)));
        retry(&register, Some(10));
        assert_eq!(between(second(0), register.now()), Duration::from_millis(2500));

        let register = StandIn::of((0..100).map(|nth| event(&nth.to_string(), nth)));
        let all = Selection::default();
        let done = carry_out(Order::Retry, &all, &ALL, None, &register, |_| false);
        let (tally, _) = done.now_or_never().unwrap();
        assert_eq!(tally.ordered(), PAGE as u64);
    }

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
