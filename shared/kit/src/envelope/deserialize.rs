//! Reads a payload of type `T` out of its envelope, or bare.

use comeback_core::envelope::Envelope;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};
use serde_json::value::RawValue;

use super::{Enveloped, Retried};

impl<'de, T: DeserializeOwned> Deserialize<'de> for Enveloped<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let (payload, retried) = match Envelope::read(text.get()) {
            Some(envelope) => (envelope.payload, Some(Retried(envelope.metadata))),
            None => (text, None),
        };
        let payload = serde_json::from_str(payload.get()).map_err(D::Error::custom)?;
        Ok(Self { payload, retried })
    }
}
