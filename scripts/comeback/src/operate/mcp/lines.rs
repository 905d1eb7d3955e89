//! Standard input and output, on which each line is a message. The end of the input stops the calls that run.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::{
    ErrorData, RoleServer,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use serde_json::Value;
use tokio::{
    io::{
        AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
        DuplexStream, Stdout,
    },
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// The longest line. The SDK reads no longer one.
const LINE_MAX: u64 = 16 * 1024 * 1024;

const BUFFER: usize = 64 * 1024;

/// The SDK's transport, behind a task that answers the lines that are no JSON. The SDK skips them, and a client would
/// wait.
pub struct Lines {
    inner: AsyncRwTransport<RoleServer, DuplexStream, Stdout>,
    refused: UnboundedReceiver<String>,
}

impl Lines {
    /// The SDK serves what has begun for some seconds after the end of its input. Clients don't wait for that long, so
    /// a change has to stop at once: after the events that are on their way.
    pub fn new(has_ended: Arc<AtomicBool>) -> Self {
        let (good, inner) = tokio::io::duplex(BUFFER);
        let (refuse, refused) = unbounded_channel();
        tokio::spawn(async move {
            // Whatever ends it, there is no more input.
            let _ = pass(BufReader::new(tokio::io::stdin()), good, &refuse).await;
            has_ended.store(true, Ordering::Relaxed);
        });
        Self { inner: AsyncRwTransport::new(inner, tokio::io::stdout()), refused }
    }
}

/// Passes lines on that are JSON, and the reason of each that is not.
async fn pass(
    mut input: impl AsyncBufRead + Unpin,
    mut good: DuplexStream,
    refuse: &UnboundedSender<String>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = (&mut input).take(LINE_MAX).read_until(b'\n', &mut line).await?;
        if length == 0 {
            return Ok(());
        }
        match unreadable(&line) {
            None => good.write_all(&line).await?,
            Some(why) => drop(refuse.send(why)),
        }
    }
}

/// Why the line is no message.
fn unreadable(line: &[u8]) -> Option<String> {
    let text = line.trim_ascii();
    if text.first() == Some(&b'[') {
        return Some("expected one message in a line, got a batch".to_owned());
    }
    let read = if text.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(text) };
    read.err().map(|error| format!("expected a message in JSON: {error}"))
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            tokio::select! {
                // A line that is refused is known before the end of the input.
                biased;
                Some(why) = self.refused.recv() => {
                    let error = TxJsonRpcMessage::<RoleServer>::error(ErrorData::parse_error(why, None), None);
                    // In a task of its own, because this call may be dropped.
                    tokio::spawn(self.inner.send(error));
                }
                message = self.inner.receive() => return message,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_no_json_is_refused_and_its_neighbours_are_passed_on() {
        let deep = "[".repeat(200);
        let deep = format!("{{\"a\":{deep}");
        let (lines, mut good) = tokio::io::duplex(BUFFER);
        let (refuse, mut refused) = unbounded_channel();
        let mut input = b"{\"id\":1}\nno\n[{\"id\":2}]\n{\"a\":\"\xff\"}\n\n".to_vec();
        input.extend(format!("{deep}\n{{\"id\":3}}\n").bytes());
        pass(&input[..], lines, &refuse).await.unwrap();
        let mut passed = String::new();
        good.read_to_string(&mut passed).await.unwrap();
        assert_eq!(passed, "{\"id\":1}\n\n{\"id\":3}\n");
        drop(refuse);
        for expected in ["expected ident", "got a batch", "invalid unicode", "recursion limit"] {
            let why = refused.recv().await.unwrap();
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(refused.recv().await, None);
    }
}
