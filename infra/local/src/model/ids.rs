//! Identifiers from a seeded generator, so that the same seed gives the same sequence.

use rand::{Rng as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use uuid::Builder;

#[derive(Debug)]
pub(crate) struct Ids(Xoshiro256PlusPlus);

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A random UUID (RFC 9562, version 4), the form of request ids and of mappings.
    pub(crate) fn uuid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        Builder::from_random_bytes(bytes).into_uuid().to_string()
    }
}
