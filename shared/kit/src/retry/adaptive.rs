//! How fast a client may send: the AWS SDKs' adaptive mode.
//!
//! Until the service throttles for the first time, calls go out as they come, and only their rate is measured.
//! Then the rate is cut to seven tenths of what was sent, and a bucket of tokens holds the calls to it. With every
//! success the rate rises along a cubic curve: fast at first, slowly near the rate that was throttled last, and
//! fast again beyond it, never over twice what is really sent. The constants are those of the SDKs.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The rate is never cut below this, in calls a second.
const RATE_MIN: f64 = 0.5;

/// How many calls may go out at once, at the least.
const BURST_MIN: f64 = 1.0;

/// What is left of the rate after a throttle.
const BETA: f64 = 0.7;

/// How steeply the rate rises again.
const SCALE: f64 = 0.4;

/// How much the latest half second counts in the measured rate.
const SMOOTH: f64 = 0.8;

/// The measured rate is renewed every half second.
const HALF_SECONDS: f64 = 2.0;

/// Holds a client's calls to the rate that its service bears.
///
/// It reads no clock: each method is given the time. Shared by reference or in an `Arc`.
///
/// ```
/// use std::time::{Duration, Instant};
/// use comeback::retry::Adaptive;
///
/// let adaptive = Adaptive::new();
/// let (start, most) = (Instant::now(), Duration::from_secs(30));
/// assert_eq!(adaptive.acquire(start, most), Duration::ZERO, "the service has not throttled");
/// adaptive.answered(start, true);
/// let wait = adaptive.acquire(start, most);
/// assert_eq!(wait, Duration::from_secs(2), "one call in two seconds: the least rate there is");
/// assert_eq!(adaptive.rate_max(), Some(0.5));
/// ```
#[derive(Debug, Default)]
pub struct Adaptive(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    start: Option<Instant>,
    /// What is told by several threads may come in another order; time never goes back.
    latest: f64,
    measured: Measured,
    limit: Option<Limit>,
}

/// The rate at which calls were answered. Times are in seconds since the first call.
#[derive(Debug, Default)]
struct Measured {
    rate: f64,
    half_second: f64,
    calls: f64,
}

/// What the calls are held to since the service has throttled.
#[derive(Debug)]
struct Limit {
    /// Calls a second.
    rate: f64,
    /// How many calls may go out at once; less than none where calls wait for their time.
    tokens: f64,
    /// When the tokens were counted.
    counted_at: f64,
    throttled_at: f64,
    /// The rate that was throttled last.
    throttled_rate: f64,
}

impl Adaptive {
    /// Without a limit until the service throttles.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a token, and tells how long it is until it is there: that long the call is to wait before it is sent.
    /// Where this would be longer than `most`, no token is taken, and `most` is told.
    ///
    /// Those who come at the same time are given different times, one after the other.
    pub fn acquire(&self, now: Instant, most: Duration) -> Duration {
        self.turn(now, most).come()
    }

