//! Tests the adapters: the requests that they send, and how they interpret AWS's answers. Queues, tables and
//! buckets are those of moto, an independent implementation of SQS, DynamoDB and S3; other answers are raw HTTP.
#![allow(clippy::unwrap_used, reason = "tests")]

mod functions;
mod ledger;
mod queues;
mod records;
mod runs;

use std::{sync::OnceLock, time::Duration};

use aws_config::SdkConfig;
use moto::Moto;
use retry_handler::DynamoLedger;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// The configuration of clients of moto. All tests share one server, and each uses its own queues and tables.
fn of_moto() -> SdkConfig {
    static MOTO: OnceLock<Moto> = OnceLock::new();
    moto::config(&MOTO.get_or_init(Moto::start).endpoint)
}

/// A ledger in moto, which may take its time on a busy machine.
fn ledger_of_moto(table: &str) -> DynamoLedger {
    DynamoLedger::within(&of_moto(), table.to_owned(), [Duration::from_mins(1); 2])
}

/// Starts a server that gives this answer to one request. Returns its endpoint, and a task with the request.
async fn answering(answer: impl Into<Vec<u8>>) -> (String, JoinHandle<String>) {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (request, mut stream) = request(&listener).await;
        stream.write_all(&answer).await.unwrap();
        request
    });
    (endpoint, asked)
}

/// The next request, and the connection for its answer.
async fn request(listener: &TcpListener) -> (String, TcpStream) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !is_whole(&request) {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
    }
    (String::from_utf8_lossy(&request).into_owned(), stream)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn response(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

const JSON: &str = "content-type: application/x-amz-json-1.0\r\n";
