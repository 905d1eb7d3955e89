//! Books a carrier for an order, through a third-party API.
//!
//! The function retries faults that pass within seconds. If a fault lasts longer, the function fails, and the
//! retry loop brings the order back, but not before the carrier's `Retry-After`. If the carrier refuses the order,
//! the event is dead-lettered at once.
//!
//! `CARRIER_URL` is the base URL of the carrier's API.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

use std::{env, time::Duration};

use comeback::{
    Failure, PermanentFailure, Unwrap, idempotency_key,
    retry::{Deadline, Policy, Retry, Stopped},
    transient::HttpStatus,
};
use lambda_runtime::{Error, LambdaEvent, run, service_fn, tower::Layer, tracing};
use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize)]
struct Order {
    id: String,
    address: String,
}

/// A client of the carrier's API.
struct Carrier {
    client: reqwest::Client,
    url: String,
    retry: Retry,
}

#[derive(Debug, thiserror::Error)]
enum NotBooked {
    #[error("the carrier can't be reached")]
    Unreachable(#[from] reqwest::Error),
    #[error("the carrier answered")]
    Answered(#[from] HttpStatus),
}

impl Carrier {
    /// Makes one attempt. The carrier recognises a repeated booking by its idempotency key.
    async fn book(&self, order: &Order, key: &str) -> Result<(), NotBooked> {
        let request = self.client.post(format!("{}/bookings", self.url));
        let response = request.header("idempotency-key", key).json(order).send().await?;
        HttpStatus::check(response).await?;
        Ok(())
    }
}

async fn handle(event: LambdaEvent<Order>, carrier: &Carrier) -> Result<(), Failure> {
    let LambdaEvent { payload: order, context } = event;
    let deadline = Deadline::of(&context)?;
    let key = idempotency_key(&context);
    let call = carrier.retry.operation("book").until(deadline);
    call.run(|| carrier.book(&order, &key)).await.map_err(|stopped| {
        if is_refused(&stopped) { PermanentFailure::new(stopped).into() } else { stopped.into() }
    })
}

/// Whether the carrier refused the order, so that a retry can't succeed.
fn is_refused(stopped: &Stopped<NotBooked>) -> bool {
    matches!(stopped.cause(), NotBooked::Answered(answer) if [400, 422].contains(&answer.status().as_u16()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let carrier = Carrier {
        // A request that hangs fails while there is time for another attempt.
        client: reqwest::Client::builder().timeout(Duration::from_secs(5)).build()?,
        url: env::var("CARRIER_URL")?,
        retry: Retry::new(Policy::OUTSIDE_API),
    };
    run(Unwrap::new().layer(service_fn(|event| handle(event, &carrier)))).await
}
