//! Charges a card once for an order, and sends a receipt. A repetition of the event uses the first charge. If the
//! payment service's response was lost, the charge is repeated with the same key, which the service recognises. If
//! the service refuses the charge, the event is dead-lettered at once.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

use std::{env, time::Duration};

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use comeback::{
    Failure, Unwrap,
    idempotency::{DynamoStore, Error, Idempotency, Request, Store},
    retry::{Deadline, Policy, Retry, Stopped},
    transient::HttpStatus,
};
use lambda_runtime::{LambdaEvent, run, service_fn, tower::Layer, tracing};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize, Serialize)]
struct Order {
    id: String,
    cents: u64,
}

#[derive(Debug, thiserror::Error)]
enum NotPaid {
    #[error("payments can't be reached")]
    Unreachable(#[from] reqwest::Error),
    #[error("payments answered")]
    Answered(#[from] HttpStatus),
}

struct Shop<S> {
    client: reqwest::Client,
    payments: String,
    once: Idempotency<S>,
    retry: Retry,
}

async fn handle<S: Store>(event: LambdaEvent<Order>, shop: &Shop<S>) -> Result<(), Failure> {
    let LambdaEvent { payload: order, context } = event;
    let deadline = Deadline::of(&context)?;
    // The key is the order's id, not the event's, so an order that is sent in two events is charged once.
    let request = Request::new(&order.id, &order.cents, &context)?;
    let call = shop.retry.operation("charge").until(deadline);
    let charge = shop.once.run(&request, |_lease| call.run(|| shop.charge(&order)));
    let charge = charge.await.map_err(Error::into_failure)?;
    let call = shop.retry.operation("receipt").until(deadline);
    call.run(|| shop.send_receipt(&charge)).await.map_err(Stopped::into_failure)
}

impl<S> Shop<S> {
    async fn charge(&self, order: &Order) -> Result<Value, NotPaid> {
        let request = self.client.post(format!("{}/charges", self.payments));
        let answer = request.header("idempotency-key", &order.id).json(order).send().await?;
        Ok(HttpStatus::check(answer).await?.json().await?)
    }

    async fn send_receipt(&self, charge: &Value) -> Result<(), NotPaid> {
        let request = self.client.post(format!("{}/receipts", self.payments));
        HttpStatus::check(request.json(charge).send().await?).await?;
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    tracing::init_default_subscriber();
    let aws = Client::new(&aws_config::load_defaults(BehaviorVersion::latest()).await);
    let shop = Shop {
        // The function's timeout must be longer than this plus the deadline's minimum of 5 s.
        client: reqwest::Client::builder().timeout(Duration::from_secs(5)).build()?,
        payments: env::var("PAYMENTS_URL")?,
        once: Idempotency::new("charge-card", DynamoStore::new(&aws, env::var("CHARGES_TABLE")?))?,
        retry: Retry::new(Policy::default()),
    };
    run(Unwrap::new().layer(service_fn(|event| handle(event, &shop)))).await
}
