//! The delay before an attempt: a ceiling that doubles, or the entry of a list, and a random draw below it.
//!
//! The draw is seeded with the failed invocation's request id and the attempt. So every receive of the same message
//! computes the same delay, on any machine and after any crash. The receive count can't replace the attempt: it is
//! approximate, and also counts throttles and crashes.

use std::{fmt, num::NonZeroU32, time::Duration};

use rand::{Rng, SeedableRng, rngs::Xoshiro256PlusPlus};
use serde::Serialize;

use crate::duration;

/// Which of our re-invocations this is, counted from 1; Lambda's own invocation is not counted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Attempt(NonZeroU32);

impl Attempt {
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The attempt with this ordinal; `None` for 0.
    pub fn new(ordinal: u32) -> Option<Self> {
        NonZeroU32::new(ordinal).map(Self)
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl From<NonZeroU32> for Attempt {
    fn from(ordinal: NonZeroU32) -> Self {
        Self(ordinal)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How the delay is drawn below its ceiling.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Jitter {
    Full,
    /// Uniformly distributed between half the ceiling and the ceiling.
    Equal,
    None,
}

impl Jitter {
    /// A delay below this ceiling, to the millisecond. Full jitter draws from `least`.
    pub(crate) fn delay(self, least: Duration, ceiling: Duration, draw: Draw) -> Duration {
        match self {
            Self::Full => draw.between(least.min(ceiling), ceiling),
            Self::Equal => draw.between(ceiling / 2, ceiling),
            Self::None => ceiling,
        }
    }
}

/// A schedule of delays. [`crate::settings::policy`] checks the values, which come from a user's settings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Backoff {
    pub base: Duration,
    /// The upper limit of every delay; at least `base`.
    pub max: Duration,
    pub jitter: Jitter,
}

impl Backoff {
    /// The longest possible delay before this attempt: `base`, doubled for every attempt, at most `max`.
    pub fn ceiling(&self, attempt: Attempt) -> Duration {
        1u32.checked_shl(attempt.get() - 1)
            .and_then(|factor| self.base.checked_mul(factor))
            .map_or(self.max, |doubled| doubled.min(self.max))
    }

    /// The delay before this attempt, to the millisecond.
    pub fn delay(&self, attempt: Attempt, draw: Draw) -> Duration {
        self.delay_from(self.base, attempt, draw)
    }

    /// Like [`delay`](Self::delay), but full jitter draws from `least` instead of the base.
    pub fn delay_from(&self, least: Duration, attempt: Attempt, draw: Draw) -> Duration {
        self.jitter.delay(least, self.ceiling(attempt), draw)
    }
}

/// The ceilings of the delays one by one, in place of one that doubles. There are none unless a setting lists them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Backoffs(Vec<Duration>);

impl Backoffs {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ceiling of the delay before this attempt. The last one is that of all further attempts, too.
    pub fn ceiling(&self, attempt: Attempt) -> Option<Duration> {
        let before = attempt.get() - 1;
        let index = usize::try_from(before).unwrap_or(usize::MAX);
        self.0.get(index).or(self.0.last()).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = Duration> {
        self.0.iter().copied()
    }
}

/// As the setting has them.
impl fmt::Display for Backoffs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written: Vec<_> = self.iter().map(duration::format).collect();
        f.write_str(&written.join(","))
    }
}

impl FromIterator<Duration> for Backoffs {
    fn from_iter<I: IntoIterator<Item = Duration>>(ceilings: I) -> Self {
        Self(Vec::from_iter(ceilings))
    }
}

/// A uniformly distributed `u64`, the same for the same seed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Draw(u64);

impl Draw {
    pub fn of(number: u64) -> Self {
        Self(number)
    }

    /// The draw for one attempt after one failed invocation.
    pub fn seeded(request_id: &str, attempt: u32) -> Self {
        let seed = fnv1a(request_id.bytes().chain(attempt.to_be_bytes()));
        // rand documents this generator as portable, unlike `StdRng`. Waiting messages must keep their due times after
        // an upgrade.
        Self(Xoshiro256PlusPlus::seed_from_u64(seed).next_u64())
    }

    /// Maps the draw to a delay from `low` to `high`, both included, in whole milliseconds.
    pub(crate) fn between(self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low).as_millis();
        let offset = (u128::from(self.0) * (span + 1)) >> u64::BITS;
        low + Duration::from_millis(u64::try_from(offset).unwrap_or(u64::MAX))
    }
}

/// FNV-1a, because the hashes of `std` may change between versions of Rust.
pub(crate) fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nth(ordinal: u32) -> Attempt {
        Attempt::new(ordinal).unwrap()
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn attempts_are_counted_from_one_and_never_overflow() {
        assert_eq!(Attempt::new(0), None);
        assert_eq!(Attempt::FIRST.next().get(), 2);
        let last = Attempt::new(u32::MAX).unwrap();
        assert_eq!(last.next(), last);
    }

    #[test]
    fn ceiling_doubles_until_the_maximum() {
        let backoff = Backoff { base: secs(1), max: secs(60), jitter: Jitter::Full };
        for (attempt, expected) in
            [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (40, 60), (u32::MAX, 60)]
        {
            assert_eq!(backoff.ceiling(nth(attempt)), secs(expected), "attempt {attempt}");
        }
    }

    #[test]
    fn the_draw_of_a_request_and_an_attempt_never_changes() {
        // Running deployments rely on these values: a change here changes every wait in progress.
        let backoff = Backoff { base: secs(1), max: secs(12 * 60 * 60), jitter: Jitter::Full };
        let drawn = |attempt| {
            let draw = Draw::seeded("e4b46cbf-b738-xmpl-8880-a18cdf61200e", attempt);
            backoff.delay(nth(attempt), draw).as_millis()
        };
        assert_eq!([1, 2, 3, 10, 20].map(drawn), [1000, 1332, 3921, 340_448, 19_687_370]);
    }
}
