//! Carries out an order for the selected events.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    claim::Order,
    register::Entry,
    time::{between, later},
};
use futures_util::future::join_all;

use super::{
    event::Selection,
    port::{Partition, Register, SHOWN_MAX},
    tally::Tally,
    visit::Pages,
};

use crate::{
    account::fault::{Answer, with_backoff},
    typed::Rate,
};

/// How long an order is kept: the longest time for which SQS keeps its message.
const KEEP: Duration = Duration::from_hours(14 * 24);

/// The maximum number of orders to write concurrently.
const CALLS_MAX: usize = 40;

/// Writes an order for every selected event in these partitions, until there are no more or `goes_on` returns false.
/// `goes_on` is called after every batch. An event that fails and waits again meanwhile gets no second order.
pub async fn carry_out<R: Register>(
    order: Order,
    selection: &Selection,
    parts: &[Partition],
    rate: Option<Rate>,
    register: &R,
    goes_on: impl FnMut(&Tally) -> bool,
) -> (Tally, Answer<()>) {
    let mut work = Work { order, register, done: HashSet::new(), tally: Tally::default() };
    let ended = work.until_the_end(selection, parts, rate, goes_on).await;
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
        rate: Option<Rate>,
        mut goes_on: impl FnMut(&Tally) -> bool,
    ) -> Answer<()> {
        let of_a_second = |rate: Rate| (rate.per_second() as usize).clamp(1, CALLS_MAX);
        let batch_max = rate.map_or(CALLS_MAX, of_a_second);
        let mut pages = Pages::of(parts);
        while let Some(mut events) = pages.next(self.register).await? {
            events.retain(|event| selection.matches(event) && self.done.insert(hash(event)));
            for batch in events.chunks(batch_max) {
                let began = self.register.now();
                self.order(batch).await;
                if !goes_on(&self.tally) {
                    return Ok(());
                }
                let turn = rate.map_or(began, |rate| later(began, rate.time_of(batch.len())));
                self.wait_for_turn(turn, &mut goes_on).await;
                if !goes_on(&self.tally) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Waits until the rate allows the next batch, or `goes_on` returns false.
    async fn wait_for_turn(&self, turn: Timestamp, goes_on: &mut impl FnMut(&Tally) -> bool) {
        const STEP: Duration = Duration::from_secs(1);
        while self.register.now() < turn && goes_on(&self.tally) {
            self.register.sleep(between(self.register.now(), turn).min(STEP)).await;
        }
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

    use crate::{
        account::fault::Clock as _,
        notice::{Notice, Tone},
        operate::waiting::rules::stand_in::{PAGE, StandIn, event, second},
    };

    const ALL: [Partition; 1] = [Partition::Segment(0, 1)];

    fn retry(register: &StandIn, rate: Option<Rate>) -> Tally {
        let all = Selection::default();
        let done = carry_out(Order::Retry, &all, &ALL, rate, register, |_| true);
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
        retry(&register, Rate::new(10.0));
        assert_eq!(between(second(0), register.now()), Duration::from_millis(2500));

        // A slow rate doesn't hold up the interruption.
        let register = StandIn::of((0..9).map(|nth| event(&nth.to_string(), nth)));
        let (all, soon) = (Selection::default(), second(3));
        let goes_on = |_: &Tally| register.now() < soon;
        let slow = Rate::new(1.0 / 3600.0);
        let done = carry_out(Order::Retry, &all, &ALL, slow, &register, goes_on);
        assert_eq!(done.now_or_never().unwrap().0.ordered(), 1);
        assert_eq!(register.now(), soon);

        let register = StandIn::of((0..100).map(|nth| event(&nth.to_string(), nth)));
        let done = carry_out(Order::Retry, &all, &ALL, None, &register, |_| false);
        let (tally, _) = done.now_or_never().unwrap();
        assert_eq!(tally.ordered(), PAGE as u64);
    }
}
