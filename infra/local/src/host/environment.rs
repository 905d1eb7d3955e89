//! One environment of a function: its process, its Runtime API, and what it writes.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::launch::Plan;
use super::runtime_api::{self, Answer, Handed, RuntimeApi};
use crate::clock;
use crate::journal::{Event, Journal};
use crate::model::lambda::function::Configuration;
use crate::model::lambda::run::{Exit, INIT_TIMEOUT, Outcome, Run};

/// How much of a line that a function writes is kept as one.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// A process that runs a function for one event at a time. It is killed when this is dropped.
pub(super) struct Environment {
    pub(super) configuration: Arc<Configuration>,
    api: Arc<RuntimeApi>,
    /// Whether the function has yet to ask for its first event.
    cold: bool,
    exited: watch::Receiver<Option<Exit>>,
    server: JoinHandle<()>,
    /// Its end tells the warden to kill the function.
    _guard: Option<ChildStdin>,
}

/// What became of a run in an environment.
pub(super) enum Ran {
    /// It ended, and the environment is good for another.
    Reusable(Outcome),
    /// It ended, and so did the environment.
    Over(Outcome),
    /// The function's process was gone before it took the event; it is as if it was never asked.
    Gone,
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Environment {
    /// Starts one.
    pub(super) async fn start(plan: Plan<'_>) -> Result<Self, String> {
        let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| failed("no Runtime API", error))?;
        let address = listener.local_addr().map_err(|error| failed("no Runtime API", error))?;

        let mut child = plan
            .runtime(&address.to_string())?
            .spawn()
            .map_err(|error| failed("the function can't be started", error))?;
        let api = Arc::new(RuntimeApi::default());
        let router = runtime_api::router(Arc::clone(&api));
        let listener = listener.tap_io(|stream| {
            // An answer in two packets must not wait for the first one's acknowledgement.
            let _ = stream.set_nodelay(true);
        });
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let name = &plan.configuration.name;
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(log(stdout, plan.journal.clone(), Arc::clone(&api), Arc::clone(name)));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(log(stderr, plan.journal.clone(), Arc::clone(&api), Arc::clone(name)));
        }
        let guard = child.stdin.take();
        let (sender, exited) = watch::channel(None);
        let held = (Arc::clone(plan.configuration), plan.alive);
        tokio::spawn(wait(child, sender, held));
        Ok(Self {
            configuration: Arc::clone(plan.configuration),
            api,
            cold: true,
            exited,
            server,
            _guard: guard,
        })
    }

    /// Runs the function once.
    pub(super) async fn run(&mut self, run: &Run) -> Ran {
        let init = self.cold.then(|| self.api.init());
        let handed = self.api.hand_over(run);
        if let Some(init) = init {
            tokio::select! {
                biased;
                init = init => match init {
                    Ok(Ok(())) => self.cold = false,
                    Ok(Err(report)) => return Ran::Over(Outcome::InitFailed(report)),
                    Err(_) => return Ran::Gone,
                },
                exit = exit(self.exited.clone()) => return Ran::Over(Outcome::InitExited(exit)),
                () = tokio::time::sleep(INIT_TIMEOUT) => return Ran::Over(Outcome::InitTimedOut),
            }
        }
        self.wait_for_answer(handed, run.configuration.timeout()).await
    }

    async fn wait_for_answer(&self, handed: Handed, limit: Duration) -> Ran {
        let Handed { taken, mut answer } = handed;
        let asked = async {
            tokio::select! {
                biased;
                taken = taken => taken.is_ok(),
                _ = exit(self.exited.clone()) => false,
            }
        };
        match timeout(limit, asked).await {
            Ok(true) => {}
            Ok(false) => return Ran::Gone,
            // It is still busy with something after its last answer.
            Err(_) => return Ran::Over(Outcome::TimedOut),
        }
        let answered = async {
            tokio::select! {
                biased;
                answer = &mut answer => answer.ok(),
                _ = exit(self.exited.clone()) => None,
            }
        };
        match timeout(limit, answered).await {
            Ok(Some(Answer::Response(bytes))) => Ran::Reusable(Outcome::Returned(bytes)),
            Ok(Some(Answer::Error(bytes))) => Ran::Reusable(Outcome::Failed(bytes)),
            Ok(Some(Answer::TooLarge)) => Ran::Over(Outcome::ResponseTooLarge),
            Ok(None) => Ran::Over(Outcome::Exited(exit(self.exited.clone()).await)),
            Err(_) => Ran::Over(Outcome::TimedOut),
        }
    }

    /// Whether its process is there.
    pub(super) fn is_alive(&self) -> bool {
        self.exited.borrow().is_none()
    }
}

/// Waits for the end of a process, and tells it. What the process needs, and what tells that it is
/// there, is held until then: an unpacked zip is removed after the last process that was started
/// from it.
async fn wait(
    mut child: Child,
    exited: watch::Sender<Option<Exit>>,
    held: (Arc<Configuration>, mpsc::Sender<()>),
) {
    let exit = child.wait().await.map_or(Exit::Status(1), how);
    let _ = exited.send(Some(exit));
    drop(held);
}

fn how(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal() {
        Some(signal) => Exit::Signal(signal),
        None => Exit::Status(status.code().unwrap_or_default()),
    }
}

/// Resolves when the process has ended.
async fn exit(mut exited: watch::Receiver<Option<Exit>>) -> Exit {
    match exited.wait_for(Option::is_some).await.map(|exit| *exit) {
        Ok(Some(exit)) => exit,
        // Nobody waits for the process any more, so this process is ending too.
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

/// Writes what a function writes into the journal, line by line.
async fn log(
    output: impl AsyncRead + Unpin,
    journal: Journal,
    api: Arc<RuntimeApi>,
    function: Arc<str>,
) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        let available = match output.fill_buf().await {
            Ok(available) if !available.is_empty() => available,
            Ok(_) | Err(_) => break,
        };
        let end = available.iter().position(|byte| *byte == b'\n');
        let room = LINE_BYTES_MAX - line.len();
        let used = end.unwrap_or(available.len()).min(room);
        line.extend_from_slice(&available[..used]);
        let whole = end == Some(used);
        output.consume(used + usize::from(whole));
        if whole || line.len() >= LINE_BYTES_MAX {
            journal.write([logged(&line, &api, &function)]);
            line.clear();
        }
    }
    if !line.is_empty() {
        journal.write([logged(&line, &api, &function)]);
    }
}

fn logged(line: &[u8], api: &RuntimeApi, function: &Arc<str>) -> Event {
    Event::Logged {
        at: clock::now(),
        function: Arc::clone(function),
        request_id: api.latest_request_id(),
        line: String::from_utf8_lossy(line).trim_end_matches('\r').to_owned(),
    }
}
