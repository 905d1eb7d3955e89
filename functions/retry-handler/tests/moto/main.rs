//! Tests the adapters against moto, an independent implementation of SQS and DynamoDB.
#![allow(clippy::unwrap_used, reason = "tests")]

mod queues;
mod register;

use std::sync::OnceLock;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use comeback_core::claim::{Claim, State, Token};
use comeback_flow::ports::{Ledger, NotReplaced};
use moto::{Moto, create_table};
use retry_handler::DynamoLedger;

/// The configuration of clients. All tests share one server, and each uses its own queues and tables.
fn config() -> SdkConfig {
    static MOTO: OnceLock<Moto> = OnceLock::new();
    moto::config(&MOTO.get_or_init(Moto::start).endpoint)
}

const KEY: &str = "failed-request";

fn held(owner: &str, generation: u32) -> Claim {
    Claim {
        token: Token { generation, owner: owner.to_owned() },
        state: State::Held { until: "2026-02-01T12:00:40.568Z".parse().unwrap() },
        order: None,
        expires_at: "2026-02-15T12:00:00Z".parse().unwrap(),
    }
}

#[tokio::test]
async fn only_who_saw_what_is_there_replaces_it() {
    create_table(&Client::new(&config()), "claims", "id").await;
    let ledger = DynamoLedger::new(&config(), "claims".to_owned());
    let (first, second) = (held("first", 1), held("second", 2));
    let done = second.done();
    for (there, next) in [
        (None, Some(&first)),
        (Some(&first), Some(&second)),
        (Some(&second), Some(&done)),
        (Some(&done), None),
    ] {
        // A holder that saw another claim, such as a late one, can neither write nor remove.
        for seen in [None, Some(&first), Some(&second), Some(&done)] {
            for write in [Some(&held("late", 1)), None] {
                let refused = Err(NotReplaced::Changed(there.cloned()));
                if seen != there {
                    assert_eq!(ledger.replace(KEY, seen, write).await, refused, "{seen:?}");
                }
            }
        }
        assert_eq!(ledger.replace(KEY, there, next).await, Ok(()));
    }
    assert_eq!(ledger.replace(KEY, None, Some(&first)).await, Ok(()), "it was released");
    assert_eq!(ledger.replace("another-request", None, Some(&second)).await, Ok(()));
}
