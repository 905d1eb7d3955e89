//! Reads all events of some partitions of the register.

use comeback_core::{Timestamp, claim::Order, register::Entry};
use futures_util::future::join_all;

use crate::operate::rules::{Clock, Fault, with_backoff};

/// Visits the events of these partitions until `visit` returns false. Those of one function are sorted by due time.
pub async fn visit<R: Register>(
    parts: &[Partition],
    register: &R,
    mut visit: impl FnMut(Entry) -> bool,
) -> Result<(), Fault> {
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
pub(super) struct Pages<'a, C>(Vec<(&'a Partition, Option<C>)>);

impl<'a, C: Clone> Pages<'a, C> {
    pub(super) fn of(parts: &'a [Partition]) -> Self {
        Self(parts.iter().map(|part| (part, None)).collect())
    }

    /// The events of the next page of each partition; `None` if there are no more.
    pub(super) async fn next<R: Register<Cursor = C>>(
        &mut self,
        register: &R,
    ) -> Result<Option<Vec<Entry>>, Fault> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let pages = self.0.drain(..).map(|(part, from)| async move {
            (part, with_backoff(register.clock(), || register.page(part, from.clone())).await)
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
    /// The start of the next page, if there is one.
    pub next: Option<C>,
}

/// The register of waiting events, and their messages.
pub trait Register {
    type Cursor: Clone;

    type Clock: Clock;

    fn clock(&self) -> &Self::Clock;

    /// The first page of a partition, or the one that starts at `from`.
    fn page(
        &self,
        part: &Partition,
        from: Option<Self::Cursor>,
    ) -> impl Future<Output = Result<Page<Self::Cursor>, Fault>>;

    /// Writes an order for the event with this id, which is kept until `keep_until`. Returns the updated event, or
    /// `None` if it no longer waits.
    fn order(
        &self,
        id: &str,
        order: Order,
        keep_until: Timestamp,
    ) -> impl Future<Output = Result<Option<Entry>, Fault>>;

    /// Makes at most [`SHOWN_MAX`] messages of a queue visible immediately, and returns a result for each, in order. A
    /// message that is no longer in flight under its handle is a success: it has already come back, and the handler
    /// finds the order.
    fn show(
        &self,
        queue_url: &str,
        receipt_handles: &[&str],
    ) -> impl Future<Output = Vec<Result<(), Fault>>>;
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::operate::waiting::rules::stand_in::{StandIn, event};

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
        assert_eq!(register.state().slept, 2);
    }
}
