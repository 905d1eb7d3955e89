//! A bucket of the local cloud with failure records.

use aws_sdk_lambda::types::{DestinationConfig, OnFailure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::retry_loop::RetryLoop;

/// What the keys of all failure records begin with, those of functions and those of mappings.
const PREFIX: &str = "aws/lambda/";

pub struct Bucket {
    name: String,
    endpoint: String,
}

impl Bucket {
    pub async fn create(retry_loop: &RetryLoop, name: &str) -> Self {
        let bucket = Self { name: name.to_owned(), endpoint: retry_loop.cloud.endpoint.clone() };
        bucket.call("PUT", "", b"").await;
        bucket
    }

    /// Makes this bucket send its notices about failure records to the retry queue of this loop.
    pub async fn notifies(&self, retry_loop: &RetryLoop) {
        let queue = retry_loop.cloud.queue_arn(&retry_loop.retry_queue).await.unwrap();
        let configuration = format!(
            "<NotificationConfiguration><QueueConfiguration><Queue>{queue}</Queue><Event>s3:ObjectCreated:*</Event>\
             <Filter><S3Key><FilterRule><Name>prefix</Name><Value>{PREFIX}</Value></FilterRule></S3Key></Filter>\
             </QueueConfiguration></NotificationConfiguration>"
        );
        self.call("PUT", "?notification", configuration.as_bytes()).await;
    }

    /// Makes this bucket the on-failure destination of a function, which Lambda doesn't retry.
    pub async fn receives_failures_of(&self, retry_loop: &RetryLoop, function: &str) {
        let bucket = format!("arn:aws:s3:::{}", self.name);
        let on_failure = OnFailure::builder().destination(bucket).build();
        let destinations = DestinationConfig::builder().on_failure(on_failure).build();
        let put = retry_loop.cloud.lambda.put_function_event_invoke_config();
        let put = put.function_name(function).maximum_retry_attempts(0);
        put.destination_config(destinations).send().await.unwrap();
    }

    /// Puts an object. The key stands in the path, so it is percent-encoded.
    pub async fn put(&self, encoded_key: &str, bytes: &[u8]) {
        self.call("PUT", &format!("/{encoded_key}"), bytes).await;
    }

    async fn call(&self, method: &str, path: &str, body: &[u8]) {
        let Self { name, endpoint } = self;
        let host = endpoint.trim_start_matches("http://");
        let head = format!(
            "{method} /{name}{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{method} {path}: {answer}");
    }
}

/// S3's notice of an object with this key, as S3 encodes it.
pub fn notice(bucket: &str, encoded_key: &str) -> String {
    format!(r#"{{"Records":[{}]}}"#, entry(bucket, encoded_key, ""))
}

/// The entry of one object in a notice. `version` is a member of the object, with its comma, or nothing.
pub fn entry(bucket: &str, encoded_key: &str, version: &str) -> String {
    format!(
        r#"{{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"{bucket}"}},"object":{{{version}"key":"{encoded_key}"}}}}}}"#
    )
}

/// The key of a failure record of this function, which ends so.
pub fn key(function: &str, end: &str) -> String {
    format!("{PREFIX}async/{function}/2026/02/01/2026-02-01T12.00.00-{end}")
}
