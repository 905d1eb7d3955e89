//! Charges a card for an order, once, and sends a receipt.
//!
//! However often the event comes, by the retry loop or because Lambda delivers at least once, the card is charged
//! once. Two things make that so. A repetition is given the charge that was made, and goes on with the receipt. And
//! where nobody here can know whether it was made, because the answer did not arrive, payments is asked again
//! under the same key, and knows.
//!
//! Its time-out has to be longer than the 5 s of a charge and the 5 s that no retry may touch; Lambda's default is 3 s.
//! `PAYMENTS_URL` is where the API of payments is, `IDEMPOTENCY_TABLE` a DynamoDB table with the partition key `id`.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

use std::{env, time::Duration};

use aws_config::BehaviorVersion;
use comeback::{
    Failure, Unwrap,
    idempotency::{DynamoStore, Idempotency, Request},
    retry::{Deadline, Policy, Retry},
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
    /// Payments knows a charge that is repeated by its key.
    async fn charge(&self, order: &Order) -> Result<Charge, NotPaid> {
        let request = self.client.post(format!("{}/charges", self.url));
        let request = request.header("idempotency-key", &order.id).json(order);
        Ok(HttpStatus::check(request.send().await?)?.json().await?)
    }

    async fn send_receipt(&self, charge: &Charge) -> Result<(), NotPaid> {
        let request = self.client.post(format!("{}/receipts", self.url));
        HttpStatus::check(request.json(charge).send().await?)?;
        Ok(())
    }
}

struct Shop {
    payments: Payments,
    once: Idempotency<DynamoStore>,
    retry: Retry,
}

async fn handle(event: LambdaEvent<Order>, shop: &Shop) -> Result<(), Failure> {
    let LambdaEvent { payload: order, context } = event;
    let deadline = Deadline::of(&context)?;
    // The order's own id, not the event's: who sends an order twice wants it charged once, too. The sum by itself,
    // not the whole order: another version of this function may know more of an order.
    let request = Request::new(&order.id, &order.cents, &context)?;
    let charge = shop.once.run(&request, |_lease| shop.payments.charge(&order)).await?;
    // A receipt may come twice, so it can be tried again at once, while the invocation's time lasts.
    let call = shop.retry.operation("receipt").until(deadline);
    call.run(|| shop.payments.send_receipt(&charge)).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let aws = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let store =
        DynamoStore::new(&aws_sdk_dynamodb::Client::new(&aws), env::var("IDEMPOTENCY_TABLE")?);
    // One that hangs becomes an error while the function still holds the order.
    let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).build()?;
    let shop = Shop {
        payments: Payments { client, url: env::var("PAYMENTS_URL")? },
        once: Idempotency::new("charge-once", store)?,
        retry: Retry::new(Policy::default()),
    };
    let function = service_fn(|event| handle(event, &shop));
    lambda_runtime::run(ServiceBuilder::new().layer(Unwrap::new()).service(function)).await
}
