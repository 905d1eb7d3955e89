//! Measures the cost of the envelope proxy: the time that it adds to an invocation, compared in turn with the same stub
//! of the Runtime API without the proxy; its memory; and how soon it listens.
//!
//!     scripts/bench-proxy [ROUNDS]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and its arguments")]

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Invocations of each kind per round, with the proxy and without it.
const INVOCATIONS: usize = 500;
/// The number of times that the proxy is started.
const STARTS: usize = 50;

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let program = arguments.next().ok_or("expected the path of envelope-proxy, got nothing")?;
    let rounds: usize = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;

    println!(
        "added to an invocation, {rounds} rounds of {INVOCATIONS} in turn with and without the proxy"
    );
    println!(
        "{:22}{:>14}{:>14}{:>14}{:>14}",
        "event", "without p50", "added p50", "without p99", "added p99"
    );
    // The envelope adds 150 bytes.
    let mebibyte = 1024 * 1024 - 150;
    for (name, bytes, is_enveloped, is_chunked) in [
        ("1 KB", 1024, false, false),
        ("1 KB in an envelope", 1024, true, false),
        ("1 MiB in an envelope", mebibyte, true, false),
        ("the same, chunked", mebibyte, true, true),
        ("6 MB", 6_000_000, false, false),
    ] {
        let payload = payload(bytes);
        let event = if is_enveloped { enveloped(&payload) } else { payload.clone() };
        let api = api(&event, is_chunked)?;
        let proxy = Proxy::start(&program, &api)?;
        let mut runtimes = [Runtime::connect(&api)?, Runtime::connect(&proxy.address)?];
        let mut times = [Vec::new(), Vec::new()];
        // For large events, fewer invocations are enough.
        let invocations = if event.len() > 100_000 { INVOCATIONS / 5 } else { INVOCATIONS };
        for (runtime, expected) in runtimes.iter_mut().zip([event.len(), payload.len()]) {
            let (given, _) = runtime.invocation()?;
            if given != expected {
                return Err(format!("{name}: expected {expected} bytes, got {given}").into());
            }
        }
        for _ in 0..rounds * invocations {
            for (runtime, times) in runtimes.iter_mut().zip(&mut times) {
                times.push(runtime.invocation()?.1);
            }
        }
        let [[p50, p99], [with_p50, with_p99]] = times.map(quantiles);
        println!(
            "{name:22}{p50:>11.3} ms{:>+11.3} ms{p99:>11.3} ms{:>+11.3} ms   memory {}",
            with_p50 - p50,
            with_p99 - p99,
            proxy.memory()?
        );
    }

    let api = api("{}", false)?;
    let starts: Result<Vec<_>> = (0..STARTS)
        .map(|_| {
            let begun = Instant::now();
            let proxy = Proxy::start(&program, &api)?;
            let listens = begun.elapsed();
            Ok((listens, proxy.memory()?))
        })
        .collect();
    let starts = starts?;
    let idle = starts.first().map(|(_, memory)| memory.clone()).unwrap_or_default();
    let [p50, p99] = quantiles(starts.into_iter().map(|(listens, _)| listens).collect());
    println!(
        "listens after {p50:.2} ms (p50 of {STARTS} starts, from before its process is made; p99 {p99:.2} ms); memory {idle}"
    );
    Ok(())
}

/// The median and the 99th percentile of these times, in milliseconds.
fn quantiles(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    let at = |quantile: usize| times.get(times.len() * quantile / 100);
    [50, 99].map(|quantile| at(quantile).map_or(0.0, |time| time.as_secs_f64() * 1e3))
}

