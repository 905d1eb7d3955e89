//! The state that all requests share, the pump that advances the model, and their start and end.
//!
//! Every request makes its [`Shared::step`] under one lock: the model is fast and never waits. After
//! a step, the runs that became due are given to the host, and whoever waits for a change is woken.
//! Where nothing happens from outside, the pump makes the next step at the moment that the model
//! asks for.

use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::serve::ListenerExt as _;
use comeback_core::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::clock;
use crate::gate;
use crate::host::unpacked::Unpacked;
use crate::host::variables::Common;
use crate::host::{Host, Inherited};
use crate::journal::{Journal, Watch};
use crate::model::lambda::run::{Response, Run};
use crate::model::{Cloud, Waiting};

/// How often environments that have been idle for long are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// How long to wait at the end until every request is let go.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// How the local cloud is to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// The port on 127.0.0.1 to listen on; 0 for any that is free.
    pub port: u16,
    /// How many runs of functions there may be at a time, and how many processes, those included that
    /// wait for an event. AWS gives an account 1,000.
    pub concurrency: u32,
    /// What functions have of the environment of who starts them.
    pub inherited: Inherited,
}

impl Default for Config {
    fn default() -> Self {
        Self { port: 0, concurrency: 100, inherited: Inherited::default() }
    }
}

/// A local cloud that is running. It ends when it is stopped or dropped; to stop it also waits for
/// the functions' processes to be gone.
pub struct Server {
    endpoint: String,
    shared: Shared,
    /// The listener, the pump and the sweep: they end with this.
    tasks: JoinSet<()>,
    /// Its end closes the connections.
    open: watch::Sender<()>,
    /// Told when nobody has the shared state any more.
    gone: mpsc::Receiver<()>,
}

/// Starts a local cloud.
///
/// Functions are started through this process's own executable: see [`warden`](crate::warden).
///
/// # Errors
/// If the port can't be listened on.
pub async fn start(config: Config) -> io::Result<Server> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port)).await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let (open, closing) = watch::channel(());
    let (held, gone) = mpsc::channel(1);
    let shared = Shared::new(config, &endpoint, closing, held)?;
    let app = Router::new().fallback(gate::enter).with_state(shared.clone());
    let listener = listener.tap_io(|stream| {
        // An answer in two packets must not wait for the first one's acknowledgement.
        let _ = stream.set_nodelay(true);
    });
    let closing = shared.closing();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = axum::serve(listener, app).with_graceful_shutdown(closing).await;
    });
    tasks.spawn(shared.clone().pump());
    tasks.spawn(shared.clone().sweep());
    Ok(Server { endpoint, shared, tasks, open, gone })
}

impl Server {
    /// Where SDKs are to be pointed: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Answers a request that comes over no connection.
    pub async fn answer(&self, request: Request) -> axum::response::Response {
        gate::enter(axum::extract::State(self.shared.clone()), request).await
    }

    /// The state behind it, for tests that step on the model beside its requests.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What happens from now on.
    pub fn watch(&self) -> Watch {
        Watch::new(self.shared.0.journal.clone())
    }

    /// How many events would be lost if it ended now.
    pub fn waiting(&self) -> Waiting {
        self.shared.look(Cloud::waiting)
    }

    /// Stops listening, ends every connection and every function's process, and waits until they are
    /// gone, and with them what was unpacked.
    pub async fn stop(self) {
        let Self { shared, tasks, open, mut gone, .. } = self;
        drop((tasks, open));
        shared.0.host.stop().await;
        drop(shared);
        // A client that doesn't take its answer is not worth waiting for.
        let _ = tokio::time::timeout(LEAVE_MAX, gone.recv()).await;
    }
}

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    host: Host,
    unpacked: Unpacked,
    journal: Journal,
    /// Wakes everyone who waits for a change.
    changed: Notify,
    /// Wakes the pump, because the moment of the next step has come nearer.
    sooner: Notify,
    /// Closed when connections are to be.
    closing: watch::Receiver<()>,
    /// The last to be dropped: its end tells that all the others are.
    _held: mpsc::Sender<()>,
}

struct State {
    cloud: Cloud,
    /// When the model wants the next step.
    wakeup: Option<Timestamp>,
}

impl Shared {
    fn new(
        config: Config,
        endpoint: &str,
        closing: watch::Receiver<()>,
        held: mpsc::Sender<()>,
    ) -> io::Result<Self> {
        let seed = seed();
        let journal = Journal::default();
        let unpacked = Unpacked::new(config.inherited.temporary(), seed);
        let common = Common::new(config.inherited, endpoint);
        let environments_max = usize::try_from(config.concurrency).unwrap_or(usize::MAX);
        Ok(Self(Arc::new(Inner {
            state: Mutex::new(State { cloud: Cloud::new(config.concurrency, seed), wakeup: None }),
            host: Host::new(common, journal.clone(), environments_max)?,
            unpacked,
            journal,
            changed: Notify::new(),
            sooner: Notify::new(),
            closing,
            _held: held,
        })))
    }

