//! The one source of chance of a world.

use std::{ops::RangeInclusive, time::Duration};

use rand::{Rng as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

/// A seeded generator, and what is asked of it.
pub(crate) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number for another generator's seed.
    pub(crate) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number of this range, evenly.
    pub(crate) fn number(&mut self, range: RangeInclusive<u64>) -> u64 {
        let span = u128::from(range.end() - range.start()) + 1;
        let offset = (u128::from(self.0.next_u64()) * span) >> u64::BITS;
        // Below the span, which came from two `u64`s.
        range.start() + u64::try_from(offset).unwrap_or_default()
    }

    /// An index of a collection of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        let last = u64::try_from(length.saturating_sub(1)).unwrap_or_default();
        usize::try_from(self.number(0..=last)).unwrap_or_default()
    }

    /// A number from 0 up to, and without, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1_u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 / STEPS
    }

    /// Whether something of this probability happens. Nothing is drawn for what never does.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Whole milliseconds of this range.
    pub(crate) fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.number(range))
    }

    /// Whole milliseconds between two durations.
    pub(crate) fn within(&mut self, low: Duration, high: Duration) -> Duration {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.millis(millis(low)..=millis(high).max(millis(low)))
    }
}
