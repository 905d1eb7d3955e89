//! Reads the journal of a local cloud over HTTP.

use std::{io, sync::Arc, time::Duration};

use comeback_core::Timestamp;
pub use comeback_local_model::Ending;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[derive(Clone, Debug)]
pub struct Journal {
    address: String,
    after: u64,
}

#[derive(Deserialize)]
struct Page {
    next: u64,
    events: Vec<Entry>,
}

/// An entry of the journal. Members that its type doesn't have are `None`.
#[derive(Clone, Debug, Deserialize)]
pub struct Entry {
    #[serde(rename = "type")]
    pub kind: String,
    pub at: Timestamp,
    pub function: Arc<str>,
    pub request_id: Option<Arc<str>>,
    #[serde(default, deserialize_with = "present")]
    pub payload: Option<Box<RawValue>>,
    /// The payload of an event that was accepted and has not run yet.
    #[serde(default, deserialize_with = "present")]
    pub event: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    pub response: Option<Box<RawValue>>,
    /// The function that has invoked an event that was accepted, if one has.
    pub by: Option<Arc<str>>,
    pub outcome: Option<Ending>,
    pub condition: Option<String>,
    pub lost: Option<bool>,
    pub destination: Option<String>,
    pub reason: Option<String>,
    /// The rule or the schedule that could not deliver an event.
    pub source: Option<String>,
    pub line: Option<String>,
    /// Its number, counted from 1. A gap means that the local cloud discarded entries before they were read.
    pub n: u64,
}

/// Reads a member that is present. Its value may be `null`, which a plain `Option` would read as `None`.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(value).map(Some)
}

impl Journal {
    /// The journal of the local cloud at `endpoint`, from its beginning.
    pub fn of(endpoint: &str) -> Self {
        Self { address: endpoint.trim_start_matches("http://").to_owned(), after: 0 }
    }

    /// The next entries, or none if there are none within `wait`, which is rounded down to whole seconds. Cancel safe:
    /// after a cancelled call, the next one returns the same entries.
    pub async fn next(&mut self, wait: Duration) -> io::Result<Vec<Entry>> {
        let Self { address, after } = self;
        let mut stream = TcpStream::connect(&*address).await?;
        let wait = wait.as_secs();
        let request = format!(
            "GET /_local/journal?after={after}&wait={wait} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await?;
        let end_of_head = response.windows(4).position(|end| end == b"\r\n\r\n");
        let body = end_of_head.map(|end| &response[end + 4..]).unwrap_or_default();
        let page: Page = serde_json::from_slice(body)?;
        self.after = page.next;
        Ok(page.events)
    }
}
