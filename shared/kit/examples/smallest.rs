//! Calls the URL in its event. If the call fails, the event comes back later.
use comeback::{Failure, Unwrap, transient::HttpStatus};
use lambda_runtime::{Error, LambdaEvent, run, service_fn, tower::Layer, tracing};

async fn handle(event: LambdaEvent<String>) -> Result<(), Failure> {
    HttpStatus::check(reqwest::get(event.payload).await?).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    run(Unwrap::new().layer(service_fn(handle))).await
}
