//! The log of an environment's processes.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

use super::runtime_api::RuntimeApi;
use crate::{
    journal::Journal,
    model::{Event, What},
    present::now,
};

const LINE_BYTES_MAX: u64 = 16 * 1024;

/// Writes the output of an environment's processes to the journal, line by line.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) journal: Journal,
    pub(super) function: Arc<str>,
    /// Has the request id for each line.
    pub(super) api: Arc<RuntimeApi>,
}

impl Log {
    pub(super) fn follow(&self, output: Option<impl AsyncRead + Unpin + Send + 'static>) {
        if let Some(output) = output {
            tokio::spawn(self.clone().read(output));
        }
    }

    async fn read(self, output: impl AsyncRead + Unpin) {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            // If reading fails, the bytes before the error are written.
            let _ = (&mut output).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
            if line.is_empty() {
                break;
            }
            self.write(line.strip_suffix(b"\n").unwrap_or(&line));
        }
    }

    pub(super) fn write(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).trim_end_matches('\r').to_owned();
        let request_id = self.api.latest_request_id();
        let what = What::Logged { line };
        self.journal.write([Event::new(now(), &self.function, request_id.as_ref(), what)]);
    }
}
