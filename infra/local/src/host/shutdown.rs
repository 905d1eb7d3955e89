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
use tokio::{sync::watch, task::JoinSet, time::timeout};

use super::{extensions::Extensions, process::Process};
use crate::{clock, model::lambda::run::Exit};

/// How long the shutdown of an environment with extensions may take.
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

    /// Ends all processes. A shutdown holds a receiver of `ending` until it is over.
    pub(super) fn end(self, reason: Reason, ending: &watch::Sender<()>) {
        if !self.extensions.is_empty()
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            handle.spawn(self.shut_down(reason, ending.subscribe()));
        }
    }

    async fn shut_down(mut self, reason: Reason, ending: watch::Receiver<()>) {
        let extensions = self.extensions.iter().map(|(_, extension)| extension);
        let gone = join_all(self.runtime.iter().chain(extensions).map(Process::exit));
        let _ = timeout(SHUTDOWN_MAX, self.notify_and_wait(reason)).await;
        // This kills the remaining processes.
        drop(self);
        gone.await;
        drop(ending);
    }

    async fn notify_and_wait(&mut self, reason: Reason) {
        let deadline = later(clock::now(), SHUTDOWN_MAX).timestamp_millis();
        if let Some(mut runtime) = self.runtime.take() {
            runtime.terminate().await;
            let _ = timeout(RUNTIME_MAX, runtime.exit()).await;
        }
        let event = json!({
            "eventType": "SHUTDOWN",
            "shutdownReason": reason,
            "deadlineMs": deadline,
        });
        self.registry.shut_down(&event.to_string());
        self.extensions.retain(|(name, _)| self.registry.awaits_shutdown(name));
        for (_, extension) in &self.extensions {
            extension.exit().await;
        }
    }
}
