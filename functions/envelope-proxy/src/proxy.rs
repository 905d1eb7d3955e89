//! The proxy's listener, and the address to which it passes connections on.

use std::{
    io,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    time::sleep,
};

use crate::relay::relay;

/// The length of the accept queue, if the system allows it.
const QUEUE: u32 = 4096;
/// File descriptors that are not connections: the standard streams, tokio's, the listeners.
const OTHERS: usize = 32;
/// The pause after the system could not accept a connection.
pub const ACCEPT_BACKOFF: Duration = Duration::from_millis(10);

/// The host and port to which connections are passed on.
#[derive(Clone, Debug)]
pub struct Upstream(Arc<Mutex<Behind>>);

#[derive(Debug)]
struct Behind {
    address: Arc<str>,
    is_handed_over: bool,
}

impl Upstream {
    /// The Runtime API, until a wrapper hands over the address of another proxy.
    pub fn new(address: &str) -> Self {
        Self(Arc::new(Mutex::new(Behind { address: address.into(), is_handed_over: false })))
    }

    pub fn address(&self) -> Arc<str> {
        Arc::clone(&self.behind().address)
    }

    /// Sets the address that a wrapper hands over, for future connections.
    pub fn hand_over(&self, address: &str) {
        *self.behind() = Behind { address: address.into(), is_handed_over: true };
    }

    pub fn is_handed_over(&self) -> bool {
        self.behind().is_handed_over
    }

    fn behind(&self) -> MutexGuard<'_, Behind> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why the proxy can't work.
#[derive(Debug, thiserror::Error)]
pub enum NoProxy {
    #[error(
        "the proxy can't listen on 127.0.0.1:{port}: {error}; COMEBACK_PROXY_PORT chooses another port"
    )]
    Port { port: u16, error: io::Error },
    #[error("the Runtime API at {address} (AWS_LAMBDA_RUNTIME_API) can't be reached: {error}")]
    Unreachable { address: String, error: io::Error },
}

pub fn listen(port: u16) -> Result<TcpListener, NoProxy> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        // Another proxy on this port may have just ended.
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
        socket.listen(QUEUE)
    };
    listen().map_err(|error| NoProxy::Port { port, error })
}

/// Checks that an address accepts connections.
pub async fn reach(address: &str) -> Result<(), NoProxy> {
    let unreachable = |error| NoProxy::Unreachable { address: address.to_owned(), error };
    TcpStream::connect(address).await.map(drop).map_err(unreachable)
}

/// Passes on every connection for as long as the process lives.
pub async fn serve(listener: TcpListener, upstream: Upstream) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(connections_max()));
    loop {
        // Connections beyond the limit wait in the system's queue.
        let place = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
        match listener.accept().await {
            Ok((client, _)) => {
                let address = upstream.address();
                tokio::spawn(async move {
                    match TcpStream::connect(&*address).await {
                        // An error needs no report: both peers see how the connection ends.
                        Ok(upstream) => drop(relay(client, upstream).await),
                        Err(error) => {
                            let address = address.to_string();
                            eprintln!("comeback: {}", NoProxy::Unreachable { address, error });
                        }
                    }
                    drop(place);
                });
            }
            // The connection was gone before it was accepted, or the system is out of resources.
            Err(_) => sleep(ACCEPT_BACKOFF).await,
        }
    }
}

/// The number of connections for which there are file descriptors. Each connection needs two, and Lambda allows 1,024
/// per process.
fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // If the limit can't be raised, it stays as it is.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let descriptors = if raised.is_ok() { limit.maximum } else { limit.current };
    let descriptors = descriptors.and_then(|count| usize::try_from(count).ok());
    let pairs = descriptors.unwrap_or(Semaphore::MAX_PERMITS).saturating_sub(OTHERS) / 2;
    pairs.clamp(1, Semaphore::MAX_PERMITS)
}
