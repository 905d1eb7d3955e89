//! Reads the register: a page of each partition at a time.

use comeback_core::register::Entry;
use futures_util::future::join_all;

use super::port::{Page, Partition, Register};

use crate::account::fault::{Answer, with_backoff};

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
pub(super) struct Pages<'a, C>(Vec<(&'a Partition, Option<C>)>);

impl<'a, C: Clone> Pages<'a, C> {
    pub(super) fn of(parts: &'a [Partition]) -> Self {
        Self(parts.iter().map(|part| (part, None)).collect())
    }

    /// The events of the next page of each partition; `None` if there are no more.
    pub(super) async fn next<R: Register<Cursor = C>>(
        &mut self,
        register: &R,
    ) -> Answer<Option<Vec<Entry>>> {
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    use crate::{
        account::fault::Clock as _,
        operate::waiting::rules::stand_in::{StandIn, event, second},
    };

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
