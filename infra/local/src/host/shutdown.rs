//! An environment's processes, and their end.
//!
//! Without extensions, the processes are killed. With extensions, there is a shutdown as on AWS: the runtime gets
//! SIGTERM and a share of the time, then the extensions that registered for it get an event. The others are killed
//! at once, and whatever is left when the time is over is killed too.
//!
//! Meanwhile an extension may still hold what the next environment needs, such as a port. So a function's new
//! environment waits for the end of its earlier ones.

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

/// The runtime's share of it, as in AWS's own emulator.
const RUNTIME_MAX: Duration = Duration::from_millis(600);

/// Why an environment ends. AWS writes it in capitals.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Reason {
    /// It is no longer needed.
    #[default]
    Spindown,
    /// A run took too long.
    Timeout,
    /// A process failed.
    Failure,
}

/// An environment's processes and their APIs. The processes are killed when this is dropped.
#[derive(Default)]
pub(super) struct Processes {
    /// None until all extensions have registered.
    pub(super) runtime: Option<Process>,
    /// By name.
    pub(super) extensions: Vec<(Arc<str>, Process)>,
    /// The extensions' side of their API.
    pub(super) told: Arc<Extensions>,
    pub(super) server: JoinSet<()>,
}

impl Processes {
    /// Resolves when the runtime has ended.
    pub(super) async fn runtime_exit(&self) -> Exit {
        match &self.runtime {
            Some(runtime) => runtime.exit().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn are_well(&self) -> bool {
        self.runtime.as_ref().is_none_or(Process::is_alive) && self.told.are_well()
    }

    /// Ends them all. A shutdown holds a receiver of `ending` until it is over.
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
        let _ = timeout(SHUTDOWN_MAX, self.take_leave(reason)).await;
        // What is left is killed.
        drop(self);
        gone.await;
        drop(ending);
    }

    async fn take_leave(&mut self, reason: Reason) {
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
        self.told.shut_down(&event.to_string());
        self.extensions.retain(|(name, _)| self.told.awaits_shutdown(name));
        for (_, extension) in &self.extensions {
            extension.exit().await;
        }
    }
}
