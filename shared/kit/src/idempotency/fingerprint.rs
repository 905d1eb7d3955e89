//! Hashes a request's intent.

use std::fmt;

use serde::Serialize;
use serde_json::value::to_raw_value;
use sha2::{Digest, Sha256};

use super::canonical::canonical;
use crate::directive::AlwaysPermanent;

/// The SHA-256 of an intent's canonical JSON. The order of members and the notation of numbers do not matter.
///
/// ```
/// use comeback::idempotency::Fingerprint;
/// use serde_json::json;
///
/// let charge = Fingerprint::of(&json!({"card": "tok_7", "amount": 100}))?;
/// assert_eq!(charge, Fingerprint::of(&json!({"amount": 1e2, "card": "tok_7"}))?);
/// assert_ne!(charge, Fingerprint::of(&json!({"amount": 101, "card": "tok_7"}))?);
///
/// // A store persists the bytes.
/// assert_eq!(charge, Fingerprint::from(*charge.as_bytes()));
/// # Ok::<(), comeback::idempotency::BadIntent>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of an intent.
    ///
    /// # Errors
    ///
    /// If the intent cannot be serialized as JSON, or nests too deep.
    pub fn of(intent: &(impl Serialize + ?Sized)) -> Result<Self, BadIntent> {
        let json = to_raw_value(intent).map_err(|error| BadIntent::of(&error))?;
        let json = canonical(&json).map_err(|error| BadIntent::of(&error))?;
        Ok(Self(Sha256::digest(json).into()))
    }

    /// Returns the bytes, for a store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Shows the first eight digits, which are enough to tell two fingerprints apart.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An intent that cannot be serialized as JSON. No retry can fix that, so a handler that returns this error fails
/// with a [`PermanentFailure`](crate::PermanentFailure).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the intent must be JSON: {0}")]
pub struct BadIntent(String, #[source] AlwaysPermanent);

impl BadIntent {
    fn of(error: &impl fmt::Display) -> Self {
        Self(error.to_string(), AlwaysPermanent)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fingerprint_is_the_hash_of_the_canonical_json() {
        // printf '{"amount":1e2,"card":"tok_7"}' | sha256sum
        let hex = |print: Fingerprint| {
            print.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let print = Fingerprint::of(&json!({"card": "tok_7", "amount": 100})).unwrap();
        assert_eq!(hex(print), "071de1dcdc74afdcfed64e9d31dfc54b84da127c0d9e468aee15f00b48f8504f");
        assert!(hex(print).starts_with(&print.to_string()));
    }
}
