//! Tests the adapters against moto, an independent implementation of SQS and DynamoDB.
#![allow(clippy::unwrap_used, reason = "tests")]

mod circuits;
mod ledger;
mod queues;
mod register;

use std::sync::OnceLock;

use aws_config::SdkConfig;
use moto::Moto;

/// The configuration of clients. All tests share one server, and each uses its own queues and tables.
fn config() -> SdkConfig {
    static MOTO: OnceLock<Moto> = OnceLock::new();
    moto::config(&MOTO.get_or_init(Moto::start).endpoint)
}
