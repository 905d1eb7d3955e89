//! The wrapper hands the Runtime API that it was given over to the extension, and is given the proxy's
//! address for it.
//!
//! Lambda tells its address to both of them. But a wrapper can stand behind that of another proxy, and
//! only its own environment says so. They speak over a socket that has a name and no file: a line each.
//! Whoever has an answer knows that the proxy listens and reaches the API behind it.

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Write},
    net::Ipv4Addr,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener as StdUnixListener, UnixStream as StdUnixStream},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader as AsyncBufReader},
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

use crate::proxy::{NoProxy, ROOM_WAIT, Upstream, reach};

/// The longest line that is read: an address and some words.
const LINE_MAX: u64 = 1024;
/// How long a wrapper may take to say its line, and what is behind its address to be reached. Lambda gives all
/// of an init ten seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Before an address that the wrapper shall use.
const USE: &str = "use ";

/// Where they meet.
fn meeting_point(port: u16) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("comeback-proxy-{port}"))
}

/// The extension's side.
pub struct Handover {
    listener: UnixListener,
    own: String,
}

impl Handover {
    /// Begins to listen, for the proxy on this port.
    pub fn listen(port: u16) -> Result<Self, NoProxy> {
        let listen = || {
            let listener = StdUnixListener::bind_addr(&meeting_point(port)?)?;
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener)
        };
        let listener = listen().map_err(|error| NoProxy::Port { port, error })?;
        Ok(Self { listener, own: format!("{}:{port}", Ipv4Addr::LOCALHOST) })
    }

    /// Takes what wrappers hand over, for as long as the process lives.
    pub async fn serve(self, upstream: Upstream) -> ! {
        loop {
            let Ok((mut wrapper, _)) = self.listener.accept().await else {
                sleep(ROOM_WAIT).await;
                continue;
            };
            let (own, upstream) = (self.own.clone(), upstream.clone());
            tokio::spawn(async move {
                // One that is gone or says nothing keeps nobody waiting.
                let _ = timeout(PATIENCE, take(&mut wrapper, &own, &upstream)).await;
            });
        }
    }
}

/// Takes one address, for the proxy at `own`.
async fn take(wrapper: &mut UnixStream, own: &str, upstream: &Upstream) -> io::Result<()> {
    let mut address = String::new();
    AsyncBufReader::new((&mut *wrapper).take(LINE_MAX)).read_line(&mut address).await?;
    let address = address.trim_end();
    // A second wrapper of ours is given the proxy's own address, and it stays as it is.
    if address != own {
        if let Err(error) = reach(address).await {
            return wrapper.write_all(format!("{error}\n").as_bytes()).await;
        }
        upstream.hand_over(address);
    }
    wrapper.write_all(format!("{USE}{own}\n").as_bytes()).await
}

/// Why the wrapper has no address.
#[derive(Debug, thiserror::Error)]
pub enum NoAddress {
    /// Nobody listens.
    #[error(
        "the extension does not listen for port {port}: {error}; is its layer complete, and COMEBACK_PROXY_PORT the same for both?"
    )]
    NoExtension {
        /// The proxy's port.
        port: u16,
        /// What the system says.
        error: io::Error,
    },
    /// The extension says why.
    #[error("{0}")]
    Refused(String),
}

/// The wrapper's side: hands over this address of a Runtime API, and returns the proxy's.
pub fn hand_over(runtime_api: &str, port: u16) -> Result<String, NoAddress> {
    let answer = (|| {
        let mut extension = StdUnixStream::connect_addr(&meeting_point(port)?)?;
        extension.write_all(format!("{runtime_api}\n").as_bytes())?;
        let mut answer = String::new();
        match BufReader::new(extension).read_line(&mut answer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer),
        }
    })();
    let answer: String = answer.map_err(|error| NoAddress::NoExtension { port, error })?;
    match answer.trim_end().strip_prefix(USE) {
        Some(address) => Ok(address.to_owned()),
        None => Err(NoAddress::Refused(answer.trim_end().to_owned())),
    }
}
