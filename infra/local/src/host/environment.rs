//! One environment of a function: its runtime, and the API that it calls.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use axum::serve::ListenerExt as _;
use tokio::{net::TcpListener, task::JoinSet, time::timeout};

use super::{
    launch::Plan,
    log::Log,
    process::Process,
    runtime_api::{self, Answer, RuntimeApi},
    warden::{FREEZE, THAW},
};
use crate::model::lambda::{
    function::Configuration,
    run::{Outcome, Run},
};

/// Runs a function for one event at a time. Its runtime is killed when this is dropped.
pub(crate) struct Environment {
    pub(super) configuration: Arc<Configuration>,
    api: Arc<RuntimeApi>,
    runtime: Process,
    /// Freezes the runtime when it waits for the next event.
    freezing: JoinSet<()>,
    _server: JoinSet<()>,
}

impl Environment {
    /// Starts one, and waits for at most `limit` until its runtime has asked for an event.
    pub(super) async fn start(plan: Plan<'_>, limit: Duration) -> Result<Self, Outcome> {
        let failed = |error| Outcome::NotStarted(format!("no Runtime API: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        let (api, init) = RuntimeApi::new();
        let router = runtime_api::router(Arc::clone(&api));
        let listener = listener.tap_io(|stream| {
            // An answer in two packets must not wait for the first one's acknowledgement.
            let _ = stream.set_nodelay(true);
        });
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let configuration = Arc::clone(&plan.run.configuration);
        let log = Log {
            journal: plan.host.journal.clone(),
            function: Arc::clone(&configuration.name),
            api: Arc::clone(&api),
        };
        let runtime = plan.start(&address, &log).map_err(Outcome::NotStarted)?;
        let initialised = async {
            tokio::select! {
                biased;
                init = init => match init {
                    Ok(Err(report)) => Err(Outcome::InitFailed(report)),
                    Ok(Ok(())) | Err(_) => Ok(()),
                },
                exit = runtime.exit() => Err(Outcome::InitExited(exit)),
            }
        };
        timeout(limit, initialised).await.unwrap_or(Err(Outcome::TimedOut))?;
        Ok(Self { configuration, api, runtime, freezing: JoinSet::new(), _server: server })
    }

    /// Makes a run. `None` if the environment ended before the runtime took the event.
    pub(super) async fn run(&mut self, run: &Run, limit: Duration) -> Option<Answer> {
        self.thaw().await;
        let over = |outcome| Some(Answer { outcome, reusable: false });
        let (taken, mut answer) = self.api.offer(run, limit);
        let taken = async {
            tokio::select! {
                biased;
                taken = taken => taken.ok(),
                _ = self.runtime.exit() => None,
            }
        };
        match timeout(limit, taken).await {
            Ok(taken) => taken?,
            // The environment is still busy with the previous event.
            Err(_) => return over(Outcome::TimedOut),
        }
        let answered = async {
            tokio::select! {
                biased;
                Ok(answer) = &mut answer => Ok(answer),
                exit = self.runtime.exit() => Err(exit),
            }
        };
        match timeout(limit, answered).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(exit)) => over(Outcome::Exited(exit)),
            Err(_) => over(Outcome::TimedOut),
        }
    }

    /// Stops the runtime as soon as it waits for the next event, until it is thawed.
    pub(super) fn freeze(&mut self) {
        let api = Arc::clone(&self.api);
        // Weak, because the runtime is killed when the last strong one is dropped.
        let orders = self.runtime.orders.downgrade();
        self.freezing.spawn(async move {
            api.asked().await;
            if let Some(orders) = orders.upgrade() {
                let _ = orders.send(FREEZE);
            }
        });
    }

    async fn thaw(&mut self) {
        if !self.freezing.is_empty() {
            // Awaited, so that it can't freeze the runtime again.
            self.freezing.shutdown().await;
            self.runtime.order(THAW);
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.runtime.is_alive()
    }
}
