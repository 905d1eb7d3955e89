//! The proxy is a wire: each side receives what the other side sends, as it would without the proxy. Only events leave
//! their envelopes.

use std::{
    collections::VecDeque,
    io::Write,
    net::{Shutdown, TcpStream},
    process::Command,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{ASK, Api, PROGRAM, Proxy, asks, sees, sees_end, sees_reset};

#[derive(Clone, Copy)]
enum By {
    Runtime,
    Api,
}
use By::{Api as Answers, Runtime as Asks};

const NEXT: &[u8] = b"GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

#[test]
fn each_part_of_a_conversation_passes_unchanged_before_the_next_one_is_sent() {
    let parts: [(By, &[u8]); 11] = [
        (Asks, NEXT),
        (Answers, b"HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: 1\r\nLAMBDA-Runtime-Deadline-Ms:9\r\nX-Tenant:  a  \r\nContent-Length: 8\r\n\r\n{\"a\":1} "),
        // A response is streamed with its trailers.
        (Asks, b"POST /2018-06-01/runtime/invocation/1/response HTTP/1.1\r\nLambda-Runtime-Function-Response-Mode: streaming\r\nTransfer-Encoding: chunked\r\nTrailer: Lambda-Runtime-Function-Error-Type\r\n\r\n"),
        (Asks, b"5\r\nhel"),
        (Asks, b"lo\r\n"),
        (Asks, b"0\r\nLambda-Runtime-Function-Error-Type: Broken\r\n\r\n"),
        (Answers, b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        // A runtime may expect 100 Continue.
        (Asks, b"POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"),
        (Answers, b"HTTP/1.1 100 Continue\r\n\r\n"),
        (Asks, b"abc"),
        (Answers, b"HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\nno"),
    ];
    let api = Api::new();
    let proxy = Proxy::before(&api);
    let (mut runtime, mut api) = proxy.connection(&api);
    for (by, bytes) in parts {
        let (from, to) = match by {
            Asks => (&mut runtime, &mut api),
            Answers => (&mut api, &mut runtime),
        };
        from.write_all(bytes).unwrap();
        sees(to, bytes);
    }
    // Neither side receives anything more.
    runtime.shutdown(Shutdown::Write).unwrap();
    sees_end(&mut api);
    drop(api);
    sees_end(&mut runtime);
}

#[test]
fn a_stream_of_any_length_is_never_held_back() {
    let head = b"POST /2018-06-01/runtime/invocation/1/response HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = [b"100000\r\n".as_slice(), &[7; 0x10_0000], b"\r\n"].concat();
    let mut parts = vec![head.as_slice()];
    parts.extend([chunk.as_slice(); 24]);
    parts.push(b"0\r\n\r\n");
    let api = Api::new();
    let proxy = Proxy::before(&api);
    let (mut runtime, mut api) = proxy.connection(&api);
    for part in parts {
        // On a thread of its own, because the sockets can't hold all of it before it is read.
        std::thread::scope(|scope| {
            scope.spawn(|| runtime.write_all(part).unwrap());
            sees(&mut api, part);
        });
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", proxy.process.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 12 * 1024, "{peak} KiB for a stream of 24 MiB");
}

#[test]
fn the_runtime_notices_an_api_that_dies_in_the_middle_of_an_event() {
    let api = Api::new();
    let proxy = Proxy::before(&api);
    let (mut runtime, mut dying) = proxy.connection(&api);
    runtime.write_all(NEXT).unwrap();
    sees(&mut dying, NEXT);
    let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"_retry_metadata\":{";
    dying.write_all(begun).unwrap();
    drop(dying);
    sees(&mut runtime, begun);
    sees_end(&mut runtime);
    // The next connection is not affected.
    let (mut runtime, mut api) = proxy.connection(&api);
    api.write_all(b"HTTP/1.1 408 Timeout\r\n\r\n").unwrap();
    sees(&mut runtime, b"HTTP/1.1 408 Timeout\r\n\r\n");
}

#[test]
fn each_side_notices_a_connection_that_the_other_resets() {
    let api = Api::new();
    let proxy = Proxy::before(&api);
    let (mut runtime, mut breaking) = proxy.connection(&api);
    runtime.write_all(NEXT).unwrap();
    sees(&mut breaking, NEXT);
    // The body has no length, so a normal end would make it complete.
    let begun = b"HTTP/1.1 200 OK\r\n\r\n[1,";
    breaking.write_all(begun).unwrap();
    sees(&mut runtime, begun);
    reset(breaking);
    sees_reset(&mut runtime);

    let (runtime, mut api) = asks(&proxy.address, &api);
    reset(runtime);
    sees_reset(&mut api);
}

#[test]
fn an_early_answer_to_a_request_that_the_api_refuses_arrives() {
    let api = Api::new();
    let proxy = Proxy::before(&api);
    for _ in 0..20 {
        let (mut runtime, mut api) = proxy.connection(&api);
        let head = b"POST /2018-06-01/runtime/invocation/1/response HTTP/1.1\r\nContent-Length: 90000000\r\n\r\n";
        runtime.write_all(head).unwrap();
        sees(&mut api, head);
        let refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
        api.write_all(refusal).unwrap();
        api.shutdown(Shutdown::Both).unwrap();
        drop(api);
        let mut sending = runtime.try_clone().unwrap();
        std::thread::scope(|scope| {
            // Sooner or later, sending fails because the API doesn't read.
            scope.spawn(|| while sending.write_all(&[7; 65_536]).is_ok() {});
            sees(&mut runtime, refusal);
            drop(runtime.shutdown(Shutdown::Both));
        });
    }
}

fn reset(stream: TcpStream) {
    let linger = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&stream, linger).unwrap();
}

#[test]
fn an_api_that_is_gone_ends_the_connection() {
    // At an address of its own, where no other test can be given its port.
    let api = Api::at("127.0.0.9");
    let proxy = Proxy::before(&api);
    drop(api);
    sees_end(&mut proxy.connect());
}

#[test]
fn only_this_machine_can_connect() {
    let proxy = Proxy::before(&Api::new());
    let (_, port) = proxy.address.rsplit_once(':').unwrap();
    // A listener on all addresses would also accept connections at this one.
    assert!(TcpStream::connect(format!("127.0.0.2:{port}")).is_err());
    proxy.connect();
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Opens this many connections, `at_once` at a time, and gets an answer on each. There may be no room for the last
/// ones until the first are closed.
fn crowd(command: &mut Command, connections: usize, at_once: usize) {
    let api = Api::new();
    let proxy = Proxy::started_by(command, &api);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..connections {
                let mut connection = api.accept();
                sees(&mut connection, ASK);
                connection.write_all(ANSWER).unwrap();
            }
        });
        let mut open = VecDeque::new();
        let mut unanswered = VecDeque::new();
        for _ in 0..connections / at_once {
            while let Some(mut runtime) = unanswered.pop_front() {
                sees(&mut runtime, ANSWER);
                open.push_back(runtime);
            }
            for _ in 0..at_once {
                let mut runtime = proxy.connect();
                runtime.write_all(ASK).unwrap();
                unanswered.push_back(runtime);
            }
        }
        for mut runtime in unanswered {
            drop(open.pop_front());
            sees(&mut runtime, ANSWER);
        }
    });
    asks(&proxy.address, &api);
}

#[test]
fn ten_thousand_sockets_are_served() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    crowd(Command::new(PROGRAM).arg("serve"), 10_000, 100);
}

#[test]
fn connections_beyond_the_descriptor_limit_wait() {
    // Enough for 16 connections; the others wait in the system's queue.
    let limited = format!("ulimit -n 64 && exec {PROGRAM} serve");
    crowd(Command::new("sh").args(["-c", &limited]), 300, 300);
}
