//! Measures how many messages a second pass through one queue of the local cloud, over HTTP.
//!
//! The cloud and its callers share this process and the machine's cores. Each caller has one connection and repeats: it
//! sends ten messages, receives ten, and deletes them. A message counts when it has been deleted.
//!
//! With an endpoint as the argument, it measures the local cloud that runs there.

use std::{env, error::Error, io, time::Instant};

use comeback_local::Config;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream},
    net::TcpStream,
};

/// The number of measurements. Quote the median of the results.
const ROUNDS: usize = 7;

/// Messages in one round, and the callers that share them.
const MESSAGES: usize = 40_000;
const CALLERS: usize = 4;

const BATCH: usize = 10;

const BODY_BYTES: usize = 1024;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let given = env::args().nth(1);
    let server = match given {
        Some(_) => None,
        None => Some(comeback_local::start(Config::default()).await?),
    };
    let own = server.as_ref().map(|server| server.endpoint().to_owned());
    let endpoint = given.or(own).unwrap_or_default();
    let queue = r#"{"QueueName":"bench"}"#;
    perform(&mut Client::connect(&endpoint).await?, "CreateQueue", queue).await?;
    println!("one queue, {CALLERS} callers, batches of {BATCH}, bodies of {BODY_BYTES} bytes");
    let mut rates = Vec::new();
    for round in 1..=ROUNDS {
        let rate = measure(&endpoint).await?;
        println!("round {round}: {rate:>7.0} messages/s sent, received and deleted");
        rates.push(rate);
    }
    rates.sort_by(f64::total_cmp);
    let (min, median, max) = (rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
    println!("min {min:.0}  median {median:.0}  max {max:.0} messages/s");
    if let Some(server) = server {
        server.stop().await;
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "to measure is to read the clock")]
async fn measure(endpoint: &str) -> Result<f64, Failure> {
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(call(endpoint.to_owned()))).collect();
    for caller in callers {
        caller.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let left =
        Client::connect(endpoint).await?.call("ReceiveMessage", r#"{"QueueUrl":"bench"}"#).await?;
    if left != b"{}" {
        return Err("the queue is not empty after the round".into());
    }
    Ok(MESSAGES as f64 / seconds)
}

/// One caller's share of a round.
async fn call(endpoint: String) -> Result<(), Failure> {
    let mut client = Client::connect(&endpoint).await?;
    let body = "x".repeat(BODY_BYTES);
    let entries: Vec<_> =
        (0..BATCH).map(|id| json!({"Id": id.to_string(), "MessageBody": body})).collect();
    let send = json!({"QueueUrl": "bench", "Entries": entries}).to_string();
    let receive = json!({"QueueUrl": "bench", "MaxNumberOfMessages": BATCH}).to_string();
    for _ in 0..MESSAGES / CALLERS / BATCH {
        perform(&mut client, "SendMessageBatch", &send).await?;
        // Every caller sends before it receives, so there are ten messages for each.
        let received = client.call("ReceiveMessage", &receive).await?;
        let received: Value = serde_json::from_slice(&received)?;
        let messages = received["Messages"].as_array().map_or(&[][..], Vec::as_slice);
        if messages.len() != BATCH {
            return Err(format!("received {} messages, not {BATCH}", messages.len()).into());
        }
        let entries: Vec<_> = messages
            .iter()
            .enumerate()
            .map(|(id, it)| json!({"Id": id.to_string(), "ReceiptHandle": it["ReceiptHandle"]}))
            .collect();
        let delete = json!({"QueueUrl": "bench", "Entries": entries}).to_string();
        perform(&mut client, "DeleteMessageBatch", &delete).await?;
    }
    Ok(())
}

/// Performs a batch. An entry that fails is an error.
async fn perform(client: &mut Client, action: &str, request: &str) -> Result<(), Failure> {
    let answer = client.call(action, request).await?;
    let answer = String::from_utf8_lossy(&answer);
    if answer.contains("\"Failed\":[{") {
        return Err(format!("{action}: {answer}").into());
    }
    Ok(())
}

/// A minimal client of AWS JSON 1.0 over one persistent connection, so that the measurement is that of the server.
struct Client {
    stream: BufStream<TcpStream>,
    host: String,
}

impl Client {
    async fn connect(endpoint: &str) -> io::Result<Self> {
        let host = endpoint.trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufStream::with_capacity(64 * 1024, 64 * 1024, stream), host })
    }

    /// Sends an SQS request with this action, and waits for its result.
    async fn call(&mut self, action: &str, body: &str) -> io::Result<Vec<u8>> {
        let (host, length) = (&self.host, body.len());
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {host}\r\nauthorization: AWS4-HMAC-SHA256 test\r\n\
             content-type: application/x-amz-json-1.0\r\nx-amz-target: AmazonSQS.{action}\r\n\
             content-length: {length}\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.write_all(body.as_bytes()).await?;
        self.stream.flush().await?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|length| length.parse().ok()).unwrap_or_default();
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(io::Error::other(format!("{action}: {}", String::from_utf8_lossy(&body))));
        }
        Ok(body)
    }
}
