//! The start and the stop of a local cloud.

use std::{io, net::Ipv4Addr, time::Duration};

use axum::{Router, extract::Request, response::Response, serve::ListenerExt as _};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    config::Config,
    gate::{self, call},
    model::{Cloud, Waiting},
    shared::Shared,
};

const STOP_MAX: Duration = Duration::from_secs(5);

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        time::timeout,
    };

    use super::*;

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
