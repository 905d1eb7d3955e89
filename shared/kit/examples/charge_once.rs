//! Charges a card for an order, once, and sends a receipt.
//!
//! However often the event comes, by the retry loop or because Lambda delivers at least once, the card is charged
//! once: a repetition is given the charge that was made, and goes on with the receipt.
//!
//! `PAYMENTS_URL` is where the API of payments is, `IDEMPOTENCY_TABLE` a DynamoDB table with the partition key `id`.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

use std::env;

use aws_config::BehaviorVersion;
use comeback::{
    Failure, Unwrap,
    idempotency::{DynamoStore, Idempotency, Request},
    transient::HttpStatus,
};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::{Deserialize, Serialize};
use tower::ServiceBuilder;

#[derive(Deserialize, Serialize)]
struct Order {
    id: String,
    cents: u64,
}

#[derive(Deserialize, Serialize)]
struct Charge {
    id: String,
}

#[derive(Debug, thiserror::Error)]
enum NotPaid {
    #[error("payments can't be reached")]
    Unreachable(#[from] reqwest::Error),
    #[error("payments answered")]
    Answered(#[from] HttpStatus),
}

/// The API of payments.
struct Payments {
    client: reqwest::Client,
    url: String,
}

impl Payments {
    async fn charge(&self, order: &Order) -> Result<Charge, NotPaid> {
        let request = self.client.post(format!("{}/charges", self.url));
        Ok(HttpStatus::check(request.json(order).send().await?)?.json().await?)
    }

    async fn send_receipt(&self, charge: &Charge) -> Result<(), NotPaid> {
        let request = self.client.post(format!("{}/receipts", self.url));
        HttpStatus::check(request.json(charge).send().await?)?;
        Ok(())
    }
}

async fn handle(
    event: LambdaEvent<Order>,
    once: &Idempotency<DynamoStore>,
    payments: &Payments,
) -> Result<(), Failure> {
    let LambdaEvent { payload: order, context } = event;
    // The order's own id, not the event's: who sends an order twice wants it charged once, too.
    let request = Request::new(&order.id, &order, &context)?;
    let charge = once.run(&request, |_lease| payments.charge(&order)).await?;
    payments.send_receipt(&charge).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let aws = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let store =
        DynamoStore::new(&aws_sdk_dynamodb::Client::new(&aws), env::var("IDEMPOTENCY_TABLE")?);
    let once = Idempotency::new("charge", store)?;
    let payments = Payments { client: reqwest::Client::new(), url: env::var("PAYMENTS_URL")? };
    let function = service_fn(|event| handle(event, &once, &payments));
    lambda_runtime::run(ServiceBuilder::new().layer(Unwrap::new()).service(function)).await
}
