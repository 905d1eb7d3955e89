//! With a ledger, each failure re-invokes its target once, although its handler is killed. DynamoDB is moto, which is
//! independent of this project.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use moto::{Moto, create_register, create_table};

use crate::{
    cloud::Cloud,
    faults::{EVENTS, all_come_back, stuck_in_a_batch},
    processes::kill_all,
    retry_loop::{Plan, RetryLoop, TARGET},
};

pub const TABLE: &str = "ledger";

pub fn plan_with_ledger(endpoint: &str, settings: &[(&'static str, &str)]) -> Plan {
    let mut plan = Plan::quick(settings);
    plan.settings.push(("LEDGER_TABLE", TABLE.to_owned()));
    plan.settings.push(("AWS_ENDPOINT_URL_DYNAMODB", endpoint.to_owned()));
    plan
}

/// Enough handlers to meet each other, and not so many that other tests wait for a core.
const PROCESSES_MAX: u32 = 6;

/// A loop whose ledger is in the local cloud's own DynamoDB: moto is too slow for many handlers at once.
pub async fn beside_tables(settings: &[(&'static str, &str)]) -> RetryLoop {
    let cloud = Cloud::with_tables(PROCESSES_MAX).await;
    create_register(&aws_sdk_dynamodb::Client::new(&moto::config(&cloud.endpoint)), TABLE).await;
    plan_with_ledger(&cloud.endpoint, settings).deploy_in(cloud).await
}

/// moto's server on a free port. Dropping it stops the server.
pub struct Tables {
    pub endpoint: String,
    client: aws_sdk_dynamodb::Client,
    _moto: Moto,
}

impl Tables {
    pub fn start() -> Self {
        let moto = Moto::start();
        let client = aws_sdk_dynamodb::Client::new(&moto::config(&moto.endpoint));
        Self { endpoint: moto.endpoint.clone(), client, _moto: moto }
    }

    pub async fn of_kit() -> Self {
        let tables = Self::start();
        tables.create(TABLE, "id").await;
        tables
    }

    /// A server with a ledger.
    pub async fn with_ledger() -> Self {
        let tables = Self::start();
        create_register(&tables.client, TABLE).await;
        tables
    }

    pub async fn create(&self, name: &str, key: &str) {
        create_table(&self.client, name, key).await;
    }

    pub async fn items(&self, name: &str) -> Vec<HashMap<String, AttributeValue>> {
        self.client.scan().table_name(name).send().await.unwrap().items.unwrap()
    }
}

/// The total number of runs of the target, counted when a final event has ended.
pub async fn runs_in_all(retry_loop: &RetryLoop) -> usize {
    retry_loop.settled(&mut retry_loop.cloud.journal()).await;
    retry_loop.invoke(r#"{"id":"the last one"}"#).await;
    let mut journal = retry_loop.cloud.journal();
    let mut runs = 0;
    while !journal.run(TARGET).await.payload.contains("the last one") {
        runs += 1;
    }
    runs
}

#[tokio::test]
async fn the_claims_of_a_killed_handler_are_taken_over() {
    let tables = Tables::with_ledger().await;
    let (retry_loop, proxy) = stuck_in_a_batch(plan_with_ledger(&tables.endpoint, &[])).await;
    kill_all(&retry_loop.handlers()).await;
    proxy.release(&retry_loop.cloud.endpoint);
    all_come_back(&retry_loop).await;
    assert_eq!(runs_in_all(&retry_loop).await, 2 * EVENTS, "no invocation had got through");
}
