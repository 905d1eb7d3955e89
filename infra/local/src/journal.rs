//! The journal: what happened in the local cloud, for observers.
//!
//! The model and the host write an [`Event`] for everything that a person or a test may want to see. The last events
//! are kept in memory, limited by number and size. An observer requests the events after the last one that it has, and
//! can wait for more.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use comeback_core::Timestamp;
use serde::Serialize;
use tokio::sync::Notify;

use crate::{
    model::{Ending, Event, What, emf::Emf},
    present::lock,
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

    /// Counts a call of ReceiveMessage, which is no event.
    pub(crate) fn received(&self, at: Timestamp, queue: &str, messages: usize) {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        lock(&self.shared.0).metrics.received(at, queue, messages);
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
        } else if let What::Accepted { .. } = event.what {
            self.metrics.accepted(event.at, &event.function);
        } else if let What::Throttled = event.what {
            self.metrics.throttled(event.at, &event.function);
        } else if let What::GivenUp { .. } = event.what {
            self.metrics.given_up(event.at, &event.function);
        } else if let What::DestinationFailed { metric, .. } = event.what {
            self.metrics.not_sent(event.at, &event.function, metric);
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
    fn the_oldest_events_are_dropped_beyond_the_limits() {
        let journal = Journal::default();
        journal.write((0..EVENTS_MAX + 5).map(|_| line("x")));
        assert_eq!(journal.after(0, usize::MAX)[0].n, 6);
        journal.write([line(&"y".repeat(BYTES_MAX / 2)), line(&"z".repeat(BYTES_MAX / 2))]);
        assert_eq!(journal.after(0, usize::MAX).len(), 1);
    }

    #[test]
    fn runs_are_counted_by_function() {
        let journal = Journal::default();
        let write = |function: &str, what| {
            journal.write([Event::new(Timestamp::UNIX_EPOCH, &function.into(), None, what)]);
        };
        let end = |outcome| What::Finished { outcome, response: Payload::of(&1) };
        write("orders", What::Accepted { payload: Payload::of(&1), by: None });
        write("orders", What::GivenUp { condition: "EventAgeExceeded", lost: false });
        for metric in ["DestinationDeliveryFailures", "DeadLetterErrors", "DeadLetterErrors"] {
            let (destination, reason) = ("d".into(), "gone".to_owned());
            write("orders", What::DestinationFailed { destination, reason, metric });
        }
        for ending in [Ending::Succeeded, Ending::Failed, Ending::TimedOut] {
            write("orders", end(ending));
        }
        write("other", end(Ending::Succeeded));
        write("orders", What::Throttled);
        for (name, count) in [
            ("AsyncEventsReceived", 1.0),
            ("AsyncEventsDropped", 1.0),
            ("DestinationDeliveryFailures", 1.0),
            ("DeadLetterErrors", 2.0),
            ("Invocations", 3.0),
            ("Errors", 2.0),
            ("Throttles", 1.0),
        ] {
            let dimensions = [Dimension::new("FunctionName", "orders")].into();
            let namespace = "AWS/Lambda".to_owned();
            let metric = Metric { namespace, name: name.to_owned(), dimensions };
            let all = Timestamp::UNIX_EPOCH..Timestamp::MAX_UTC;
            let minutes = journal.metrics(|emf| emf.of(&metric, &all));
            assert_eq!(minutes.iter().map(|(_, it)| it.sum).collect::<Vec<_>>(), [count], "{name}");
        }
    }

    #[test]
    fn receives_are_counted_by_queue() {
        let journal = Journal::default();
        for messages in [3, 0, 2] {
            journal.received(Timestamp::UNIX_EPOCH, "imports", messages);
        }
        journal.received(Timestamp::UNIX_EPOCH, "other", 9);
        for (name, count) in [("NumberOfMessagesReceived", 5.0), ("NumberOfEmptyReceives", 1.0)] {
            let dimensions = [Dimension::new("QueueName", "imports")].into();
            let namespace = "AWS/SQS".to_owned();
            let metric = Metric { namespace, name: name.to_owned(), dimensions };
            let all = Timestamp::UNIX_EPOCH..Timestamp::MAX_UTC;
            let minutes = journal.metrics(|emf| emf.of(&metric, &all));
            assert_eq!(minutes.iter().map(|(_, it)| it.sum).collect::<Vec<_>>(), [count], "{name}");
        }
    }
}
