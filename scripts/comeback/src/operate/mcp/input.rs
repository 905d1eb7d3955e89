//! Standard input, whose end stops the calls that run.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf, Stdin};

/// The SDK serves what has begun for some seconds after the end of its input. Clients don't wait for that long, so a
/// change has to stop at once: after the events that are on their way.
pub struct Input {
    stdin: Stdin,
    has_ended: Arc<AtomicBool>,
}

impl Input {
    pub fn new(has_ended: Arc<AtomicBool>) -> Self {
        Self { stdin: tokio::io::stdin(), has_ended }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stdin).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        Poll::Ready(read)
    }
}
