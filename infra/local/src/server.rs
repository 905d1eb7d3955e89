//! The start and the stop of a local cloud, and simulated outages: functions that fail for a while instead of running.

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::Request, response::Response, serve::ListenerExt as _};
use comeback_core::Timestamp;
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    gate::{self, call},
    host::Inherited,
    model::{Cloud, Waiting, lambda::run::Outcome, sqs::IN_FLIGHT_MAX},
    shared::{Shared, lock},
};

const STOP_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Config {
    /// The port on 127.0.0.1 to listen on. 0 takes a free one.
    pub port: u16,
    /// The limit of concurrent runs of functions, and of environments, including idle ones. AWS's default for an
    /// account is 1,000.
    pub concurrency: u32,
    /// The limit of messages in flight in a queue. SQS's quota is [`IN_FLIGHT_MAX`].
    pub in_flight_max: usize,
    pub inherited: Inherited,
    /// The router for requests without a signature, such as those of a browser.
    pub page: Option<Router>,
    /// The router for requests to DynamoDB, which the local cloud itself does not have.
    pub dynamodb: Option<Router>,
    pub outages: Outages,
    /// Whether the processes of a function and its extensions are stopped between events, as on AWS.
    pub freeze: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: 0,
            concurrency: 100,
            in_flight_max: IN_FLIGHT_MAX,
            inherited: Inherited::default(),
            page: None,
            dynamodb: None,
            outages: Outages::default(),
            freeze: false,
        }
    }
}

/// A running local cloud. It ends when it is stopped or dropped. Only [`Server::stop`] waits until the functions'
/// processes have ended.
pub struct Server {
    endpoint: String,
    router: Router,
    shared: Shared,
    /// The listener, the pump and the sweep. They end when this is dropped.
    tasks: JoinSet<()>,
    open: watch::Sender<()>,
    /// Closed when the shared state has been dropped.
    gone: mpsc::Receiver<()>,
}

/// Functions are started through this process's own executable: see [`warden`](crate::warden).
pub async fn start(config: Config) -> io::Result<Server> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port)).await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let (open, closing) = watch::channel(());
    let (held, gone) = mpsc::channel(1);
    let in_flight_max = config.in_flight_max;
    let others = gate::Others { page: config.page.clone(), dynamodb: config.dynamodb.clone() };
    let shared = Shared::new(config, &endpoint, closing, held)?;
    shared.look(|cloud, _| cloud.sqs.in_flight_max = in_flight_max);
    let app = gate::router(shared.clone(), others);
    let router = app.clone();
    let listener = listener.tap_io(|stream| {
        // The second packet of a response must not wait until the first one is acknowledged.
        let _ = stream.set_nodelay(true);
    });
    let closing = shared.closing();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = axum::serve(listener, app).with_graceful_shutdown(closing).await;
    });
    tasks.spawn(shared.clone().pump());
    tasks.spawn(shared.clone().sweep());
    Ok(Server { endpoint, router, shared, tasks, open, gone })
}

impl Server {
    /// The endpoint for SDKs: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub async fn answer(&self, request: Request) -> Response {
        let Ok(response) = call(self.router.clone(), request).await;
        response
    }

    /// The shared state, for tests that make steps on the model themselves.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The events and messages that would be lost if it stopped now.
    pub fn waiting(&self) -> Waiting {
        self.shared.look(Cloud::waiting)
    }

    /// Stops listening, closes all connections, ends the functions' processes, and waits until they have ended and all
    /// unpacked folders are removed.
    pub async fn stop(self) {
        let Self { router, shared, tasks, open, mut gone, .. } = self;
        drop((router, tasks, open));
        shared.0.host.stop().await;
        drop(shared);
        // Don't wait any longer for a client that doesn't read its response.
        let _ = tokio::time::timeout(STOP_MAX, gone.recv()).await;
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outage {
    /// It reports an error, as if a service that it calls were down.
    Error,
    TimeOut,
    /// It has no concurrency, so no run starts. The caller of [`Outages::begin`] must set its reserved concurrency to
    /// 0.
    Throttle,
}

impl Outage {
    /// The outcome of a run during the outage. `limit` is the function's timeout. `None` if the run happens as usual.
    pub(crate) async fn carry_out(self, limit: Duration) -> Option<Outcome> {
        Some(match self {
            Self::Error => {
                let error = json!({
                    "errorType": "UpstreamUnavailable",
                    "errorMessage": "503: an outage that is played in the local cloud",
                });
                Outcome::Failed(error.to_string().into_bytes())
            }
            Self::TimeOut => {
                tokio::time::sleep(limit).await;
                Outcome::TimedOut
            }
            // The run began before the concurrency was set to 0.
            Self::Throttle => return None,
        })
    }
}

/// The functions with an outage, and when it ends. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Outages(Arc<Mutex<BTreeMap<String, (Outage, Timestamp)>>>);

impl Outages {
    /// Makes a function fail until this time. This replaces an earlier outage of the function.
    pub fn begin(&self, function: &str, outage: Outage, until: Timestamp) {
        lock(&self.0).insert(function.to_owned(), (outage, until));
    }

    pub fn end(&self, function: &str) {
        lock(&self.0).remove(function);
    }

    /// The outage of a function at this time, if there is one, and when it ends.
    pub fn now(&self, function: &str, now: Timestamp) -> Option<(Outage, Timestamp)> {
        lock(&self.0).get(function).copied().filter(|(_, until)| now < *until)
    }

    pub fn all(&self, now: Timestamp) -> BTreeMap<String, (Outage, Timestamp)> {
        let mut all = lock(&self.0).clone();
        all.retain(|_, (_, until)| now < *until);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        time::timeout,
    };

    use super::*;

    #[test]
    fn a_function_fails_until_its_outage_is_over() {
        let outages = Outages::default();
        let at = |second| Timestamp::UNIX_EPOCH + Duration::from_secs(second);
        outages.begin("orders", Outage::Error, at(10));
        assert_eq!(outages.now("orders", at(9)), Some((Outage::Error, at(10))));
        assert_eq!(outages.all(at(9)).len(), 1);
        assert_eq!(outages.now("orders", at(10)), None);
        assert_eq!(outages.all(at(10)).len(), 0);
        assert_eq!(outages.now("others", at(0)), None);
        outages.end("orders");
        assert_eq!(outages.now("orders", at(0)), None);
    }

    /// A test that waits this long has failed. Everything here takes less time.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Reads a connection to its end, which may be a reset.
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
    async fn a_stop_ends_connections_and_waiting_requests_and_drops_the_state() {
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
    async fn dropping_a_local_cloud_ends_it() {
        let mut server = start(Config::default()).await.unwrap();
        let address = server.endpoint().strip_prefix("http://").unwrap().to_owned();
        let connection = TcpStream::connect(&address).await.unwrap();
        let mut gone = std::mem::replace(&mut server.gone, mpsc::channel(1).1);
        drop(server);
        assert!(rest(connection).await.is_empty());
        assert_eq!(timeout(PATIENCE, gone.recv()).await, Ok(None));
    }
}
