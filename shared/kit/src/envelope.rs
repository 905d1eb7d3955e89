//! The envelope of a retried event, as a function reads it.
//!
//! A retried event comes as `{"_retry_metadata": {…}, "_original_payload": …}`, its first invocation as
//! the bare payload. [`Enveloped<T>`] reads both: it gives the payload as `T`, and the facts of the
//! retry where there are any. Under the layer [`Unwrap`](crate::Unwrap) a function sees only its `T`,
//! and finds the facts, if it asks, in its context: [`Retried::of`].

use std::time::Duration;

use comeback_core::{
    Timestamp,
    envelope::{CONTEXT_FACTS, RetryMetadata},
    time::between,
};
use lambda_runtime::{Context, LambdaEvent};

mod deserialize;
mod members;
mod name;
#[cfg(test)]
mod tests;
mod text;
mod variant;
mod watch;

/// A payload of type `T`, in its envelope or bare.
///
/// It is read as JSON by `serde_json`, at hardly more cost than `T` itself, and is an envelope under
/// the rules of the contract: an object with both members, whose `_retry_metadata` has a whole
/// `attempt` from 1 and a numeric `initial_timestamp`. Anything else is an ordinary payload. Where `T`
/// is `Box<RawValue>`, it is given the payload's exact bytes.
///
/// ```
/// use comeback::Enveloped;
///
/// #[derive(serde::Deserialize)]
/// struct Order { id: u64 }
///
/// let bare = r#"{"id":7}"#;
/// let order: Enveloped<Order> = serde_json::from_str(bare).unwrap();
/// assert_eq!(order.payload.id, 7);
/// assert!(order.retried.is_none());
///
/// let retried = r#"{"_retry_metadata":{"attempt":2,"initial_timestamp":1643667670},
///                   "_original_payload":{"id":7}}"#;
/// let order: Enveloped<Order> = serde_json::from_str(retried).unwrap();
/// assert_eq!(order.payload.id, 7);
/// assert_eq!(order.retried.unwrap().attempt(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Enveloped<T> {
    /// What the function was first given.
    pub payload: T,
    /// The facts of the retry; `None` in the first invocation.
    pub retried: Option<Retried>,
}

impl<T> Enveloped<T> {
    /// Takes the payload out of its envelope, and puts the facts of the retry where [`Retried::of`] and
    /// [`idempotency_key`] find them: what [`Unwrap`](crate::Unwrap) does, for a function without
    /// layers.
    ///
    /// ```
    /// use comeback::{Enveloped, Retried};
    /// use lambda_runtime::LambdaEvent;
    ///
    /// async fn handle(event: LambdaEvent<Enveloped<String>>) -> Result<(), comeback::Failure> {
    ///     let event: LambdaEvent<String> = Enveloped::open(event);
    ///     let attempt = Retried::of(&event.context).map_or(0, |retried| retried.attempt());
    ///     println!("attempt {attempt}");
    ///     Ok(())
    /// }
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let retried = r#"{"_retry_metadata":{"attempt":2,"initial_timestamp":5},"_original_payload":"7"}"#;
    /// let event = LambdaEvent::new(serde_json::from_str(retried)?, Default::default());
    /// assert!(handle(event).await.is_ok());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn open(event: LambdaEvent<Self>) -> LambdaEvent<T> {
        let (Self { payload, retried }, mut context) = event.into_parts();
        if let Some(retried) = retried {
            retried.put_into(&mut context);
        }
        LambdaEvent::new(payload, context)
    }
}

/// The facts of a retry.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use comeback::Enveloped;
///
/// let event = r#"{"_retry_metadata":{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b46cbf"},
///                 "_original_payload":null}"#;
/// let retried = serde_json::from_str::<Enveloped<()>>(event).unwrap().retried.unwrap();
/// assert_eq!(retried.attempt(), 2);
/// assert_eq!(retried.request_id(), Some("e4b46cbf"));
///
/// let first_failure = SystemTime::UNIX_EPOCH + Duration::from_secs(1643667670);
/// assert_eq!(SystemTime::from(retried.first_failure()), first_failure);
/// assert_eq!(retried.age(first_failure + Duration::from_secs(90)), Duration::from_secs(90));
/// ```
#[derive(Clone, Debug)]
pub struct Retried(RetryMetadata);

impl Retried {
    /// The facts of the retry that this invocation is, if it is one.
    ///
    /// They stand in the client context's custom values under `comeback`, where
    /// [`Unwrap`](crate::Unwrap) has put them. An asynchronous invocation has no client context of its
    /// own.
    ///
    /// ```
    /// # use comeback::{Enveloped, Retried};
    /// # use lambda_runtime::{Context, LambdaEvent};
    /// let bare = Enveloped { payload: 7, retried: None };
    /// let event = Enveloped::open(LambdaEvent::new(bare, Context::default()));
    /// assert!(Retried::of(&event.context).is_none());
    /// ```
    pub fn of(context: &Context) -> Option<Self> {
        let facts = context.client_context.as_ref()?.custom.get(CONTEXT_FACTS)?;
        RetryMetadata::read(facts).map(Self)
    }

    /// Which re-invocation this is, counted from 1; Lambda's own invocation is not counted.
    pub fn attempt(&self) -> u32 {
        self.0.attempt.get()
    }

    /// When the event failed first, to the second.
    pub fn first_failure(&self) -> Timestamp {
        // Beyond the times that can be told there is only what another writer made up.
        let beyond =
            if self.0.initial_timestamp < 0 { Timestamp::MIN_UTC } else { Timestamp::MAX_UTC };
        self.0.first_failure().unwrap_or(beyond)
    }

    /// How long ago that was. `now` may be a `SystemTime`.
    pub fn age(&self, now: impl Into<Timestamp>) -> Duration {
        between(self.first_failure(), now.into())
    }

    /// The request id of the first failed invocation, the same in all attempts. Envelopes of other
    /// writers may lack it.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    fn put_into(&self, context: &mut Context) {
        // Facts read from JSON can be written as JSON.
        let facts = serde_json::to_string(&self.0).unwrap_or_default();
        if context.client_context.is_none() {
            // Its type can't be named here; all of its members have defaults.
            context.client_context = serde_json::from_str("{}").ok();
        }
        if let Some(carrier) = &mut context.client_context {
            carrier.custom.insert(CONTEXT_FACTS.to_owned(), facts);
        }
    }
}

/// What is the same in every invocation for one event: the request id of its first failed invocation,
/// and in that one, where there is no retry yet, its own.
///
/// Envelopes of other writers may lack the first request id; their retries are each known by their
/// own.
///
/// ```
/// # use comeback::{Enveloped, idempotency_key};
/// # use lambda_runtime::{Context, LambdaEvent};
/// let event = r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":1643667670,"request_id":"first"},
///                 "_original_payload":7}"#;
/// let mut context = Context::default();
/// context.request_id = "second".into();
/// assert_eq!(idempotency_key(&context), "second");
///
/// let enveloped: Enveloped<u32> = serde_json::from_str(event).unwrap();
/// let event = Enveloped::open(LambdaEvent::new(enveloped, context));
/// assert_eq!(idempotency_key(&event.context), "first");
/// ```
pub fn idempotency_key(context: &Context) -> String {
    let first = Retried::of(context).and_then(|retried| retried.0.request_id);
    first.unwrap_or_else(|| context.request_id.clone())
}
