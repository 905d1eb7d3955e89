//! A process of an environment, with its warden and its log.

use std::{io, process::ExitStatus, sync::Arc};

use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, Command},
    sync::{mpsc, watch},
};

use super::log::Log;
use crate::model::lambda::{function::Configuration, run::Exit};

/// Held until a process ends: the configuration, which keeps the unpacked code, and the sender that shows that it runs.
pub(super) type Held = (Arc<Configuration>, mpsc::Sender<()>);

/// A process. It is killed when this is dropped.
pub(super) struct Process {
    exited: watch::Receiver<Option<Exit>>,
    /// Bytes for the warden. When this is closed, the warden kills the process.
    pub(super) orders: mpsc::UnboundedSender<u8>,
}

impl Process {
    pub(super) fn start(mut command: Command, log: &Log, held: Held) -> io::Result<Self> {
        let mut child = command.spawn()?;
        log.follow(child.stdout.take());
        log.follow(child.stderr.take());
        let (orders, ordered) = mpsc::unbounded_channel();
        tokio::spawn(pass_on(ordered, child.stdin.take()));
        let (sender, exited) = watch::channel(None);
        tokio::spawn(async move {
            let exit = child.wait().await.map_or(Exit::Status(1), exit_of);
            let _ = sender.send(Some(exit));
            drop(held);
        });
        Ok(Self { exited, orders })
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

    pub(super) fn order(&self, order: u8) {
        // This fails if the process is gone.
        let _ = self.orders.send(order);
    }
}

/// Writes orders to a warden's pipe, and closes it after the last one.
async fn pass_on(mut orders: mpsc::UnboundedReceiver<u8>, pipe: Option<ChildStdin>) {
    let Some(mut pipe) = pipe else { return };
    while let Some(order) = orders.recv().await {
        // This fails if the process is gone.
        let _ = pipe.write_all(&[order]).await;
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal() {
        Some(signal) => Exit::Signal(signal),
        None => Exit::Status(status.code().unwrap_or_default()),
    }
}
