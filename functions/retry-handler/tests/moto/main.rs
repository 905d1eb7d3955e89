//! Tests the adapters against moto, an independent implementation of SQS and DynamoDB.
#![allow(clippy::unwrap_used, reason = "tests")]

mod queues;
mod register;

use std::sync::OnceLock;

use aws_config::SdkConfig;
use comeback_core::claim::{Claim, State, Token};
use moto::Moto;

/// The configuration of clients. All tests share one server, and each uses its own queues and tables.
fn config() -> SdkConfig {
    static MOTO: OnceLock<Moto> = OnceLock::new();
    moto::config(&MOTO.get_or_init(Moto::start).endpoint)
}

fn held(owner: &str, generation: u32) -> Claim {
    Claim {
        token: Token { generation, owner: owner.to_owned() },
        state: State::Held { until: "2026-02-01T12:00:40.568Z".parse().unwrap() },
        order: None,
        expires_at: "2026-02-15T12:00:00Z".parse().unwrap(),
    }
}
