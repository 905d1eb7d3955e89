//! The proxy's listener, and where it passes connections on to.

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

/// How many connections may wait to be accepted, if the system allows as many.
const QUEUE: u32 = 4096;
/// Descriptors that are no connections: the standard streams, the runtime's, the listeners.
const OTHERS: usize = 32;
/// How long no connection is accepted after the system could not give one.
pub const ROOM_WAIT: Duration = Duration::from_millis(10);

/// Host and port that connections are passed on to.
#[derive(Clone, Debug)]
pub struct Upstream(Arc<Mutex<Behind>>);

#[derive(Debug)]
struct Behind {
    address: Arc<str>,
    is_handed_over: bool,
}

impl Upstream {
    /// The Runtime API, until it is known that another proxy comes before it.
    pub fn new(address: &str) -> Self {
        Self(Arc::new(Mutex::new(Behind { address: address.into(), is_handed_over: false })))
    }

    /// What it is by now.
    pub fn address(&self) -> Arc<str> {
        Arc::clone(&self.behind().address)
    }

    /// Takes what a wrapper hands over, for the connections to come.
    pub fn hand_over(&self, address: &str) {
        *self.behind() = Behind { address: address.into(), is_handed_over: true };
    }

    /// Whether a wrapper has asked for the proxy.
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
    /// It can't have its port.
    #[error(
        "the proxy can't listen on 127.0.0.1:{port}: {error}; COMEBACK_PROXY_PORT chooses another port"
    )]
    Port {
        /// The port.
        port: u16,
        /// What the system says.
        error: io::Error,
    },
    /// There is nothing to be a proxy for.
    #[error("the Runtime API at {address} (AWS_LAMBDA_RUNTIME_API) can't be reached: {error}")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What the system says.
        error: io::Error,
    },
}

/// Begins to listen, on loopback.
pub fn listen(port: u16) -> Result<TcpListener, NoProxy> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        // A proxy of this port may have ended just now.
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
        socket.listen(QUEUE)
    };
    listen().map_err(|error| NoProxy::Port { port, error })
}

/// Sees that there is an API behind an address.
pub async fn reach(address: &str) -> Result<(), NoProxy> {
    let unreachable = |error| NoProxy::Unreachable { address: address.to_owned(), error };
    TcpStream::connect(address).await.map(drop).map_err(unreachable)
}

/// Passes on every connection, for as long as the process lives.
pub async fn serve(listener: TcpListener, upstream: Upstream) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(connections_max()));
    loop {
        // Those for which there is no room wait in the system's queue.
        let place = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
        match listener.accept().await {
            Ok((client, _)) => {
                let address = upstream.address();
                tokio::spawn(async move {
                    match TcpStream::connect(&*address).await {
                        // What ends a connection, its peers see by themselves.
                        Ok(upstream) => drop(relay(client, upstream).await),
                        Err(error) => {
                            let address = address.to_string();
                            eprintln!("comeback: {}", NoProxy::Unreachable { address, error });
                        }
                    }
                    drop(place);
                });
            }
            // It was gone before it was accepted, or the system has no room. Others wait.
            Err(_) => sleep(ROOM_WAIT).await,
        }
    }
}

/// How many connections there are descriptors for, of which each needs two. Lambda allows a process 1,024.
fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Where it can't be raised it stays.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let descriptors = if raised.is_ok() { limit.maximum } else { limit.current };
    let descriptors = descriptors.and_then(|count| usize::try_from(count).ok());
    let pairs = descriptors.unwrap_or(Semaphore::MAX_PERMITS).saturating_sub(OTHERS) / 2;
    pairs.clamp(1, Semaphore::MAX_PERMITS)
}
