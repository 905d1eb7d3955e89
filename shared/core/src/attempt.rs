//! The ordinal of a re-invocation.

use std::{fmt, num::NonZeroU32};

use serde::Serialize;

/// Which of our re-invocations this is, counted from 1; Lambda's own invocation is not counted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Attempt(NonZeroU32);

impl Attempt {
    /// The first re-invocation of an event.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The attempt with this ordinal; `None` for 0.
    pub fn new(ordinal: u32) -> Option<Self> {
        NonZeroU32::new(ordinal).map(Self)
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The ordinal, counted from 1.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_from_one_and_never_overflow() {
        assert_eq!(Attempt::new(0), None);
        assert_eq!(Attempt::FIRST.next().get(), 2);
        let last = Attempt::new(u32::MAX).unwrap();
        assert_eq!(last.next(), last);
    }
}
