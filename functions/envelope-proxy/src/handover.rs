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
    thread::sleep,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader as AsyncBufReader},
    net::{UnixListener, UnixStream},
};

use crate::proxy::{NoProxy, Upstream, reach};

/// The longest line that is read: an address and some words.
const LINE_MAX: u64 = 1024;
/// How often, and how long after each time, the wrapper looks for an extension that does not listen yet.
/// Lambda starts the runtime only after each extension has registered, and this one listens before it does, so
/// the first time should do.
const LOOKS: u32 = 1000;
const LOOK_AGAIN: Duration = Duration::from_millis(5);

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
    pub async fn serve(self, upstream: Upstream) -> io::Result<()> {
        loop {
            let (mut wrapper, _) = self.listener.accept().await?;
            // One that is gone or says nothing is no reason to end.
            drop(self.take(&mut wrapper, &upstream).await);
        }
    }

    async fn take(&self, wrapper: &mut UnixStream, upstream: &Upstream) -> io::Result<()> {
        let mut address = String::new();
        AsyncBufReader::new((&mut *wrapper).take(LINE_MAX)).read_line(&mut address).await?;
        let address = address.trim_end();
        // A second wrapper of ours is given the proxy's own address, and it stays as it is.
        if address != self.own {
            if let Err(error) = reach(address).await {
                return wrapper.write_all(format!("{error}\n").as_bytes()).await;
            }
            upstream.change(address);
        }
        wrapper.write_all(format!("{USE}{}\n", self.own).as_bytes()).await
    }
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
        let mut extension = connect(&meeting_point(port)?)?;
        extension.write_all(format!("{runtime_api}\n").as_bytes())?;
        let mut answer = String::new();
        BufReader::new(extension).read_line(&mut answer)?;
        Ok(answer)
    })();
    let answer: String = answer.map_err(|error| NoAddress::NoExtension { port, error })?;
    match answer.trim_end().strip_prefix(USE) {
        Some(address) => Ok(address.to_owned()),
        None => Err(NoAddress::Refused(answer.trim_end().to_owned())),
    }
}

fn connect(to: &SocketAddr) -> io::Result<StdUnixStream> {
    let mut looks = 1;
    loop {
        match StdUnixStream::connect_addr(to) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && looks < LOOKS => {
                looks += 1;
                sleep(LOOK_AGAIN);
            }
            connected => return connected,
        }
    }
}
