//! The adapters on moto's SQS and DynamoDB: an implementation that nobody here wrote.
#![allow(clippy::unwrap_used, reason = "tests")]

mod ledger;
mod queues;

use std::sync::OnceLock;

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use moto::Moto;

/// What a client of the one server of all tests needs. Each test has queues and tables of its own.
fn config() -> SdkConfig {
    static MOTO: OnceLock<Moto> = OnceLock::new();
    let credentials = Credentials::new("key", "secret", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(&MOTO.get_or_init(Moto::start).endpoint)
        .build()
}
