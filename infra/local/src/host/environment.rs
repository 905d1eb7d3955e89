//! One environment of a function: its runtime, its extensions, and the APIs that they call.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use axum::serve::ListenerExt as _;
use comeback_core::time::later;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, time::timeout};

use super::{
    extensions::{Extensions, INVOKE},
    extensions_api,
    launch::Plan,
    log::Log,
    processes::{Processes, Reason},
    runtime_api::{self, Answer, Init, RuntimeApi},
};
use crate::{
    model::{
        Ids,
        lambda::{
            function::Configuration,
            run::{Exit, ExtensionFailure, ExtensionFault, Outcome, Run},
        },
    },
    present::now,
};

/// Runs a function for one event at a time. Its processes are ended when this is dropped.
pub(crate) struct Environment {
    pub(super) configuration: Arc<Configuration>,
    api: Arc<RuntimeApi>,
    processes: Processes,
    /// The reason to give extensions if it is ended now.
    reason: Reason,
    /// Has a receiver while an environment of the function is being ended.
    ending: watch::Sender<()>,
}

enum Ended {
    Runtime(Exit),
    Extension(ExtensionFailure),
}

impl Drop for Environment {
    fn drop(&mut self) {
        std::mem::take(&mut self.processes).end(self.reason, &self.ending);
    }
}

impl Environment {
    /// Starts one, and waits for at most `limit` until its runtime and all its extensions have asked for an event.
    pub(super) async fn start(plan: Plan<'_>, limit: Duration) -> Result<Self, Outcome> {
        let failed = |error| Outcome::NotStarted(format!("no Runtime API: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        let (api, init) = RuntimeApi::new();
        let files = plan.extensions();
        let names = files.iter().map(|(name, _)| Arc::clone(name));
        let registry = Arc::new(Extensions::new(names, Ids::new(plan.run.id.0)));
        let configuration = Arc::clone(&plan.run.configuration);
        let router = runtime_api::router(Arc::clone(&api))
            .merge(extensions_api::router(Arc::clone(&registry), Arc::clone(&configuration)));
        let listener = listener.tap_io(|stream| {
            // An answer in two packets must not wait for the first one's acknowledgement.
            let _ = stream.set_nodelay(true);
        });
        let mut processes = Processes { registry: Arc::clone(&registry), ..Processes::default() };
        processes.server.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let log = Log {
            journal: plan.host.journal.clone(),
            function: Arc::clone(&configuration.name),
            api: Arc::clone(&api),
        };
        let (reason, ending) = (Reason::default(), plan.ending.clone());
        let mut environment = Self { configuration, api, processes, reason, ending };
        let initialise = environment.initialise(&plan, files, &address, &log, init);
        let initialised = timeout(limit, initialise).await;
        for line in registry.lines() {
            log.write(line.as_bytes());
        }
        let (reason, outcome) = match initialised {
            Ok(Ok(())) => return Ok(environment),
            Ok(Err(outcome)) => (Reason::Failure, outcome),
            Err(_) => (Reason::Timeout, Outcome::TimedOut),
        };
        environment.reason = reason;
        Err(outcome)
    }

    async fn initialise(
        &mut self,
        plan: &Plan<'_>,
        files: Vec<(Arc<str>, PathBuf)>,
        address: &str,
        log: &Log,
        init: Init,
    ) -> Result<(), Outcome> {
        let registry = Arc::clone(&self.processes.registry);
        for (name, file) in files {
            let command = plan.extension(&file, address);
            let extension = command.and_then(|command| plan.start(command, log));
            let extension = extension.map_err(|reason| {
                let fault = ExtensionFault::NotStarted(reason);
                Outcome::InitExtensionFailed(ExtensionFailure { extension: name.clone(), fault })
            })?;
            let (exit, failed, registry) = (extension.exit(), name.clone(), Arc::clone(&registry));
            // If the environment is being ended, the report has no effect.
            tokio::spawn(async move { registry.fail(failed, ExtensionFault::Exited(exit.await)) });
            self.processes.extensions.push((name, extension));
        }
        tokio::select! {
            biased;
            () = registry.registered() => {}
            failure = registry.failure() => return Err(Outcome::InitExtensionFailed(failure)),
        }
        let runtime = plan.start(plan.runtime(address), log);
        self.processes.runtime = Some(runtime.map_err(Outcome::NotStarted)?);
        let ready = async {
            if let Ok(Err(report)) = init.await {
                return Err(Outcome::InitFailed(report));
            }
            registry.ready().await;
            Ok(())
        };
        tokio::select! {
            biased;
            ready = ready => ready,
            ended = self.ended() => Err(match ended {
                Ended::Runtime(exit) => Outcome::InitExited(exit),
                Ended::Extension(failure) => Outcome::InitExtensionFailed(failure),
            }),
        }
    }

    /// Makes a run. `None` if the environment ended before the runtime took the event.
    pub(super) async fn run(&mut self, run: &Run, limit: Duration) -> Option<Answer> {
        self.processes.thaw().await;
        let ran = self.invoke(run, limit).await;
        self.reason = match &ran {
            Some(Answer { reusable: true, .. }) => Reason::Spindown,
            Some(Answer { outcome: Outcome::TimedOut, .. }) => Reason::Timeout,
            Some(_) | None => Reason::Failure,
        };
        ran
    }

    async fn invoke(&self, run: &Run, limit: Duration) -> Option<Answer> {
        let over = |outcome| Some(Answer { outcome, reusable: false });
        let delivered = async {
            self.processes.registry.ready().await;
            self.processes.registry.send(INVOKE, &invoke_event(run, limit));
            let (taken, answer) = self.api.offer(run, limit);
            taken.await.ok().map(|()| answer)
        };
        let delivered = async {
            tokio::select! {
                biased;
                delivered = delivered => delivered,
                _ = self.ended() => None,
            }
        };
        let mut answer = match timeout(limit, delivered).await {
            Ok(answer) => answer?,
            // The environment is still busy with the previous event.
            Err(_) => return over(Outcome::TimedOut),
        };
        let answered = async {
            tokio::select! {
                biased;
                Ok(answer) = &mut answer => Ok(answer),
                ended = self.ended() => Err(ended),
            }
        };
        match timeout(limit, answered).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(Ended::Runtime(exit))) => over(Outcome::Exited(exit)),
            Ok(Err(Ended::Extension(failure))) => over(Outcome::ExtensionFailed(failure)),
            Err(_) => over(Outcome::TimedOut),
        }
    }

    async fn ended(&self) -> Ended {
        tokio::select! {
            biased;
            failure = self.processes.registry.failure() => Ended::Extension(failure),
            exit = self.processes.runtime_exit() => Ended::Runtime(exit),
        }
    }

    pub(super) fn freeze(&mut self) {
        self.processes.freeze(Arc::clone(&self.api));
    }

    pub(super) fn is_alive(&self) -> bool {
        self.processes.are_healthy()
    }
}

fn invoke_event(run: &Run, limit: Duration) -> String {
    let event = json!({
        "eventType": INVOKE,
        "deadlineMs": later(now(), limit).timestamp_millis(),
        "requestId": run.request_id,
        "invokedFunctionArn": run.configuration.arn,
        "tracing": { "type": "X-Amzn-Trace-Id", "value": run.trace_header },
    });
    event.to_string()
}
