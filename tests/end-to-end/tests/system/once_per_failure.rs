//! With a ledger, each failure re-invokes its target once, and no event is lost if the ledger fails. DynamoDB is moto,
//! which is independent of this project.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use moto::{Moto, create_register, create_table};

use crate::{
    faults::{EVENTS, all_come_back, stuck_in_a_batch},
    processes::kill_all,
    retry_loop::{HANDLER, Plan, RetryLoop, TARGET, TARGET_ARN, failure_record},
    servers::Proxy,
};

pub const TABLE: &str = "ledger";

pub fn plan_with_ledger(endpoint: &str, settings: &[(&'static str, &str)]) -> Plan {
    let mut plan = Plan::quick(settings);
    plan.settings.push(("LEDGER_TABLE", TABLE.to_owned()));
    plan.settings.push(("AWS_ENDPOINT_URL_DYNAMODB", endpoint.to_owned()));
    plan
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

    pub async fn with_claims() -> Self {
        let tables = Self::start();
        tables.create(TABLE, "id").await;
        tables
    }

    /// A server with the table of claims and the index of the register.
    pub async fn with_register() -> Self {
        let tables = Self::start();
        create_register(&tables.client, TABLE).await;
        tables
    }

    pub async fn create(&self, name: &str, key: &str) {
        create_table(&self.client, name, key).await;
    }

    /// The key and the state of every claim.
    pub async fn claims(&self) -> Vec<(String, String)> {
        let items = self.items(TABLE).await;
        let read =
            |item: &HashMap<String, AttributeValue>, name: &str| item[name].as_s().unwrap().clone();
        items.iter().map(|item| (read(item, "id"), read(item, "state"))).collect()
    }

    pub async fn items(&self, name: &str) -> Vec<HashMap<String, AttributeValue>> {
        self.client.scan().table_name(name).send().await.unwrap().items.unwrap()
    }
}

/// The total number of runs of the target, counted when a final event has ended.
async fn runs_in_all(retry_loop: &RetryLoop) -> usize {
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
async fn one_failure_in_two_messages_re_invokes_its_target_once() {
    let tables = Tables::with_claims().await;
    let retry_loop = plan_with_ledger(&tables.endpoint, &[]).deploy().await;
    let record = failure_record("failed-request", r#"{"id":"twice"}"#);
    for _ in 0..2 {
        retry_loop.send(&record, &[]).await;
    }
    let mut journal = retry_loop.cloud.journal();
    let dropped = journal.log(HANDLER, "a drop", |line| line["decision"] == "drop").await;
    assert_eq!(dropped["request_id"], "failed-request");
    assert_eq!(runs_in_all(&retry_loop).await, 1);
    let key = format!("{TARGET_ARN}/failed-request");
    assert_eq!(tables.claims().await, [(key, "done".to_owned())]);
}

/// The console's redrive makes this call when the retry queue is its custom destination.
#[tokio::test]
async fn a_redriven_dead_letter_starts_over_although_its_failure_is_claimed() {
    let tables = Tables::with_claims().await;
    let retry_loop = plan_with_ledger(&tables.endpoint, &[]).deploy().await;
    let payload =
        r#"{"id": 12345678901234567890123, "fail":{"attempts":1,"error":"PermanentFailure"}}"#;
    let first_id = retry_loop.invoke(payload).await;
    let (cloud, mut journal) = (&retry_loop.cloud, retry_loop.cloud.journal());
    journal.log(HANDLER, "the dead letter", |line| line["reason"] == "not_retryable").await;
    let source = cloud.queue_arn(&retry_loop.dead_letter_queue).await.unwrap();
    let destination = cloud.queue_arn(&retry_loop.retry_queue).await.unwrap();
    let task = cloud.sqs.start_message_move_task().source_arn(source);
    task.destination_arn(destination).send().await.unwrap();
    let run = journal.run(TARGET).await;
    assert_eq!(run.ending, "Succeeded");
    assert!(run.payload.contains(r#""attempt":1,"#), "{}", run.payload);
    let ending = format!(r#""request_id":"{first_id}"}},"_original_payload":{payload}}}"#);
    assert!(run.payload.ends_with(&ending), "{}", run.payload);
    assert_eq!(runs_in_all(&retry_loop).await, 2);
    assert_eq!(tables.claims().await.len(), 2, "one for the failure, one for the redrive");
}

#[tokio::test]
async fn a_ledger_that_fails_for_a_while_only_delays_an_event() {
    let tables = Tables::with_claims().await;
    let broken =
        "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let proxy = Proxy::answering(broken).await;
    let retry_loop = plan_with_ledger(&proxy.endpoint, &[("AWS_MAX_ATTEMPTS", "1")]).deploy().await;
    retry_loop.invoke(r#"{"fail":{"attempts":1}}"#).await;
    let mut journal = retry_loop.cloud.journal();
    let line = journal.log(HANDLER, "a fault", |line| line["decision"] == "claim").await;
    assert_eq!(line["level"], "WARN");
    proxy.release(&tables.endpoint);
    let mut journal = retry_loop.cloud.journal();
    while journal.run(TARGET).await.ending != "Succeeded" {}
    assert_eq!(runs_in_all(&retry_loop).await, 2);
}

#[tokio::test]
async fn the_claims_of_a_killed_handler_are_taken_over() {
    let tables = Tables::with_claims().await;
    let (retry_loop, proxy) = stuck_in_a_batch(plan_with_ledger(&tables.endpoint, &[])).await;
    kill_all(&retry_loop.handlers()).await;
    proxy.release(&retry_loop.cloud.endpoint);
    all_come_back(&retry_loop).await;
    assert_eq!(runs_in_all(&retry_loop).await, 2 * EVENTS, "no invocation had got through");
}
