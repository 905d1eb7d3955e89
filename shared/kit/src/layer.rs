//! The layer under which a function sees only its payload.

use std::task::{Context, Poll};

use lambda_runtime::LambdaEvent;
use tower::{
    Layer, Service,
    util::{MapErr, ServiceExt},
};

use crate::{Enveloped, Failure};

/// Takes the envelope off a retried event, and makes a [`Failure`] of the function's error.
///
/// The function is one of its own payload. What it wants to know of a retry is in its context:
/// [`Retried::of`](crate::Retried::of), [`idempotency_key`](crate::idempotency_key).
///
/// ```
/// use comeback::{Failure, PermanentFailure, Unwrap, idempotency_key};
/// use lambda_runtime::{LambdaEvent, service_fn, tower::{ServiceBuilder, ServiceExt}};
///
/// #[derive(serde::Deserialize)]
/// struct Order { amount: String }
///
/// async fn handle(event: LambdaEvent<Order>) -> Result<String, Failure> {
///     let amount: u64 = event.payload.amount.parse().map_err(PermanentFailure::new)?;
///     Ok(format!("{amount} once for {}", idempotency_key(&event.context)))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // In a function: lambda_runtime::run(function).await
/// let function = ServiceBuilder::new().layer(Unwrap::new()).service(service_fn(handle));
///
/// let retried = r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":5,"request_id":"e4b4"},
///                   "_original_payload":{"amount":"100"}}"#;
/// let event = LambdaEvent::new(serde_json::from_str(retried)?, Default::default());
/// assert_eq!(function.clone().oneshot(event).await, Ok("100 once for e4b4".to_owned()));
///
/// let bare = LambdaEvent::new(serde_json::from_str(r#"{"amount":"much"}"#)?, Default::default());
/// assert_eq!(function.oneshot(bare).await.unwrap_err().error_type(), "PermanentFailure");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwrap(());

impl Unwrap {
    /// The layer.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for Unwrap {
    type Service = Unwrapped<S>;

    fn layer(&self, inner: S) -> Unwrapped<S> {
        Unwrapped { inner }
    }
}

/// A function under the layer [`Unwrap`]. It may stand under others.
///
/// ```
/// use comeback::{Enveloped, Failure, Unwrap, Unwrapped};
/// use lambda_runtime::{LambdaEvent, Service, service_fn, tower::Layer};
///
/// async fn echo(event: LambdaEvent<String>) -> Result<String, Failure> {
///     Ok(event.payload)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Failure> {
/// // In a function: Runtime::new(function).layer(TracingLayer::new()).run().await
/// let mut function: Unwrapped<_> = Unwrap::new().layer(service_fn(echo));
///
/// let bare = Enveloped { payload: "7".to_owned(), retried: None };
/// assert_eq!(function.call(LambdaEvent::new(bare, Default::default())).await?, "7");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Unwrapped<S> {
    inner: S,
}

impl<S, T> Service<LambdaEvent<Enveloped<T>>> for Unwrapped<S>
where
    S: Service<LambdaEvent<T>>,
    S::Error: Into<Failure>,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = <MapErr<S, fn(S::Error) -> Failure> as Service<LambdaEvent<T>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, event: LambdaEvent<Enveloped<T>>) -> Self::Future {
        let fails: fn(S::Error) -> Failure = Into::into;
        (&mut self.inner).map_err(fails).call(Enveloped::open(event))
    }
}
