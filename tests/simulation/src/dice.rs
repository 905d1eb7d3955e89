//! The only source of randomness in a world.

use std::{ops::RangeInclusive, time::Duration};

use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub fn seeded(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Draws a seed for another generator.
    pub fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn number(&mut self, range: RangeInclusive<u64>) -> u64 {
        let span = u128::from(range.end() - range.start()) + 1;
        range.start() + ((u128::from(self.0.next_u64()) * span) >> u64::BITS) as u64
    }

    pub fn index(&mut self, length: usize) -> usize {
        self.number(0..=length.saturating_sub(1) as u64) as usize
    }

    /// Draws a number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Whether something of this probability happens. At probability 0 nothing is drawn.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Draws a duration in whole milliseconds in this range.
    pub fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.number(range))
    }

    /// Draws a duration in whole milliseconds between these two.
    pub fn within(&mut self, low: Duration, high: Duration) -> Duration {
        let (low, high) = (low.as_millis() as u64, high.as_millis() as u64);
        self.millis(low..=high.max(low))
    }
}
