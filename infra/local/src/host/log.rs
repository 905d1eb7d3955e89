//! Writes the output of an environment's processes to the journal, line by line.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use super::runtime_api::RuntimeApi;
use crate::{
    clock,
    journal::{Event, Journal},
};

/// Longer lines are split.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Where an environment's lines go.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) journal: Journal,
    pub(super) function: Arc<str>,
    /// Knows the event that a line belongs to.
    pub(super) api: Arc<RuntimeApi>,
}

impl Log {
    /// Writes all lines of an output until it ends.
    pub(super) fn follow(&self, output: Option<impl AsyncRead + Unpin + Send + 'static>) {
        if let Some(output) = output {
            tokio::spawn(self.clone().read(output));
        }
    }

    async fn read(self, output: impl AsyncRead + Unpin) {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            let available = match output.fill_buf().await {
                Ok(available) if !available.is_empty() => available,
                Ok(_) | Err(_) => break,
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let room = LINE_BYTES_MAX - line.len();
            let used = end.unwrap_or(available.len()).min(room);
            line.extend_from_slice(&available[..used]);
            let whole = end == Some(used);
            output.consume(used + usize::from(whole));
            if whole || line.len() >= LINE_BYTES_MAX {
                self.write(&line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.write(&line);
        }
    }

    /// Writes a line.
    pub(super) fn write(&self, line: &[u8]) {
        self.journal.write([Event::Logged {
            at: clock::now(),
            function: Arc::clone(&self.function),
            request_id: self.api.latest_request_id(),
            line: String::from_utf8_lossy(line).trim_end_matches('\r').to_owned(),
        }]);
    }
}
