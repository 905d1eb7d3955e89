//! An environment's processes, and their shutdown.
//!
//! Without extensions, the processes are killed. With extensions, there is a shutdown as on AWS: the runtime gets
//! SIGTERM and a share of the time, then the extensions that registered for `SHUTDOWN` get that event. The other
//! extensions are killed at that time. All remaining processes are killed when the time is over.
//!
//! Until then, an extension may hold resources that the next environment needs, such as a port. So a new environment of
//! a function is started only when the earlier ones have ended.

use std::{sync::Arc, time::Duration};

use comeback_core::time::later;
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    extensions::{Extensions, SHUTDOWN},
    process::Process,
    runtime_api::RuntimeApi,
    warden::{FREEZE, TERMINATE, THAW},
};
use crate::{model::lambda::run::Exit, present::now};

const SHUTDOWN_MAX: Duration = Duration::from_secs(2);

/// The runtime's share of that time, as in AWS's own emulator.
const RUNTIME_MAX: Duration = Duration::from_millis(600);

/// Why an environment ends. In the event, AWS writes it in capitals.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Reason {
    #[default]
    Spindown,
    Timeout,
    Failure,
}

/// An environment's processes and their APIs. The processes are killed when this is dropped.
#[derive(Default)]
pub(super) struct Processes {
    /// `None` until all extensions have registered.
    pub(super) runtime: Option<Process>,
    pub(super) extensions: Vec<(Arc<str>, Process)>,
    pub(super) registry: Arc<Extensions>,
    pub(super) server: JoinSet<()>,
    /// Freezes the processes when they wait for the next event.
    pub(super) freezing: JoinSet<()>,
}

impl Processes {
    pub(super) async fn runtime_exit(&self) -> Exit {
        match &self.runtime {
            Some(runtime) => runtime.exit().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn are_healthy(&self) -> bool {
        self.runtime.as_ref().is_none_or(Process::is_alive) && self.registry.are_healthy()
    }

    fn all(&self) -> impl Iterator<Item = &Process> {
        self.runtime.iter().chain(self.extensions.iter().map(|(_, extension)| extension))
    }

    /// Stops all processes as soon as they wait for the next event, until they are thawed.
    pub(super) fn freeze(&mut self, api: Arc<RuntimeApi>) {
        let registry = Arc::clone(&self.registry);
        // Weak, because a process is killed when the last strong one is dropped.
        let orders: Vec<_> = self.all().map(|process| process.orders.downgrade()).collect();
        self.freezing.spawn(async move {
            api.asked().await;
            registry.ready().await;
            for orders in orders.iter().filter_map(mpsc::WeakUnboundedSender::upgrade) {
                let _ = orders.send(FREEZE);
            }
        });
    }

    pub(super) async fn thaw(&mut self) {
        if !self.freezing.is_empty() {
            // Awaited, so that it can't freeze a process again.
            self.freezing.shutdown().await;
            self.all().for_each(|process| process.order(THAW));
        }
    }

    /// Ends all processes. A shutdown holds a receiver of `ending` until it is over.
    pub(super) fn end(self, reason: Reason, ending: &watch::Sender<()>) {
        if !self.extensions.is_empty()
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            handle.spawn(self.shut_down(reason, ending.subscribe()));
        }
    }

    async fn shut_down(mut self, reason: Reason, ending: watch::Receiver<()>) {
        self.thaw().await;
        let gone = join_all(self.all().map(Process::exit));
        let _ = timeout(SHUTDOWN_MAX, self.notify_and_wait(reason)).await;
        // This kills the remaining processes.
        drop(self);
        gone.await;
        drop(ending);
    }

    async fn notify_and_wait(&mut self, reason: Reason) {
        let deadline = later(now(), SHUTDOWN_MAX).timestamp_millis();
        if let Some(runtime) = self.runtime.take() {
            runtime.order(TERMINATE);
            let _ = timeout(RUNTIME_MAX, runtime.exit()).await;
        }
        let event = json!({
            "eventType": SHUTDOWN,
            "shutdownReason": reason,
            "deadlineMs": deadline,
        });
        self.registry.send(SHUTDOWN, &event.to_string());
        self.extensions.retain(|(name, _)| self.registry.awaits_shutdown(name));
        for (_, extension) in &self.extensions {
            extension.exit().await;
        }
    }
}
