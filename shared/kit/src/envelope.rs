//! Reads the envelope of a retried event: `{"_retry_metadata": {…}, "_original_payload": …}`.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    envelope::{CONTEXT_FACTS, Envelope, RetryMetadata},
    time::between,
};
use lambda_runtime::{Context, LambdaEvent};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};
use serde_json::value::RawValue;

/// A payload of type `T`, which may arrive in an envelope or bare.
///
/// It can only be deserialized with `serde_json`. An envelope is an object with both members, whose
/// `_retry_metadata` has a whole `attempt` of at least 1 and a numeric `initial_timestamp`. Anything else is an
/// ordinary payload. With `T = Box<RawValue>` you get the exact bytes of the payload.
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
    /// The original payload.
    pub payload: T,
    /// The retry metadata; `None` in the first invocation.
    pub retried: Option<Retried>,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Enveloped<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let event = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(&event).map_err(D::Error::custom)
    }
}

impl<T: DeserializeOwned> Enveloped<T> {
    /// Reads the payload, or returns an error message with the path of the faulty member.
    pub(crate) fn read(event: &RawValue) -> Result<Self, String> {
        let (payload, retried) = match Envelope::find(event.get()) {
            Some((metadata, payload)) => (payload, Some(Retried(metadata))),
            None => (event, None),
        };
        match serde_json::from_str(payload.get()) {
            Ok(payload) => Ok(Self { payload, retried }),
            Err(error) => Err(with_path::<T>(payload).unwrap_or_else(|| error.to_string())),
        }
    }
}

/// The error with its path. Tracking paths doubles the cost of parsing, so it is only done after an error.
fn with_path<T: DeserializeOwned>(payload: &RawValue) -> Option<String> {
    let json = &mut serde_json::Deserializer::from_str(payload.get());
    serde_path_to_error::deserialize::<_, T>(json).err().map(|error| error.to_string())
}

impl<T> Enveloped<T> {
    /// Removes the envelope, and puts the retry metadata into the context for [`Retried::of`] and
    /// [`idempotency_key`]. Use it in functions without the layer [`Unwrap`](crate::Unwrap), which does the same.
    pub fn open(event: LambdaEvent<Self>) -> LambdaEvent<T> {
        let (Self { payload, retried }, mut context) = event.into_parts();
        if let Some(retried) = retried {
            retried.put_into(&mut context);
        }
        LambdaEvent::new(payload, context)
    }
}

/// The retry metadata of an event.
#[derive(Clone, Debug)]
pub struct Retried(RetryMetadata);

impl Retried {
    /// Returns the retry metadata, or `None` in the first invocation for an event.
    ///
    /// [`Unwrap`](crate::Unwrap) stores the metadata in the custom values of the client context, under `comeback`.
    /// Lambda gives asynchronous invocations no client context.
    pub fn of(context: &Context) -> Option<Self> {
        let metadata = context.client_context.as_ref()?.custom.get(CONTEXT_FACTS)?;
        RetryMetadata::read(metadata).map(Self)
    }

    /// Which re-invocation this is, counted from 1; Lambda's own invocation is not counted.
    pub fn attempt(&self) -> u32 {
        self.0.attempt.get()
    }

    /// When the event first failed, to the second.
    pub fn first_failure(&self) -> Timestamp {
        // Only an envelope that Comeback didn't write can have a timestamp that is out of range.
        let nearest =
            if self.0.initial_timestamp < 0 { Timestamp::MIN_UTC } else { Timestamp::MAX_UTC };
        self.0.first_failure().unwrap_or(nearest)
    }

    /// The time from the first failure until `now`, which may be a `SystemTime`.
    pub fn age(&self, now: impl Into<Timestamp>) -> Duration {
        between(self.first_failure(), now.into())
    }

    /// The request id of the first failed invocation, which is the same in all attempts. It may be missing from
    /// envelopes that Comeback didn't write.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    fn put_into(&self, context: &mut Context) {
        // Writing JSON to memory cannot fail.
        let metadata = serde_json::to_string(&self.0).unwrap_or_default();
        if context.client_context.is_none() {
            // `lambda_runtime` does not export this type. All of its members have defaults.
            context.client_context = serde_json::from_str("{}").ok();
        }
        if let Some(client_context) = &mut context.client_context {
            client_context.custom.insert(CONTEXT_FACTS.to_owned(), metadata);
        }
    }
}

/// An idempotency key that is the same in all attempts of an event: the request id of its first invocation.
///
/// If an envelope has no request id because Comeback didn't write it, each retry's key is its own request id.
pub fn idempotency_key(context: &Context) -> String {
    let first = Retried::of(context).and_then(|retried| retried.0.request_id);
    first.unwrap_or_else(|| context.request_id.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_envelope_in_a_json_value_is_read_too() {
        let event = serde_json::json!({
            "_retry_metadata": {"attempt": 3, "initial_timestamp": 5}, "_original_payload": {"id": 7},
        });
        let read: Enveloped<BTreeMap<String, u64>> = serde_json::from_value(event).unwrap();
        let retried = read.retried.unwrap();
        assert_eq!((read.payload["id"], retried.attempt()), (7, 3));
        let now = Timestamp::from_timestamp(95, 0).unwrap();
        assert_eq!(retried.age(now), Duration::from_secs(90));
    }

    /// An event of the list with which the code for each language is tested.
    #[derive(Deserialize)]
    struct Case<'a> {
        is_envelope: bool,
        request_id: Option<String>,
        #[serde(borrow)]
        event: &'a RawValue,
    }

    #[test]
    fn events_are_recognized_and_have_the_same_key_as_in_every_language() {
        let cases = include_str!("../../core/fixtures/envelopes.json");
        for Case { is_envelope, request_id, event } in
            serde_json::from_str::<Vec<_>>(cases).unwrap()
        {
            // Another of `serde_json`'s readers than the Lambda runtime's, which reads slices.
            let read = serde_json::from_reader(event.get().as_bytes());
            let read: Enveloped<Box<RawValue>> = read.unwrap();
            assert_eq!(read.retried.is_some(), is_envelope, "{event}");
            let mut context = Context::default();
            context.request_id = "own".to_owned();
            let event = Enveloped::open(LambdaEvent::new(read, context));
            let expected = request_id.as_deref().unwrap_or("own");
            assert_eq!(idempotency_key(&event.context), expected, "{}", event.payload);
        }
    }
}
