//! Connections that tell when processes end: each process holds one open, and the system closes it when the
//! process ends.

use std::{
    io::{ErrorKind, Read as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// A test fails if it waits for longer than this. Even on a busy machine, a function's process starts and ends
/// sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a function's process has connected and sent its first byte.
pub fn accept(connections: &Receiver<TcpStream>) -> TcpStream {
    let mut connection =
        connections.recv_timeout(PATIENCE).expect("no process of the function connects");
    connection.read_exact(&mut [0]).expect("the process connects, but says nothing");
    connection
}

/// Waits until every process that holds the other end has ended.
pub fn ends(mut connection: TcpStream) {
    match connection.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
        read => panic!("a process still holds its connection: {read:?}"),
    }
}

/// Listens on a free port. Returns the accepted connections and the port.
pub fn listener() -> (Receiver<TcpStream>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, connections) = mpsc::channel();
    // The thread ends with the test process, or at the first connection after the test dropped the receiver.
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
