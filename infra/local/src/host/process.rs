//! One process of an environment, with its warden and its log.

use std::{io, process::ExitStatus, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, Command},
    sync::{mpsc, watch},
};

use super::{runtime_api::RuntimeApi, warden::TERMINATE};
use crate::{
    clock,
    journal::{Event, Journal, What},
    model::lambda::{function::Configuration, run::Exit},
};

/// Held until a process ends: the configuration, which keeps the unpacked code, and the sender that shows that it runs.
pub(super) type Held = (Arc<Configuration>, mpsc::Sender<()>);

/// A process. It is killed when this is dropped.
pub(super) struct Process {
    exited: watch::Receiver<Option<Exit>>,
    /// When this pipe is closed, the warden kills the process.
    guard: Option<ChildStdin>,
}

impl Process {
    /// Starts a process with a command of the [`plan`](super::launch::Plan).
    pub(super) fn start(mut command: Command, log: &Log, held: Held) -> io::Result<Self> {
        let mut child = command.spawn()?;
        log.follow(child.stdout.take());
        log.follow(child.stderr.take());
        let guard = child.stdin.take();
        let (sender, exited) = watch::channel(None);
        tokio::spawn(async move {
            let exit = child.wait().await.map_or(Exit::Status(1), exit_of);
            let _ = sender.send(Some(exit));
            drop(held);
        });
        Ok(Self { exited, guard })
    }

    pub(super) fn exit(&self) -> impl Future<Output = Exit> + use<> {
        let mut exited = self.exited.clone();
        async move {
            match exited.wait_for(Option::is_some).await.map(|exit| *exit) {
                Ok(Some(exit)) => exit,
                // The local cloud itself is ending.
                Ok(None) | Err(_) => std::future::pending().await,
            }
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.exited.borrow().is_none()
    }

    pub(super) async fn terminate(&mut self) {
        if let Some(guard) = &mut self.guard {
            // This fails if the process is gone.
            let _ = guard.write_all(&[TERMINATE]).await;
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal() {
        Some(signal) => Exit::Signal(signal),
        None => Exit::Status(status.code().unwrap_or_default()),
    }
}

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
        self.journal.write([Event::new(clock::now(), &self.function, request_id.as_ref(), what)]);
    }
}
