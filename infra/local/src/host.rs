//! Runs functions as child processes. Each environment handles one event at a time.
//!
//! After a run, an environment stays warm for the function's next event. The most recently used one is taken first. An
//! environment is ended when it has been idle for `IDLE_MAX`, when its function has changed, when another function
//! needs its place, or when it fails. If the options say so, it is frozen meanwhile, as on AWS. At its end, the pipe to
//! the [`mod@warden`] is closed, which kills the processes.

pub(crate) mod code;
mod environment;
pub(crate) mod launch;
mod log;
mod process;
pub(crate) mod program;
mod response;
mod runtime_api;
pub(crate) mod unpacked;
mod warden;

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use comeback_core::{Timestamp, time::between};
use environment::Environment;
use launch::Plan;
use runtime_api::Answer;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
pub use warden::{WARDEN, warden};

use crate::{
    inherited::Inherited,
    journal::Journal,
    model::lambda::run::{Outcome, Run},
    present::{lock, now},
};

/// How long the first initialisation of an environment may take.
const INIT_MAX: Duration = Duration::from_secs(10);

/// How long an environment stays warm without an event. AWS only documents that it is minutes.
const IDLE_MAX: Duration = Duration::from_secs(5 * 60);

const STOP_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Host {
    warden: PathBuf,
    pub(crate) inherited: Inherited,
    endpoint: String,
    journal: Journal,
    idle: Mutex<HashMap<Arc<str>, Vec<Idle>>>,
    busy: AtomicUsize,
    environments_max: usize,
    freeze: bool,
    stopping: watch::Sender<bool>,
    /// Each process holds a copy of the sender; the receiver is notified when none is left.
    alive: Mutex<Option<mpsc::Sender<()>>>,
    all_gone: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

struct Idle {
    environment: Environment,
    tenant_id: Option<Arc<str>>,
    since: Timestamp,
}

impl Host {
    pub(crate) fn new(
        inherited: Inherited,
        endpoint: &str,
        journal: Journal,
        environments_max: usize,
        freeze: bool,
    ) -> io::Result<Self> {
        let (alive, all_gone) = mpsc::channel(1);
        Ok(Self {
            warden: std::env::current_exe()?,
            inherited,
            endpoint: endpoint.to_owned(),
            journal,
            idle: Mutex::default(),
            busy: AtomicUsize::new(0),
            environments_max,
            freeze,
            stopping: watch::Sender::new(false),
            alive: Mutex::new(Some(alive)),
            all_gone: tokio::sync::Mutex::new(all_gone),
        })
    }

    /// Makes a run, and returns its outcome. The environment is returned if it can make another run. Then the caller
    /// must [`keep`](Self::keep) it.
    pub(crate) async fn run(&self, run: &Run) -> (Outcome, Option<Environment>) {
        let mut is_stopping = self.stopping.subscribe();
        self.busy.fetch_add(1, Ordering::Relaxed);
        let ran = tokio::select! {
            ran = self.run_to_its_end(run) => ran,
            _ = is_stopping.wait_for(|is_stopping| *is_stopping) => {
                (stopping(), None)
            }
        };
        self.busy.fetch_sub(1, Ordering::Relaxed);
        ran
    }

    async fn run_to_its_end(&self, run: &Run) -> (Outcome, Option<Environment>) {
        loop {
            let (mut environment, limit) = match self.take_idle(run) {
                Some(environment) => (environment, run.configuration.timeout()),
                None => match self.initialise(run).await {
                    Ok(initialised) => initialised,
                    Err(outcome) => return (outcome, None),
                },
            };
            if let Some(Answer { outcome, reusable }) = environment.run(run, limit).await {
                return (outcome, reusable.then_some(environment));
            }
        }
    }

    /// Starts an environment, and returns how long its run may take. As on AWS, an initialisation that exceeds
    /// `INIT_MAX` runs again within the function's timeout.
    async fn initialise(&self, run: &Run) -> Result<(Environment, Duration), Outcome> {
        let limit = run.configuration.timeout();
        match self.start(run, INIT_MAX).await {
            Err(Outcome::TimedOut) => {}
            started => return Ok((started?, limit)),
        }
        let begun = now();
        let environment = self.start(run, limit).await?;
        Ok((environment, limit.saturating_sub(between(begun, now()))))
    }

    async fn start(&self, run: &Run, limit: Duration) -> Result<Environment, Outcome> {
        drop(self.evict_longest_idle());
        let Some(alive) = lock(&self.alive).clone() else {
            return Err(stopping());
        };
        let plan = Plan { host: self, run, log_stream: &log_stream(run), alive };
        Environment::start(plan, limit).await
    }

    pub(crate) fn keep(&self, mut environment: Environment, tenant_id: Option<Arc<str>>) {
        let name = Arc::clone(&environment.configuration.name);
        if self.freeze {
            environment.freeze();
        }
        let mut idle = lock(&self.idle);
        // Checked under the lock, because a stop clears the idle environments only once.
        if !*self.stopping.borrow() {
            let since = now();
            idle.entry(name).or_default().push(Idle { environment, tenant_id, since });
        }
    }

    /// The most recently used idle environment of a run's function and tenant, if there is one. Environments of an
    /// earlier revision are ended.
    fn take_idle(&self, run: &Run) -> Option<Environment> {
        let mut idle = lock(&self.idle);
        let environments = idle.get_mut(&run.configuration.name)?;
        environments.retain(|Idle { environment, .. }| {
            environment.is_alive()
                && environment.configuration.revision_id == run.configuration.revision_id
        });
        let latest = environments.iter().rposition(|idle| idle.tenant_id == run.tenant_id)?;
        Some(environments.remove(latest).environment)
    }

    /// The environment that has been idle for longest, if a new one would exceed the limit. The model limits how many
    /// are in use, so there is an idle one then.
    fn evict_longest_idle(&self) -> Option<Environment> {
        let mut idle = lock(&self.idle);
        let kept: usize = idle.values().map(Vec::len).sum();
        if self.busy.load(Ordering::Relaxed) + kept <= self.environments_max {
            return None;
        }
        // A function's environments are kept in the order in which they became idle.
        let functions = idle.values_mut().filter(|environments| !environments.is_empty());
        let longest = functions.min_by_key(|environments| environments[0].since)?;
        Some(longest.remove(0).environment)
    }

    /// Ends a function's idle environments, because the function was changed or deleted.
    pub(crate) fn retire(&self, function: &str) {
        let ended = lock(&self.idle).remove(function);
        // Not under the lock, because this may remove the folder of their code.
        drop(ended);
    }

    pub(crate) fn sweep(&self) {
        let now = now();
        lock(&self.idle).retain(|_, environments| {
            environments.retain(|Idle { environment, since, .. }| {
                environment.is_alive() && between(*since, now) < IDLE_MAX
            });
            !environments.is_empty()
        });
    }

    /// Ends everything, and waits until all processes are gone.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        lock(&self.idle).clear();
        lock(&self.alive).take();
        let mut all_gone = self.all_gone.lock().await;
        let _ = timeout(STOP_MAX, all_gone.recv()).await;
    }
}

fn stopping() -> Outcome {
    Outcome::NotStarted("the local cloud is stopping".to_owned())
}

/// A log stream's name in Lambda's form, with the id of the environment's first event.
fn log_stream(run: &Run) -> String {
    let day = now().format("%Y/%m/%d");
    format!("{day}/[$LATEST]{}", run.request_id.replace('-', ""))
}
