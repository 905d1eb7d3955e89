//! A tower layer that removes the envelope and turns errors into failures.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
};

use futures_util::future::Either;
use lambda_runtime::LambdaEvent;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;
use tower::{
    Layer, Service,
    util::{MapErr, ServiceExt},
};

use crate::{Enveloped, Failure, failure::PERMANENT};

/// A layer that removes the envelope of a retried event, and turns the function's error into a [`Failure`].
///
/// A payload that can't be deserialized is a [`PermanentFailure`](crate::PermanentFailure), because the next
/// attempt would receive the same one. [`Unwrap::retry_unreadable`] changes that.
///
/// The function receives the bare payload. The retry metadata is in its context: see
/// [`Retried::of`](crate::Retried::of) and [`idempotency_key`](crate::idempotency_key).
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
#[derive(Clone, Copy, Debug)]
pub struct Unwrap {
    unreadable: &'static str,
}

impl Unwrap {
    /// Creates the layer.
    pub const fn new() -> Self {
        Self { unreadable: PERMANENT }
    }

    /// Retries events with an unreadable payload, with the error type `UnreadablePayload`, instead of giving them
    /// up. Use it if the cause may be a bug in the function, which you can fix before the event is too old.
    #[must_use]
    pub const fn retry_unreadable(self) -> Self {
        Self { unreadable: "UnreadablePayload" }
    }
}

impl Default for Unwrap {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for Unwrap {
    type Service = Unwrapped<S>;

    fn layer(&self, inner: S) -> Unwrapped<S> {
        Unwrapped { inner, unreadable: self.unreadable }
    }
}

/// A function wrapped by the layer [`Unwrap`]. Other layers can be put around it.
#[derive(Clone, Debug)]
pub struct Unwrapped<S> {
    inner: S,
    unreadable: &'static str,
}

/// The input of [`Unwrapped`]: a payload, in an envelope or bare, or the reason why it can't be deserialized.
///
/// Deserializing this type never fails. If it did, `lambda_runtime` would report the error itself, without any
/// layer, and the event would be retried until it is too old.
#[derive(Clone, Debug)]
pub struct Received<T>(Result<Enveloped<T>, String>);

impl<T> From<Enveloped<T>> for Received<T> {
    fn from(enveloped: Enveloped<T>) -> Self {
        Self(Ok(enveloped))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Received<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let event = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Enveloped::read(&event)))
    }
}

impl<S, T> Service<LambdaEvent<Received<T>>> for Unwrapped<S>
where
    S: Service<LambdaEvent<T>>,
    S::Error: Into<Failure>,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = Either<
        <MapErr<S, fn(S::Error) -> Failure> as Service<LambdaEvent<T>>>::Future,
        Ready<Result<S::Response, Failure>>,
    >;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, event: LambdaEvent<Received<T>>) -> Self::Future {
        let LambdaEvent { payload: Received(payload), context } = event;
        match payload {
            Ok(payload) => {
                let to_failure: fn(S::Error) -> Failure = Into::into;
                let event = Enveloped::open(LambdaEvent::new(payload, context));
                Either::Left((&mut self.inner).map_err(to_failure).call(event))
            }
            Err(why) => {
                let message = format!("the payload can't be read: {why}");
                Either::Right(ready(Err(Failure::new(self.unreadable, message))))
            }
        }
    }
}
