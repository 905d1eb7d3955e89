//! Limits a client's rate of calls, with the algorithm and the constants of the AWS SDKs' adaptive mode.
//!
//! Until the service throttles for the first time, no call waits, and the rate is only measured. Then the limit is
//! set to 70 % of the measured rate, and a token bucket enforces it. Every success raises the limit along a cubic
//! curve: fast at first, slowly near the rate at which the service last throttled, and fast again beyond it. The
//! limit never exceeds twice the measured rate.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The lowest limit, in calls a second.
const RATE_MIN: f64 = 0.5;

/// The smallest capacity of the bucket, in calls.
const BURST_MIN: f64 = 1.0;

/// The factor by which throttling reduces the rate.
const BETA: f64 = 0.7;

/// The steepness of the cubic curve.
const SCALE: f64 = 0.4;

/// The weight of the latest half second in the measured rate.
const SMOOTH: f64 = 0.8;

/// The number of updates of the measured rate in a second.
const HALF_SECONDS: f64 = 2.0;

/// Limits a client's calls to the rate that its service can handle.
///
/// It does not read the clock; each method takes the current time. Share it by reference or in an `Arc`.
#[derive(Debug, Default)]
pub struct Adaptive(Mutex<Rate>);

#[derive(Debug, Default)]
struct Rate {
    start: Option<Instant>,
    /// The latest reported time, which never decreases although threads may report out of order.
    latest: f64,
    measured: Measured,
    limit: Option<Limit>,
}

/// The measured rate of responses. Times are in seconds since the first call.
#[derive(Debug, Default)]
struct Measured {
    rate: f64,
    half_second: f64,
    calls: f64,
}

/// The current limit. It exists once the service has throttled.
#[derive(Debug)]
struct Limit {
    /// Calls a second.
    rate: f64,
    /// The number of calls that may be sent at once; negative while calls wait.
    tokens: f64,
    /// When `tokens` was last updated.
    counted_at: f64,
    throttled_at: f64,
    /// The rate at which the service last throttled.
    throttled_rate: f64,
}

impl Adaptive {
    /// Creates a limiter that has no limit until the service throttles.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a token, and returns how long to wait before the call is sent. If that is longer than `most`, takes
    /// no token and returns `most`.
    ///
    /// Calls that arrive at the same time are spaced one after the other.
    pub fn acquire(&self, now: Instant, most: Duration) -> Duration {
        self.turn(now, most).use_token()
    }

    /// Like [`Self::acquire`], for a call that may be dropped while it waits.
    pub(super) fn turn(&self, now: Instant, most: Duration) -> Turn<'_> {
        let taken =
            self.at(now, |rate, now| rate.limit.as_mut().map(|limit| limit.take(now, most)));
        let (wait, holds_token) = match taken {
            None => (Duration::ZERO, false),
            Some(None) => (most, false),
            Some(Some(wait)) => (wait, true),
        };
        Turn { adaptive: self, wait, holds_token }
    }

    /// Records the response to an attempt, and whether the attempt was throttled.
    pub fn answered(&self, now: Instant, throttled: bool) {
        self.at(now, |rate, now| {
            rate.measured.count(now);
            let measured = rate.measured.rate;
            if throttled {
                let limit = rate.limit.get_or_insert(Limit::new(measured, now));
                limit.throttled(measured, now);
            } else if let Some(limit) = &mut rate.limit {
                limit.succeeded(measured, now);
            }
        });
    }

    /// The current limit in calls a second, or `None` until the service throttles.
    pub fn rate_max(&self) -> Option<f64> {
        self.lock().limit.as_ref().map(|limit| limit.rate)
    }

    /// Calls `act` with the state and the time, in seconds since the first call.
    fn at<T>(&self, now: Instant, act: impl FnOnce(&mut Rate, f64) -> T) -> T {
        let mut rate = self.lock();
        let start = *rate.start.get_or_insert(now);
        rate.latest = rate.latest.max(now.saturating_duration_since(start).as_secs_f64());
        let now = rate.latest;
        act(&mut rate, now)
    }

    fn lock(&self) -> MutexGuard<'_, Rate> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a waiting call. If it is dropped early, it returns its token, so that later calls do not wait for
/// a call that is never made.
pub(super) struct Turn<'a> {
    adaptive: &'a Adaptive,
    pub(super) wait: Duration,
    holds_token: bool,
}

impl Turn<'_> {
    /// Keeps the token, and returns how long to wait for it.
    pub(super) fn use_token(mut self) -> Duration {
        self.holds_token = false;
        self.wait
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.holds_token
            && let Some(limit) = &mut self.adaptive.lock().limit
        {
            limit.tokens = (limit.tokens + 1.0).min(limit.burst());
        }
    }
}

impl Measured {
    fn count(&mut self, now: f64) {
        self.calls += 1.0;
        let half_second = (now * HALF_SECONDS).floor() / HALF_SECONDS;
        if half_second > self.half_second {
            let latest = self.calls / (half_second - self.half_second);
            self.rate = latest * SMOOTH + self.rate * (1.0 - SMOOTH);
            *self = Self { rate: self.rate, half_second, calls: 0.0 };
        }
    }
}

