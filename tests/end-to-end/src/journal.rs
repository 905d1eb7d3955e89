//! Waits until the journal of the local cloud has the entry that a test expects.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use comeback_local_client::journal;
pub use comeback_local_client::journal::{Ending, Entry};
use serde_json::Value;

/// A test that waits longer than this fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A reader of the journal, and its position.
pub struct Journal {
    reader: journal::Journal,
    last: u64,
    pending: VecDeque<Entry>,
    payloads: HashMap<Arc<str>, String>,
}

#[derive(Clone, Debug)]
pub struct Run {
    pub request_id: String,
    /// The payload, in the bytes that the function received.
    pub payload: String,
    /// `Succeeded`, `Failed`, `Crashed` or `TimedOut`.
    pub ending: String,
    pub ended_at: chrono::DateTime<chrono::Utc>,
}

impl Journal {
    /// The journal of the local cloud at this endpoint, from its beginning.
    pub fn of(endpoint: &str) -> Self {
        let reader = journal::Journal::of(endpoint);
        Self { reader, last: 0, pending: VecDeque::new(), payloads: HashMap::new() }
    }

    pub async fn run(&mut self, function: &str) -> Run {
        self.wait_for(&format!("a run of {function}"), |journal, entry| {
            let id = entry.request_id.filter(|_| *entry.function == *function)?;
            if let Some(payload) = entry.payload {
                journal.payloads.insert(Arc::clone(&id), payload.get().to_owned());
            }
            Some(Run {
                payload: journal.payloads.get(&id)?.clone(),
                ending: format!("{:?}", entry.outcome?),
                request_id: id.to_string(),
                ended_at: entry.at,
            })
        })
        .await
    }

    pub async fn runs<const N: usize>(&mut self, function: &str) -> [Run; N] {
        let mut runs = Vec::new();
        while runs.len() < N {
            runs.push(self.run(function).await);
        }
        runs.try_into().unwrap()
    }

    /// Waits for a line of a function's log that is JSON and satisfies `wanted`.
    pub async fn log(
        &mut self,
        function: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        self.wait_for(what, |_, entry| {
            let line = entry.line.filter(|_| *entry.function == *function)?;
            let line: Value = serde_json::from_str(&line).ok()?;
            wanted(&line).then_some(line)
        })
        .await
    }

    async fn wait_for<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&mut Self, Entry) -> Option<T>,
    ) -> T {
        let mut story = Vec::new();
        let search = async {
            loop {
                let Some(entry) = self.pending.pop_front() else {
                    let page = self.page(Duration::from_secs(20)).await;
                    self.pending.extend(page);
                    continue;
                };
                story.push(format!("{entry:.300?}"));
                if let Some(found) = wanted(self, entry) {
                    return found;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("{what}: not seen in\n{}", story.join("\n")),
        }
    }

    /// The next entries, or none if none come within `wait`. Panics if the local cloud discarded entries before they
    /// were read.
    pub async fn page(&mut self, wait: Duration) -> Vec<Entry> {
        let page = self.reader.next(wait).await.unwrap();
        for entry in &page {
            assert_eq!(entry.n, self.last + 1, "the journal has a gap");
            self.last = entry.n;
        }
        page
    }
}
