//! The journal: what happened in the local cloud, for observers.
//!
//! The model and the host write an [`Event`] for everything that a person or a test may want to see. The last events
//! are kept in memory, limited by number and size. An observer requests the events after the last one that it has, and
//! can wait for more.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use serde::Serialize;
use tokio::sync::Notify;

use crate::{
    model::{Ending, Event, What, emf::Emf},
    shared::lock,
};

const EVENTS_MAX: usize = 20_000;

const BYTES_MAX: usize = 64 * 1024 * 1024;

/// An event and its number in the journal, counted from 1.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub n: u64,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Clone, Default)]
pub(crate) struct Journal {
    shared: Arc<(Mutex<Kept>, Notify)>,
}

#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    bytes: usize,
    last: u64,
    /// The metrics of all lines and runs, even of events that are no longer kept.
    metrics: Emf,
}

impl Journal {
    pub(crate) fn write(&self, events: impl IntoIterator<Item = Event>) {
        let (kept, written) = &*self.shared;
        let mut kept = lock(kept);
        for event in events {
            kept.push(event);
        }
        drop(kept);
        written.notify_waiters();
    }

    pub(crate) fn after(&self, n: u64, max: usize) -> Vec<Entry> {
        let kept = lock(&self.shared.0);
        let from = kept.entries.partition_point(|entry| entry.n <= n);
        kept.entries.iter().skip(from).take(max).cloned().collect()
    }

    pub(crate) fn metrics<T>(&self, read: impl FnOnce(&Emf) -> T) -> T {
        read(&lock(&self.shared.0).metrics)
    }

    /// Events after number `n`; waits until there is one.
    pub(crate) async fn wait_after(&self, n: u64, max: usize) -> Vec<Entry> {
        loop {
            let written = self.shared.1.notified();
            let entries = self.after(n, max);
            if !entries.is_empty() {
                return entries;
            }
            written.await;
        }
    }
}

impl Kept {
    fn push(&mut self, event: Event) {
        if let What::Logged { line } = &event.what {
            self.metrics.count(line);
        } else if let What::Accepted = event.what {
            self.metrics.accepted(event.at, &event.function);
        } else if let What::Finished { outcome, .. } = event.what {
            self.metrics.run(event.at, &event.function, outcome != Ending::Succeeded);
        }
        self.last += 1;
        self.bytes += event.size();
        self.entries.push_back(Entry { n: self.last, event });
        while self.entries.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.event.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use comeback_core::Timestamp;

    use super::*;
    use crate::model::{
        Payload,
        emf::{Dimension, Metric},
    };

    fn line(text: &str) -> Event {
        let what = What::Logged { line: text.to_owned() };
        Event::new(Timestamp::UNIX_EPOCH, &"f".into(), None, what)
    }

    #[test]
    fn events_are_numbered_from_one_and_read_from_any_place() {
        let journal = Journal::default();
        journal.write([line("a"), line("b"), line("c")]);
        let numbers = |n, max| {
            let entries = journal.after(n, max);
            entries.iter().map(|entry| entry.n).collect::<Vec<_>>()
        };
        assert_eq!(numbers(0, 10), [1, 2, 3]);
        assert_eq!(numbers(1, 1), [2]);
        assert!(numbers(3, 10).is_empty());
    }

    #[test]
    fn the_oldest_events_are_dropped_beyond_the_limits() {
        let journal = Journal::default();
        journal.write((0..EVENTS_MAX + 5).map(|_| line("x")));
        assert_eq!(journal.after(0, usize::MAX)[0].n, 6);
        journal.write([line(&"y".repeat(BYTES_MAX / 2)), line(&"z".repeat(BYTES_MAX / 2))]);
        assert_eq!(journal.after(0, usize::MAX).len(), 1);
    }

    #[test]
    fn runs_are_counted_by_function_and_minute() {
        let journal = Journal::default();
        let at = |seconds| Timestamp::from_timestamp(seconds, 0).unwrap();
        let end = |seconds, function: &str, outcome| {
            let what = What::Finished { outcome, response: Payload::of(&1) };
            Event::new(at(seconds), &function.into(), Some(&"r".into()), what)
        };
        let sums = |name: &str| {
            let dimensions = [Dimension::new("FunctionName", "orders")].into();
            let namespace = "AWS/Lambda".to_owned();
            let metric = Metric { namespace, name: name.to_owned(), dimensions };
            let minutes = journal.metrics(|emf| emf.of(&metric, &(at(0)..at(180))));
            minutes.into_iter().map(|(began, values)| (began, values.sum)).collect::<Vec<_>>()
        };
        journal.write([
            end(60, "orders", Ending::Succeeded),
            end(119, "orders", Ending::Failed),
            end(120, "orders", Ending::TimedOut),
            end(61, "other", Ending::Succeeded),
        ]);
        assert_eq!(sums("Invocations"), [(60, 2.0), (120, 1.0)]);
        assert_eq!(sums("Errors"), [(60, 1.0), (120, 1.0)]);
        journal.write([Event::new(at(60), &"orders".into(), None, What::Accepted)]);
        assert_eq!(sums("AsyncEventsReceived"), [(60, 1.0)]);
        journal.write([end(60 * 60 * 24 * 2, "orders", Ending::Succeeded)]);
        assert_eq!(sums("Invocations"), [], "it was long ago");
    }

    #[test]
    fn an_entry_is_one_flat_object() {
        let journal = Journal::default();
        journal.write([line("hello")]);
        assert_eq!(
            serde_json::to_string(&journal.after(0, 1)).unwrap(),
            r#"[{"n":1,"at":"1970-01-01T00:00:00Z","function":"f","request_id":null,"type":"Logged","line":"hello"}]"#
        );
    }
}