impl Limit {
    /// The limit when the service first throttles, before it is reduced.
    fn new(measured: f64, now: f64) -> Self {
        Self {
            rate: measured,
            tokens: 0.0,
            counted_at: now,
            throttled_at: now,
            throttled_rate: measured,
        }
    }

    /// Takes a token, and returns how long to wait for it. Takes none and returns `None` if that is longer than
    /// `most`.
    fn take(&mut self, now: f64, most: Duration) -> Option<Duration> {
        self.count_tokens(now);
        let missing = (1.0 - self.tokens).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / self.rate).unwrap_or(Duration::MAX);
        if wait > most {
            return None;
        }
        self.tokens -= 1.0;
        Some(wait)
    }

    fn throttled(&mut self, measured: f64, now: f64) {
        self.throttled_rate = measured.min(self.rate);
        self.throttled_at = now;
        self.change_rate(self.throttled_rate * BETA, measured, now);
    }

    fn succeeded(&mut self, measured: f64, now: f64) {
        // The curve starts at the reduced rate, and reaches the throttled rate after this time.
        let flat = (self.throttled_rate * (1.0 - BETA) / SCALE).cbrt();
        let beyond = now - self.throttled_at - flat;
        self.change_rate(SCALE * beyond.powi(3) + self.throttled_rate, measured, now);
    }

    fn change_rate(&mut self, rate: f64, measured: f64, now: f64) {
        self.count_tokens(now);
        self.rate = rate.min(2.0 * measured).max(RATE_MIN);
        self.tokens = self.tokens.min(self.burst());
    }

    fn count_tokens(&mut self, now: f64) {
        let new = (now - self.counted_at) * self.rate;
        self.tokens = (self.tokens + new).min(self.burst());
        self.counted_at = now;
    }

    /// The capacity of the bucket: the calls of one second.
    fn burst(&self) -> f64 {
        self.rate.max(BURST_MIN)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant serves as the start")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// A limiter that was throttled at the start, so that half a call a second is allowed.
    fn throttled(start: Instant) -> Adaptive {
        let adaptive = Adaptive::new();
        adaptive.answered(start, true);
        adaptive
    }

    #[test]
    fn the_rate_follows_that_of_the_sdks() {
        // From the test table of the SDKs for Rust and Go, starting with the first throttled call.
        let table = [
            (2.0, true, 3.028_479_999_999_999_6),
            (2.2, false, 3.486_639_173_470_26),
            (2.4, false, 3.821_874_416_040_255),
            (2.6, false, 4.053_385_727_709_987),
            (2.8, false, 4.200_373_108_479_454),
            (3.0, false, 4.282_036_558_348_658),
            (3.2, true, 2.997_425_590_844_06),
            (3.4, false, 3.452_226_394_386_346_3),
        ];
        let (adaptive, start) = (Adaptive::new(), Instant::now());
        for at in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8] {
            assert_eq!(adaptive.acquire(start + secs(at), LONG), Duration::ZERO);
            if at > 0.0 {
                adaptive.answered(start + secs(at), false);
            }
            assert_eq!(adaptive.rate_max(), None, "not throttled yet");
        }
        for (at, throttled, expected) in table {
            adaptive.answered(start + secs(at), throttled);
            let difference: f64 = adaptive.rate_max().unwrap() - expected;
            assert!(difference.abs() < 1e-6, "after {at} s: {difference} off");
        }
        let after = start + LONG;
        let at_once = (0..9).filter(|_| adaptive.acquire(after, LONG).is_zero()).count();
        assert_eq!(at_once, 3, "the calls of one second may be sent at once");
    }

    #[test]
    fn calls_take_turns_at_the_lowest_rate() {
        let start = Instant::now();
        let adaptive = throttled(start);
        for (at, most, expected, why) in [
            (0.0, secs(1.999), 1.999, "a call that cannot wait takes no token"),
            (0.0, secs(2.0), 2.0, "and does not delay other calls"),
            (0.0, LONG, 4.0, "simultaneous calls are spaced"),
            (0.0, LONG, 6.0, "the third"),
            (7.0, LONG, 1.0, "the fourth may be sent at 8 s"),
            (0.0, LONG, 3.0, "a thread that reports late does not turn time back"),
            (1000.0, LONG, 0.0, "after a pause, one call does not wait"),
            (1000.0, LONG, 2.0, "but not two"),
        ] {
            let wait = adaptive.acquire(start + secs(at), most);
            assert_eq!(wait, secs(expected), "{why}");
        }
    }

    proptest! {
        #[test]
        fn the_rate_stays_between_the_lowest_and_twice_the_measured_rate(
            history in prop::collection::vec((0u64..3_000, any::<bool>()), 1..200),
        ) {
            let (adaptive, mut now) = (Adaptive::new(), Instant::now());
            for (gap, throttled) in history {
                now += Duration::from_millis(gap);
                let before = adaptive.rate_max();
                adaptive.answered(now, throttled);
                let measured = adaptive.lock().measured.rate;
                if let Some(rate) = adaptive.rate_max() {
                    prop_assert!(rate >= RATE_MIN);
                    prop_assert!(rate <= (2.0 * measured).max(RATE_MIN));
                    if throttled {
                        prop_assert!(rate <= before.unwrap_or(f64::MAX).max(RATE_MIN));
                    }
                }
                prop_assert!(adaptive.acquire(now, LONG) <= LONG);
            }
        }
    }
}
