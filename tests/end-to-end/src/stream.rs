//! A Kinesis stream of the local cloud, and mappings whose failed batches go to a bucket.

use aws_sdk_lambda::types::{
    DestinationConfig, EventSourcePosition, FunctionResponseType, OnFailure,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::retry_loop::RetryLoop;

pub struct Stream {
    name: String,
    endpoint: String,
}

impl Stream {
    pub async fn create(retry_loop: &RetryLoop, name: &str) -> Self {
        let stream = Self { name: name.to_owned(), endpoint: retry_loop.cloud.endpoint.clone() };
        stream.call("CreateStream", &json!({ "StreamName": name, "ShardCount": 1 })).await;
        stream
    }

    /// Maps the stream to a function. A batch goes to the bucket `records` as soon as it has failed.
    pub async fn map(&self, retry_loop: &RetryLoop, function: &str) {
        let on_failure = OnFailure::builder().destination("arn:aws:s3:::records").build();
        let destinations = DestinationConfig::builder().on_failure(on_failure).build();
        let create = retry_loop.cloud.lambda.create_event_source_mapping().function_name(function);
        create
            .event_source_arn(format!(
                "arn:aws:kinesis:us-east-1:000000000000:stream/{}",
                self.name
            ))
            .starting_position(EventSourcePosition::TrimHorizon)
            .maximum_retry_attempts(0)
            .function_response_types(FunctionResponseType::ReportBatchItemFailures)
            .destination_config(destinations)
            .send()
            .await
            .unwrap();
    }

    /// Puts records with these data, which are base64.
    pub async fn put(&self, data: &[&str]) {
        let record = |data: &&str| json!({ "Data": data, "PartitionKey": "k" });
        let records: Vec<_> = data.iter().map(record).collect();
        self.call("PutRecords", &json!({ "StreamName": self.name, "Records": records })).await;
    }

    async fn call(&self, action: &str, body: &Value) {
        let (host, body) = (self.endpoint.trim_start_matches("http://"), body.to_string());
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nx-amz-target: Kinesis_20131202.{action}\r\nauthorization: AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=0\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{action}: {answer}");
    }
}

/// The data of an event's records.
pub fn data(event: &str) -> Vec<String> {
    let event: Value = serde_json::from_str(event).unwrap();
    let data = |record: &Value| record["kinesis"]["data"].as_str().unwrap().to_owned();
    event["Records"].as_array().unwrap().iter().map(data).collect()
}
