//! Connections that processes hold, so that their end is told by the connection's.

use std::{
    io::{ErrorKind, Read as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// Longer than a function's process takes to start or to end, on however busy a machine: a test that waits for so
/// long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a function's process to connect, and for its first byte.
pub fn accept(connections: &Receiver<TcpStream>) -> TcpStream {
    let mut connection =
        connections.recv_timeout(PATIENCE).expect("no process of the function connects");
    connection.read_exact(&mut [0]).expect("the process connects, but says nothing");
    connection
}

/// Waits until every process that holds the other end is gone.
pub fn ends(mut connection: TcpStream) {
    match connection.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
        read => panic!("a process still holds its connection: {read:?}"),
    }
}

/// A port, and the connections that are made to it.
pub fn listener() -> (Receiver<TcpStream>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, connections) = mpsc::channel();
    // It ends with the tests' process, or with the first connection that no test waits for.
    thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.unwrap();
            connection.set_read_timeout(Some(PATIENCE)).unwrap();
            if sender.send(connection).is_err() {
                break;
            }
        }
    });
    (connections, port)
}
