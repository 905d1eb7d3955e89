//! What the local cloud says has happened, read as it happens.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A test that sees nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A reader of the journal, at some place in it.
pub struct Journal {
    address: String,
    after: u64,
    pending: std::collections::VecDeque<Value>,
}

/// One run of a function.
#[derive(Clone, Debug)]
pub struct Run {
    pub request_id: String,
    /// The payload in the bytes that the function saw.
    pub payload: String,
    /// `Succeeded`, `Failed`, `Crashed`, `TimedOut`.
    pub ending: String,
}

impl Journal {
    pub fn of(endpoint: &str) -> Self {
        let address = endpoint.trim_start_matches("http://").to_owned();
        Self { address, after: 0, pending: Default::default() }
    }

    /// Waits for the first thing, from here on, that `wanted` recognises.
    pub async fn find<T>(&mut self, what: &str, mut wanted: impl FnMut(&Value) -> Option<T>) -> T {
        let mut story = Vec::new();
        let search = async {
            loop {
                let event = self.next().await;
                let found = wanted(&event);
                story.push(event.to_string());
                if let Some(found) = found {
                    return found;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("{what}: not seen in\n{}", story.join("\n")),
        }
    }

    /// Waits for the next run of this function to end.
    pub async fn run(&mut self, function: &str) -> Run {
        let mut payloads = std::collections::HashMap::new();
        self.find(&format!("a run of {function}"), |event| {
            if event["function"] != function {
                return None;
            }
            let id = event["request_id"].as_str()?.to_owned();
            match event["type"].as_str()? {
                "Started" => {
                    payloads.insert(id, event["payload"].to_string());
                    None
                }
                "Finished" => Some(Run {
                    payload: payloads.get(&id)?.clone(),
                    ending: event["outcome"].as_str()?.to_owned(),
                    request_id: id,
                }),
                _ => None,
            }
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
        self.find(what, |event| {
            let line = (event["type"] == "Logged" && event["function"] == function)
                .then(|| &event["line"])?;
            let line: Value = serde_json::from_str(line.as_str()?).ok()?;
            wanted(&line).then_some(line)
        })
        .await
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return event;
            }
            let page = self.get(&format!("/_local/journal?after={}&wait=20", self.after)).await;
            self.after = page["next"].as_u64().unwrap();
            self.pending.extend(page["events"].as_array().unwrap().iter().cloned());
        }
    }

    async fn get(&self, path: &str) -> Value {
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
