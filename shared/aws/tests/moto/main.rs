//! Tests the adapters against moto, an independent implementation of SQS and DynamoDB.
#![allow(clippy::unwrap_used, reason = "tests")]

mod circuits;
mod ledger;
mod queues;
mod register;

use std::sync::OnceLock;

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use moto::Moto;

/// The configuration of clients. All tests share one server, and each uses its own queues and tables.
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
