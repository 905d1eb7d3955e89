//! The wrapper hands its address of the Runtime API over to the extension, and receives the proxy's address in return.
//!
//! If another proxy is in between, only the wrapper knows its address. Each side sends one line over an abstract
//! socket. If the wrapper receives the proxy's address, the proxy listens and can reach the API. Otherwise it receives
//! the reason why not.

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

use crate::proxy::{ACCEPT_BACKOFF, NoProxy, Upstream, reach};

/// The longest line that the wrapper may send. It is an address.
const LINE_MAX: u64 = 1024;
/// The time limit for the wrapper's line and for a connection to its address. Lambda allows ten seconds for the
/// whole init.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Precedes the address for the wrapper.
const USE: &str = "use ";

fn socket_address(port: u16) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("comeback-proxy-{port}"))
}

pub struct Handover {
    listener: UnixListener,
    own: String,
}

impl Handover {
    /// Starts to listen, for the proxy on this port.
    pub fn listen(port: u16) -> Result<Self, NoProxy> {
        let listen = || {
            let listener = StdUnixListener::bind_addr(&socket_address(port)?)?;
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener)
        };
        let listener = listen().map_err(|error| NoProxy::Port { port, error })?;
        Ok(Self { listener, own: format!("{}:{port}", Ipv4Addr::LOCALHOST) })
    }

    /// Answers wrappers for as long as the process lives, with the proxy's address or with the reason why there is no
    /// proxy.
    pub async fn serve(self, upstream: Result<Upstream, String>) -> ! {
        loop {
            let Ok((mut wrapper, _)) = self.listener.accept().await else {
                sleep(ACCEPT_BACKOFF).await;
                continue;
            };
            let (own, upstream) = (self.own.clone(), upstream.clone());
            tokio::spawn(async move {
                // A wrapper that is gone or silent must not block others.
                let _ = timeout(HANDOVER_TIMEOUT, take(&mut wrapper, &own, upstream)).await;
            });
        }
    }
}

/// Answers one wrapper, for the proxy at `own`.
async fn take(
    wrapper: &mut UnixStream,
    own: &str,
    upstream: Result<Upstream, String>,
) -> io::Result<()> {
    let mut address = String::new();
    AsyncBufReader::new((&mut *wrapper).take(LINE_MAX)).read_line(&mut address).await?;
    let address = address.trim_end();
    let answer = match upstream {
        Err(reason) => reason,
        // If our wrapper runs twice, the second one hands over the proxy's own address, which changes nothing.
        Ok(_) if address == own => format!("{USE}{own}"),
        Ok(upstream) => match reach(address).await {
            Ok(()) => {
                upstream.hand_over(address);
                format!("{USE}{own}")
            }
            Err(error) => error.to_string(),
        },
    };
    wrapper.write_all(format!("{answer}\n").as_bytes()).await
}

/// Why the wrapper got no address.
#[derive(Debug, thiserror::Error)]
pub enum NoAddress {
    #[error(
        "the extension does not listen for port {port}: {error}; check that its layer is complete, \
         and that COMEBACK_PROXY_PORT is the same for both"
    )]
    NoExtension { port: u16, error: io::Error },
    #[error("{0}")]
    Refused(String),
}

/// The wrapper's side: hands over this address of a Runtime API, and returns the proxy's.
pub fn hand_over(runtime_api: &str, port: u16) -> Result<String, NoAddress> {
    let answer = (|| {
        let mut extension = StdUnixStream::connect_addr(&socket_address(port)?)?;
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