/// An ordinary event of no more than this many bytes.
fn payload(bytes: usize) -> String {
    let line = r#"{"sku":"TEA-GREEN-0250","title":"Green tea, \"first flush\"","quantity":3}"#;
    let lines = vec![line; bytes.saturating_sub(40) / (line.len() + 1)];
    format!(r#"{{"order_id":"9e07af03","lines":[{}]}}"#, lines.join(","))
}

fn enveloped(payload: &str) -> String {
    format!(
        r#"{{"_retry_metadata":{{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b46cbf-b738-4a1b-8880-a18cdf61200e"}},"_original_payload":{payload}}}"#
    )
}

/// A stub of the Runtime API that returns the same event to every caller at once. It sends the event's length, or one
/// chunk, as Go servers do for a body of unknown length.
fn api(event: &str, is_chunked: bool) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let length = event.len();
    let body = if is_chunked {
        format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{event}\r\n0\r\n\r\n")
    } else {
        format!("Content-Length: {length}\r\n\r\n{event}")
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
         Lambda-Runtime-Aws-Request-Id: 8476a536-e9f4-11e8-9739-2dfe598c3fcd\r\n\
         Lambda-Runtime-Deadline-Ms: 1542409706888\r\n{body}"
    );
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let answer = answer.clone();
            // It returns an error when its connection ends.
            thread::spawn(move || drop(answer_all(connection, answer.as_bytes())));
        }
    });
    Ok(address)
}

fn answer_all(mut connection: TcpStream, event: &[u8]) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut requests = BufReader::new(connection.try_clone()?);
    loop {
        let message = Message::read(&mut requests)?;
        let answer = match message.first.starts_with("GET") {
            true => event,
            false => b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        };
        connection.write_all(answer)?;
    }
}

/// An HTTP request or response.
struct Message {
    first: String,
    /// The length of its body in bytes.
    length: usize,
}

impl Message {
    fn read(from: &mut impl BufRead) -> Result<Self> {
        let (mut first, mut length) = (String::new(), Some(0));
        if from.read_line(&mut first)? == 0 {
            return Err("the connection has ended".into());
        }
        let mut line = String::new();
        while from.read_line(&mut line)? > 2 {
            if let Some(value) = line.strip_prefix("Content-Length:") {
                length = Some(value.trim().parse()?);
            } else if line.starts_with("Transfer-Encoding") {
                length = None;
            }
            line.clear();
        }
        let length = match length {
            Some(length) => {
                from.read_exact(&mut vec![0; length])?;
                length
            }
            // One chunk, after its length, and the two lines at its end.
            None => {
                line.clear();
                from.read_line(&mut line)?;
                let size = usize::from_str_radix(line.trim(), 16)?;
                from.read_exact(&mut vec![0; size + "\r\n0\r\n\r\n".len()])?;
                size
            }
        };
        Ok(Self { first, length })
    }
}

/// A runtime that answers each event at once.
struct Runtime {
    to: TcpStream,
    from: BufReader<TcpStream>,
}

impl Runtime {
    fn connect(address: &str) -> Result<Self> {
        let to = TcpStream::connect(address)?;
        to.set_nodelay(true)?;
        Ok(Self { from: BufReader::with_capacity(64 * 1024, to.try_clone()?), to })
    }

    /// Returns the length of the event in bytes, and how long the invocation took.
    fn invocation(&mut self) -> Result<(usize, Duration)> {
        let begun = Instant::now();
        self.to
            .write_all(b"GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let event = Message::read(&mut self.from)?;
        self.to.write_all(
            b"POST /2018-06-01/runtime/invocation/8476a536/response HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        )?;
        Message::read(&mut self.from)?;
        Ok((event.length, begun.elapsed()))
    }
}

struct Proxy {
    process: Child,
    address: String,
}

impl Proxy {
    fn start(program: &str, api: &str) -> Result<Self> {
        let mut command = Command::new(program);
        let command = command.arg("serve").env("AWS_LAMBDA_RUNTIME_API", api);
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        let stdout = process.stdout.take().ok_or("no output")?;
        BufReader::new(stdout).read_line(&mut address)?;
        Ok(Self { process, address: address.trim_end().to_owned() })
    }

    /// Its resident memory now, and at its peak.
    fn memory(&self) -> Result<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let mebibytes = |name: &str| -> Result<f64> {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no memory")?;
            Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
        };
        Ok(format!("{:.1} MiB, at most {:.1}", mebibytes("VmRSS:")?, mebibytes("VmHWM:")?))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The proxy also ends when this process does.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