    /// The same for a call that may be dropped while it waits.
    pub(super) fn turn(&self, now: Instant, most: Duration) -> Turn<'_> {
        let taken =
            self.at(now, |state, now| state.limit.as_mut().map(|limit| limit.take(now, most)));
        match taken {
            None => Turn { adaptive: self, wait: Duration::ZERO, holds_token: false },
            Some(None) => Turn { adaptive: self, wait: most, holds_token: false },
            Some(Some(wait)) => Turn { adaptive: self, wait, holds_token: true },
        }
    }

    /// Tells of an attempt that was answered, and whether the service throttled it.
    pub fn answered(&self, now: Instant, throttled: bool) {
        self.at(now, |state, now| {
            state.measured.count(now);
            let measured = state.measured.rate;
            if throttled {
                let limit = state.limit.get_or_insert(Limit::none_yet(measured, now));
                limit.throttled(measured, now);
            } else if let Some(limit) = &mut state.limit {
                limit.succeeded(measured, now);
            }
        });
    }

    /// How many calls a second are let through; `None` until the service has throttled.
    pub fn rate_max(&self) -> Option<f64> {
        self.lock().limit.as_ref().map(|limit| limit.rate)
    }

    /// Does it at this time, in seconds since the first call.
    fn at<T>(&self, now: Instant, act: impl FnOnce(&mut State, f64) -> T) -> T {
        let mut state = self.lock();
        let start = *state.start.get_or_insert(now);
        state.latest = state.latest.max(now.saturating_duration_since(start).as_secs_f64());
        let now = state.latest;
        act(&mut state, now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics, and every state is one to go on from.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a call, while it waits for it. Dropped before it has come, it gives its token back: else those that
/// come after would wait for calls that are never made.
pub(super) struct Turn<'a> {
    adaptive: &'a Adaptive,
    wait: Duration,
    holds_token: bool,
}

impl Turn<'_> {
    /// How long it is until it comes.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// It has come: its token is used.
    pub(super) fn come(mut self) -> Duration {
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
    /// The rate at which calls go out by themselves.
    fn none_yet(measured: f64, now: f64) -> Self {
        Self {
            rate: measured,
            tokens: 0.0,
            counted_at: now,
            throttled_at: now,
            throttled_rate: measured,
        }
    }

    /// Takes a token, and tells how long it is until it is there; takes none where that would be longer than
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
        // The curve starts from what the throttle left, and is back at the throttled rate after this time.
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

    /// A second's calls.
    fn burst(&self) -> f64 {
        self.rate.max(BURST_MIN)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant serves as the start")]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Throttled from the beginning: half a call a second is let through.
    fn throttled(start: Instant) -> Adaptive {
        let adaptive = Adaptive::new();
        adaptive.answered(start, true);
        adaptive
    }

    #[test]
    fn nothing_is_limited_until_the_service_throttles() {
        let (adaptive, start) = (Adaptive::new(), Instant::now());
        for n in 0..10_000 {
            let now = start + Duration::from_micros(n);
            assert_eq!(adaptive.acquire(now, LONG), Duration::ZERO);
            adaptive.answered(now, false);
        }
        assert_eq!(adaptive.rate_max(), None);
    }

    #[test]
    fn the_rate_follows_that_of_the_sdks() {
        // The table that the SDKs for Rust and Go share in their tests, from the first throttle on.
        let table = [
            (0.2, false, None),
            (0.4, false, None),
            (0.6, false, None),
            (0.8, false, None),
            (1.0, false, None),
            (1.2, false, None),
            (1.4, false, None),
            (1.6, false, None),
            (1.8, false, None),
            (2.0, true, Some(3.028_479_999_999_999_6)),
            (2.2, false, Some(3.486_639_173_470_26)),
            (2.4, false, Some(3.821_874_416_040_255)),
            (2.6, false, Some(4.053_385_727_709_987)),
            (2.8, false, Some(4.200_373_108_479_454)),
            (3.0, false, Some(4.282_036_558_348_658)),
            (3.2, true, Some(2.997_425_590_844_06)),
            (3.4, false, Some(3.452_226_394_386_346_3)),
        ];
        let (adaptive, start) = (Adaptive::new(), Instant::now());
        adaptive.acquire(start, LONG);
        for (at, throttled, expected) in table {
            adaptive.answered(start + secs(at), throttled);
            let difference = match (adaptive.rate_max(), expected) {
                (Some(rate), Some(expected)) => rate - expected,
                (rate, expected) => {
                    assert_eq!(rate, expected, "after {at} s");
                    0.0
                }
            };
            assert!(difference.abs() < 1e-6, "after {at} s: {difference} off");
        }
    }

    #[test]
    fn those_who_come_at_once_go_one_after_the_other() {
        let start = Instant::now();
        let adaptive = throttled(start);
        let waits: Vec<_> = (0..4).map(|_| adaptive.acquire(start, LONG).as_secs()).collect();
        assert_eq!(waits, [2, 4, 6, 8]);
        assert_eq!(adaptive.acquire(start + secs(9.0), LONG), secs(1.0), "the fifth");
    }

    #[test]
    fn who_can_not_wait_that_long_takes_no_token() {
        let start = Instant::now();
        let adaptive = throttled(start);
        for most in [Duration::ZERO, secs(1.0), secs(1.999)] {
            assert_eq!(adaptive.acquire(start, most), most);
        }
        assert_eq!(adaptive.acquire(start, secs(2.0)), secs(2.0), "nobody was before");
        assert_eq!(
            adaptive.acquire(start, LONG),
            secs(4.0),
            "the one before has waited just so long"
        );
    }

    #[test]
    fn a_pause_lets_no_more_than_a_second_of_calls_through_at_once() {
        let start = Instant::now();
        let adaptive = throttled(start);
        let after = start + secs(1000.0);
        assert_eq!(adaptive.acquire(after, LONG), Duration::ZERO);
        assert_eq!(adaptive.acquire(after, LONG), secs(2.0));
    }

    #[test]
    fn a_second_of_calls_may_go_out_at_once_however_many_they_are() {
        let (adaptive, start) = (Adaptive::new(), Instant::now());
        play(&adaptive, start, 30, 50);
        let rate = adaptive.rate_max().unwrap();
        assert!(rate > 10.0, "{rate}");
        let after = start + LONG;
        let at_once = (0..1000).filter(|_| adaptive.acquire(after, LONG).is_zero()).count();
        assert_eq!(at_once, rate.floor() as usize);
    }

    #[test]
    fn what_is_told_late_by_another_thread_does_not_turn_time_back() {
        let start = Instant::now();
        let adaptive = throttled(start + secs(5.0));
        adaptive.acquire(start + secs(10.0), LONG);
        let late = adaptive.acquire(start, LONG);
        assert_eq!(late, secs(2.0), "as if it were told at the latest time that is known");
    }

    #[test]
    fn threads_that_share_it_are_all_given_different_times() {
        let start = Instant::now();
        let adaptive = throttled(start);
        let mut waits: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let waits = (0..50).map(|_| adaptive.acquire(start, LONG).as_secs());
                        waits.collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        waits.sort_unstable();
        assert_eq!(waits, (1..=200).map(|nth| nth * 2).collect::<Vec<_>>());
    }

    /// A client that sends as fast as it may, for some seconds, to a service that bears so many calls a second.
    /// How many calls it bore, and how many it throttled.
    fn play(adaptive: &Adaptive, from: Instant, seconds: u32, bears: u32) -> (u32, u32) {
        let (mut now, mut bore, mut throttled) = (from, 0, 0);
        let end = from + Duration::from_secs(seconds.into());
        let (mut second, mut in_second) = (from, 0);
        while now < end {
            // No answer comes in less than five milliseconds: the most that this client sends is 200 a second.
            now += adaptive.acquire(now, LONG) + Duration::from_millis(5);
            if now - second >= Duration::from_secs(1) {
                (second, in_second) = (now, 0);
            }
            in_second += 1;
            let too_many = in_second > bears;
            adaptive.answered(now, too_many);
            if too_many { throttled += 1 } else { bore += 1 }
        }
        (bore, throttled)
    }

    #[test]
    fn a_client_comes_to_the_rate_that_its_service_bears() {
        for bears in [10, 50, 100] {
            let (adaptive, start) = (Adaptive::new(), Instant::now());
            play(&adaptive, start, 30, bears);
            let (bore, throttled) = play(&adaptive, start + secs(30.0), 120, bears);
            // Each throttle cuts the rate, and a second that is full throttles more than one call.
            assert!(bore * 5 > 120 * bears * 2, "{bears} a second: {bore} of {}", 120 * bears);
            assert!(throttled * 20 < bore, "{bears} a second: {throttled} beside {bore}");
        }
    }

    #[test]
    fn a_rate_that_was_cut_recovers_when_the_service_does() {
        let (adaptive, start) = (Adaptive::new(), Instant::now());
        play(&adaptive, start, 30, 5);
        let cut = adaptive.rate_max().unwrap();
        assert!(cut < 20.0, "{cut}");
        play(&adaptive, start + secs(30.0), 60, u32::MAX);
        let recovered = adaptive.rate_max().unwrap();
        assert!(recovered > 150.0, "{recovered}");
    }

    proptest! {
        #[test]
        fn at_the_least_rate_calls_go_out_two_seconds_apart(
            gaps in prop::collection::vec(0u64..10_000, 1..100),
        ) {
            let mut now = Instant::now();
            let adaptive = throttled(now);
            let mut sent = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                sent.push(now + adaptive.acquire(now, Duration::MAX));
            }
            for pair in sent.windows(2) {
                // To the rounding of a nanosecond.
                prop_assert!(pair[1] - pair[0] >= Duration::from_micros(1_999_999));
            }
        }

        #[test]
        fn no_history_lets_the_rate_fall_below_the_least_nor_beyond_twice_what_is_answered(
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
