//! How fast a client may send: the AWS SDKs' adaptive mode.
//!
//! Until the service throttles for the first time, calls go out as they come, and only their rate is
//! measured. Then the rate is cut to seven tenths of what was sent, and a bucket of tokens holds the calls to it.
//! With every success the rate rises along a cubic curve: fast at first, slowly near the rate that was
//! throttled last, and fast again beyond it, never over twice what is really sent. The constants are those
//! of the SDKs.

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

    /// Takes a token, and tells how long it is until it is there: that long the call is to wait before it is
    /// sent. Where this would be longer than `most`, no token is taken, and `most` is told.
    ///
    /// Those who come at the same time are given different times, one after the other.
    pub fn acquire(&self, now: Instant, most: Duration) -> Duration {
        self.at(now, |state, now| {
            state.limit.as_mut().map_or(Duration::ZERO, |limit| limit.acquire(now, most))
        })
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

    fn acquire(&mut self, now: f64, most: Duration) -> Duration {
        self.count_tokens(now);
        let missing = (1.0 - self.tokens).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / self.rate).unwrap_or(Duration::MAX);
        if wait > most {
            return most;
        }
        self.tokens -= 1.0;
        wait
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
