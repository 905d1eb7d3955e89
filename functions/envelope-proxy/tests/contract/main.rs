//! Tests the proxy's program from both sides, the runtime's and the API's.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bootstrap;
mod extension;
mod wire;

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use rustix::net::{
    Shutdown, shutdown,
    sockopt::{Timeout, set_socket_timeout},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_envelope-proxy");

/// A test that waits longer than this for bytes fails.
const GUARD: Duration = Duration::from_secs(30);

/// A Runtime API, played by a test.
struct Api(TcpListener);

impl Api {
    fn new() -> Self {
        Self::at("127.0.0.1")
    }

    fn at(address: &str) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        set_socket_timeout(&listener, Timeout::Recv, Some(GUARD)).unwrap();
        Self(listener)
    }

    fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    fn accept(&self) -> TcpStream {
        guarded(self.0.accept().unwrap().0)
    }
}

impl Drop for Api {
    /// Stops listening at once. A process that another test is starting may briefly hold a copy of the socket.
    fn drop(&mut self) {
        shutdown(&self.0, Shutdown::Both).unwrap();
    }
}

/// A proxy without extension or wrapper, which ends with the test.
struct Proxy {
    address: String,
    process: Child,
}

impl Proxy {
    fn before(api: &Api) -> Self {
        Self::started_by(Command::new(PROGRAM).arg("serve"), api)
    }

    fn started_by(command: &mut Command, api: &Api) -> Self {
        command.env("AWS_LAMBDA_RUNTIME_API", api.address()).env_remove("COMEBACK_PROXY_PORT");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        // The first connection only checked that the API is there.
        drop(api.accept());
        Self { address: address.trim_end().to_owned(), process }
    }

    fn connect(&self) -> TcpStream {
        guarded(TcpStream::connect(&self.address).unwrap())
    }

    /// A connection of a runtime, and the API's end of it.
    fn connection(&self, api: &Api) -> (TcpStream, TcpStream) {
        let runtime = self.connect();
        let api = api.accept();
        (runtime, api)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn guarded(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(GUARD)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

const ASK: &[u8] = b"GET /x HTTP/1.1\r\n\r\n";

/// Sends a request to the proxy at this address, and expects that it arrives at the API.
fn asks(address: &str, api: &Api) -> (TcpStream, TcpStream) {
    let mut runtime = guarded(TcpStream::connect(address).unwrap());
    let mut upstream = api.accept();
    runtime.write_all(ASK).unwrap();
    sees(&mut upstream, ASK);
    (runtime, upstream)
}

/// Expects these bytes next.
fn sees(stream: &mut impl Read, bytes: &[u8]) {
    let mut seen = vec![0; bytes.len()];
    stream.read_exact(&mut seen).unwrap();
    assert!(seen == bytes, "{} is not {}", seen.escape_ascii(), bytes.escape_ascii());
}

/// Expects that the other side closes the stream without sending more.
fn sees_end(stream: &mut impl Read) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{}", rest.escape_ascii());
}

/// Expects that the connection is reset, not closed.
fn sees_reset(stream: &mut impl Read) {
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// A port for a program to listen on. The kernel gives those below 32768 to no connection by itself, so nothing else
/// takes it before the program does.
fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let nth = process::id() % 10_000 + TRIED.fetch_add(1, Relaxed) % 2_000;
        let port = u16::try_from(20_000 + nth).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
