//! What the local cloud says has happened, read as it happens.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A test that waits for so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A reader of the journal, at some place in it.
pub struct Journal {
    address: String,
    after: u64,
    pending: VecDeque<Happening>,
    payloads: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Page {
    next: u64,
    events: Vec<Happening>,
}

/// Something that happened to a function.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the names are those of the journal")]
pub struct Happening {
    /// Its number, one above that of what happened before.
    pub n: u64,
    #[serde(rename = "type")]
    pub kind: String,
    pub function: String,
    pub request_id: Option<String>,
    pub payload: Option<Box<RawValue>>,
    pub outcome: Option<String>,
    pub line: Option<String>,
    pub at: String,
}

/// One run of a function.
#[derive(Clone, Debug)]
pub struct Run {
    /// The id of its invocation.
    pub request_id: String,
    /// The payload in the bytes that the function saw.
    pub payload: String,
    /// `Succeeded`, `Failed`, `Crashed`, `TimedOut`.
    pub ending: String,
    /// When it ended, RFC 3339.
    pub ended_at: String,
}

impl Journal {
    /// The journal of the local cloud at this endpoint, from its beginning.
    pub fn of(endpoint: &str) -> Self {
        let address = endpoint.trim_start_matches("http://").to_owned();
        Self { address, after: 0, pending: VecDeque::new(), payloads: HashMap::new() }
    }

    /// Waits for the next run of this function to end.
    pub async fn run(&mut self, function: &str) -> Run {
        self.patiently(&format!("a run of {function}"), |journal, happening| {
            let id = happening.request_id.filter(|_| happening.function == function)?;
            if let Some(payload) = happening.payload {
                journal.payloads.insert(id.clone(), payload.get().to_owned());
            }
            let payload = journal.payloads.get(&id)?.clone();
            Some(Run {
                payload,
                ending: happening.outcome?,
                request_id: id,
                ended_at: happening.at,
            })
        })
        .await
    }

    /// Waits for a line of a function's log that is JSON and that `wanted` recognises.
    pub async fn log(
        &mut self,
        function: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        self.patiently(what, |_, happening| {
            let line = happening.line.filter(|_| happening.function == function)?;
            let line: Value = serde_json::from_str(&line).ok()?;
            wanted(&line).then_some(line)
        })
        .await
    }

    async fn patiently<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&mut Self, Happening) -> Option<T>,
    ) -> T {
        let mut story = Vec::new();
        let search = async {
            loop {
                let happening = self.next().await;
                story.push(format!("{happening:.300?}"));
                if let Some(found) = wanted(self, happening) {
                    return found;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("{what}: not seen in\n{}", story.join("\n")),
        }
    }

    async fn next(&mut self) -> Happening {
        loop {
            if let Some(happening) = self.pending.pop_front() {
                return happening;
            }
            let page = self.page(Duration::from_secs(20)).await;
            self.pending.extend(page);
        }
    }

    /// What happened next; nothing if that is nothing for so long. The local cloud forgets what
    /// nobody reads for long: that stops this.
    pub async fn page(&mut self, wait: Duration) -> Vec<Happening> {
        let path = format!("/_local/journal?after={}&wait={}", self.after, wait.as_secs());
        let page = self.get(&path).await;
        if let Some(first) = page.events.first() {
            assert_eq!(first.n, self.after + 1, "what happened before is forgotten");
        }
        self.after = page.next;
        page.events
    }

    async fn get(&self, path: &str) -> Page {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        let body = response.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        serde_json::from_slice(&response[body..]).unwrap()
    }
}
