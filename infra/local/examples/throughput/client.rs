//! A minimal client of AWS JSON 1.0 over one persistent connection, so that the measurement is that of the server.

use std::io;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream},
    net::TcpStream,
};

pub struct Client {
    stream: BufStream<TcpStream>,
    host: String,
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Client {
    /// Connects to `endpoint`, `http://HOST:PORT`.
    pub async fn connect(endpoint: &str) -> io::Result<Self> {
        let host = endpoint.trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufStream::with_capacity(64 * 1024, 64 * 1024, stream), host })
    }

    /// Sends an SQS request with this action, and waits for the response.
    pub async fn call(&mut self, action: &str, body: &str) -> io::Result<Answer> {
        let (host, length) = (&self.host, body.len());
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {host}\r\nauthorization: AWS4-HMAC-SHA256 test\r\n\
             content-type: application/x-amz-json-1.0\r\nx-amz-target: AmazonSQS.{action}\r\n\
             content-length: {length}\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.write_all(body.as_bytes()).await?;
        self.stream.flush().await?;
        self.answer().await
    }

    async fn answer(&mut self) -> io::Result<Answer> {
        let status = self.line().await?.split(' ').nth(1).map(str::parse);
        let mut length = None;
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            length = length.or(line.strip_prefix("content-length: ").map(str::parse));
        }
        let (Some(Ok(status)), Some(Ok(length))) = (status, length) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(Answer { status, body })
    }

    /// Reads the next line of the response's head.
    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_ascii_lowercase()),
        }
    }
}