    /// One step on the model at the present time. Afterwards whatever became due is started, and
    /// all who wait for a change are woken.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Cloud, Timestamp) -> T) -> T {
        let (result, _) = self.advance(step);
        self.0.changed.notify_waiters();
        result
    }

    /// A step that by itself changes nothing which others wait for, such as a receive: it wakes them
    /// only if something came of it. Two long polls that woke each other by looking would never rest.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Cloud, Timestamp) -> T) -> T {
        let (result, concerns_others) = self.advance(look);
        if concerns_others {
            self.0.changed.notify_waiters();
        }
        result
    }

    /// Resolves when anything has changed since this call: make it before looking, then wait on it.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.0.changed.notified()
    }

    /// Resolves when requests are to be let go, because the local cloud stops.
    pub(crate) fn closing(&self) -> impl Future<Output = ()> + use<> {
        closed(self.0.closing.clone())
    }

    /// Gives a run to the host, and its outcome to the model. The handle resolves to what the run's
    /// invoker is to be told.
    pub(crate) fn start(&self, run: Run) -> JoinHandle<Option<Response>> {
        let shared = self.clone();
        tokio::spawn(async move {
            let (outcome, warm) = shared.0.host.run(&run).await;
            // The environment is kept before the model hears of the end: what it starts next shall
            // find it warm.
            if let Some(warm) = warm
                && shared.is_current(&run)
            {
                shared.0.host.keep(warm);
            }
            shared.step(|cloud, now| cloud.finish(now, run.id, outcome))
        })
    }

    /// The host, to prepare and to retire functions.
    pub(crate) fn host(&self) -> &Host {
        &self.0.host
    }

    /// Where zips are unpacked.
    pub(crate) fn unpacked(&self) -> &Unpacked {
        &self.0.unpacked
    }

    /// What happened so far.
    pub(crate) fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// Makes a step and all that follows from it; whether anything happened that others may wait
    /// for.
    fn advance<T>(&self, step: impl FnOnce(&mut Cloud, Timestamp) -> T) -> (T, bool) {
        let now = clock::now();
        let mut state = self.state();
        let result = step(&mut state.cloud, now);
        let runs = state.cloud.advance(now);
        let happened = state.cloud.take_happened();
        let wakeup = state.cloud.next_wakeup(now);
        let sooner = match (wakeup, state.wakeup) {
            (Some(new), Some(old)) => new < old,
            (new, _) => new.is_some(),
        };
        state.wakeup = wakeup;
        let concerns_others = state.cloud.take_redriven() || !happened.is_empty();
        if !happened.is_empty() {
            // Before another step can be made: the journal tells them in their order.
            self.0.journal.write(happened);
        }
        drop(state);
        for run in runs {
            // Nobody waits for it: the model itself does what follows.
            drop(self.start(run));
        }
        if sooner {
            self.0.sooner.notify_one();
        }
        (result, concerns_others)
    }

    /// Whether a run's function is still as it was when the run began.
    fn is_current(&self, run: &Run) -> bool {
        let state = self.state();
        let current = state.cloud.lambda.configuration(&run.configuration.name);
        current.is_ok_and(|current| current.revision_id == run.configuration.revision_id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A step that panicked has changed what it had changed; the others still want answers.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a step whenever the model asks for one.
    async fn pump(self) {
        loop {
            let sooner = self.0.sooner.notified();
            let wakeup = self.state().wakeup;
            match wakeup {
                None => sooner.await,
                Some(wakeup) => tokio::select! {
                    () = sooner => {}
                    () = tokio::time::sleep(clock::until(wakeup)) => self.look(|_, _| ()),
                },
            }
        }
    }

    /// Ends idle environments from time to time.
    async fn sweep(self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            self.0.host.sweep();
        }
    }
}

/// Resolves when the other end is gone; nothing is ever sent.
async fn closed(mut open: watch::Receiver<()>) {
    while open.changed().await.is_ok() {}
}

/// Ids differ from one start to the next, as a client that outlives the local cloud expects.
fn seed() -> u64 {
    let nanos = clock::now().timestamp_nanos_opt().unwrap_or_default();
    nanos.cast_unsigned() ^ u64::from(std::process::id()).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    /// Longer than anything here takes; a test that needs it has failed.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// What comes over a connection until its end. It may be a reset, where the listener went before
    /// it had read all.
    async fn rest(mut connection: TcpStream) -> String {
        let mut text = String::new();
        let read = timeout(PATIENCE, connection.read_to_string(&mut text)).await;
        let _ = read.expect("the connection stays open");
        text
    }

    async fn request(connection: &mut TcpStream, path: &str) {
        let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn with_the_end_connections_and_requests_that_wait_end_and_nothing_is_held() {
        let server = start(Config::default()).await.unwrap();
        let address = server.endpoint().strip_prefix("http://").unwrap().to_owned();
        let connect = || async { TcpStream::connect(&address).await.unwrap() };
        let (silent, mut idle, mut waiting) = (connect().await, connect().await, connect().await);
        request(&mut idle, "/_local/health").await;
        assert_eq!(idle.read_u8().await.unwrap(), b'H');
        request(&mut waiting, "/_local/journal?wait=60").await;
        let state = Arc::downgrade(&server.shared.0);

        server.stop().await;
        assert!(state.upgrade().is_none());
        assert!(rest(silent).await.is_empty());
        assert!(rest(idle).await.contains("200 OK"));
        let refusal = rest(waiting).await;
        assert!(refusal.is_empty() || refusal.starts_with("HTTP/1.1 503 "), "{refusal}");
        assert!(TcpStream::connect(&address).await.is_err());
    }

    #[tokio::test]
    async fn a_local_cloud_that_is_dropped_ends_too() {
        let mut server = start(Config::default()).await.unwrap();
        let address = server.endpoint().strip_prefix("http://").unwrap().to_owned();
        let connection = TcpStream::connect(&address).await.unwrap();
        let mut gone = std::mem::replace(&mut server.gone, mpsc::channel(1).1);
        drop(server);
        assert!(rest(connection).await.is_empty());
        assert_eq!(timeout(PATIENCE, gone.recv()).await, Ok(None));
    }
}
