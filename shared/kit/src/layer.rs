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
/// ```no_run
/// use comeback::{Failure, PermanentFailure, Unwrap, idempotency_key};
/// use lambda_runtime::{LambdaEvent, service_fn, tower::ServiceBuilder};
///
/// #[derive(serde::Deserialize)]
/// struct Order { amount: String }
///
/// async fn handle(event: LambdaEvent<Order>) -> Result<(), Failure> {
///     let amount: u64 = event.payload.amount.parse().map_err(PermanentFailure::new)?;
///     println!("charging {amount} once for {}", idempotency_key(&event.context));
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), lambda_runtime::Error> {
///     lambda_runtime::run(ServiceBuilder::new().layer(Unwrap::new()).service(service_fn(handle))).await
/// }
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
/// ```no_run
/// use comeback::{Failure, Unwrap, Unwrapped};
/// use lambda_runtime::{LambdaEvent, Runtime, layers::TracingLayer, service_fn, tower::Layer};
///
/// async fn echo(event: LambdaEvent<String>) -> Result<String, Failure> {
///     Ok(event.payload)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), lambda_runtime::Error> {
///     let function: Unwrapped<_> = Unwrap::new().layer(service_fn(echo));
///     Runtime::new(function).layer(TracingLayer::new()).run().await
/// }
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
