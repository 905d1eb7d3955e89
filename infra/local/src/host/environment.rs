//! One environment of a function: its runtime, its extensions, and the APIs that they talk to.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use axum::serve::ListenerExt as _;
use comeback_core::time::later;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, time::timeout};

use super::{
    extensions::Extensions,
    extensions_api,
    launch::Plan,
    log::Log,
    runtime_api::{self, Answer, Init, RuntimeApi},
    shutdown::{Processes, Reason},
};
use crate::{
    clock,
    model::{
        ids::Ids,
        lambda::{
            function::Configuration,
            run::{Exit, ExtensionFailure, ExtensionFault, Outcome, Run},
        },
    },
};

/// Runs a function for one event at a time. Its processes are ended when this is dropped.
pub(crate) struct Environment {
    pub(super) configuration: Arc<Configuration>,
    api: Arc<RuntimeApi>,
    processes: Processes,
    /// The reason if it is ended now.
    reason: Reason,
    /// Has a receiver while it is being ended.
    ending: watch::Sender<()>,
}

/// Why an environment did not come up.
pub(super) enum NotReady {
    /// It failed.
    Failed(Outcome),
    /// It took too long, and was ended.
    TimedOut,
}

/// The result of a run in an environment.
pub(super) enum Ran {
    /// The run ended, and the environment can make another.
    Reusable(Outcome),
    /// The run ended, and so did the environment.
    Over(Outcome),
    /// The environment ended before it took the event.
    Gone,
}

/// How an environment ended by itself.
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
    pub(super) async fn start(plan: Plan<'_>, limit: Duration) -> Result<Self, NotReady> {
        let failed =
            |error| NotReady::Failed(Outcome::NotStarted(format!("no Runtime API: {error}")));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        let (api, init) = RuntimeApi::new();
        let files = plan.extensions();
        let names = files.iter().map(|(name, _)| Arc::clone(name));
        let told = Arc::new(Extensions::new(names, Ids::new(plan.seed)));
        let configuration = Arc::clone(plan.configuration);
        let router = runtime_api::router(Arc::clone(&api))
            .merge(extensions_api::router(Arc::clone(&told), Arc::clone(&configuration)));
        let listener = listener.tap_io(|stream| {
            // An answer in two packets must not wait for the first one's acknowledgement.
            let _ = stream.set_nodelay(true);
        });
        let mut processes = Processes { told: Arc::clone(&told), ..Processes::default() };
        processes.server.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let log = plan.log(&api);
        let (reason, ending) = (Reason::default(), plan.ending.clone());
        let mut environment = Self { configuration, api, processes, reason, ending };
        let initialise = environment.initialise(&plan, files, &address, &log, init);
        let initialised = timeout(limit, initialise).await;
        for line in told.lines() {
            log.write(line.as_bytes());
        }
        let (reason, not_ready) = match initialised {
            Ok(Ok(())) => return Ok(environment),
            Ok(Err(outcome)) => (Reason::Failure, NotReady::Failed(outcome)),
            Err(_) => (Reason::Timeout, NotReady::TimedOut),
        };
        environment.reason = reason;
        Err(not_ready)
    }

    async fn initialise(
        &mut self,
        plan: &Plan<'_>,
        files: Vec<(Arc<str>, PathBuf)>,
        address: &str,
        log: &Log,
        init: Init,
    ) -> Result<(), Outcome> {
        let told = Arc::clone(&self.processes.told);
        for (name, file) in files {
            let command = plan.extension(&file, address);
            let extension = command.and_then(|command| plan.start(command, log));
            let extension = extension.map_err(|reason| {
                let fault = ExtensionFault::NotStarted(reason);
                Outcome::InitExtensionFailed(ExtensionFailure { extension: name.clone(), fault })
            })?;
            tokio::spawn(fail_at_end(extension.exit(), name.clone(), Arc::clone(&told)));
            self.processes.extensions.push((name, extension));
        }
        tokio::select! {
            biased;
            () = told.registered() => {}
            failure = told.failure() => return Err(Outcome::InitExtensionFailed(failure)),
        }
        let runtime = plan.start(plan.runtime(address), log);
        self.processes.runtime = Some(runtime.map_err(Outcome::NotStarted)?);
        let ready = async {
            if let Ok(Err(report)) = init.await {
                return Err(Outcome::InitFailed(report));
            }
            told.ready().await;
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

    /// Runs the function once, for at most `limit`.
    pub(super) async fn run(&mut self, run: &Run, limit: Duration) -> Ran {
        let ran = self.invoke(run, limit).await;
        self.reason = match &ran {
            Ran::Reusable(_) => Reason::Spindown,
            Ran::Over(Outcome::TimedOut) => Reason::Timeout,
            Ran::Over(_) | Ran::Gone => Reason::Failure,
        };
        ran
    }

    async fn invoke(&self, run: &Run, limit: Duration) -> Ran {
        let asked = async {
            self.processes.told.ready().await;
            self.processes.told.invoke(&invoke_event(run, limit));
            let (taken, answer) = self.api.hand_over(run, limit);
            taken.await.ok().map(|()| answer)
        };
        let asked = async {
            tokio::select! {
                biased;
                asked = asked => asked,
                _ = self.ended() => None,
            }
        };
        let mut answer = match timeout(limit, asked).await {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ran::Gone,
            // It is still busy after its last answer.
            Err(_) => return Ran::Over(Outcome::TimedOut),
        };
        let answered = async {
            tokio::select! {
                biased;
                Ok(answer) = &mut answer => Ok(answer),
                ended = self.ended() => Err(ended),
            }
        };
        match timeout(limit, answered).await {
            Ok(Ok(Answer { outcome, goes_on: true })) => Ran::Reusable(outcome),
            Ok(Ok(Answer { outcome, goes_on: false })) => Ran::Over(outcome),
            Ok(Err(Ended::Runtime(exit))) => Ran::Over(Outcome::Exited(exit)),
            Ok(Err(Ended::Extension(failure))) => Ran::Over(Outcome::ExtensionFailed(failure)),
            Err(_) => Ran::Over(Outcome::TimedOut),
        }
    }

    /// Resolves when the runtime or an extension has ended.
    async fn ended(&self) -> Ended {
        tokio::select! {
            biased;
            failure = self.processes.told.failure() => Ended::Extension(failure),
            exit = self.processes.runtime_exit() => Ended::Runtime(exit),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.processes.are_well()
    }
}

/// Reports an extension that ends by itself as failed. When the environment ends, nobody reads the report.
async fn fail_at_end(exit: impl Future<Output = Exit>, name: Arc<str>, told: Arc<Extensions>) {
    told.fail(name, ExtensionFault::Exited(exit.await));
}

/// The event for extensions at an invocation.
fn invoke_event(run: &Run, limit: Duration) -> String {
    let event = json!({
        "eventType": "INVOKE",
        "deadlineMs": later(clock::now(), limit).timestamp_millis(),
        "requestId": run.request_id,
        "invokedFunctionArn": run.configuration.arn,
        "tracing": { "type": "X-Amzn-Trace-Id", "value": run.trace_header },
    });
    event.to_string()
}
