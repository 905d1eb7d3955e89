//! How a wait is kept: in flight or as a delay.
//!
//! A message that waits by its visibility timeout is in flight. Once about 120,000 messages of a queue are in
//! flight, SQS delivers nothing more from it and reports no error. A delayed message is not in flight, and there may
//! be any number of them. But a delay ends after 15 minutes, so a long wait as delays is received and sent again and
//! again. So waits are kept in flight while there are few, and as places become scarce, the longest waits get them.
//!
//! SQS counts the messages in flight up to a minute late, and asking costs a call. So each handler estimates the
//! number: the last count, and what the count may not show yet, which is what all handlers have put in flight since
//! then, if the others did as much as this one. If the estimate is too high, waits become delays too early, which
//! does no harm.

use std::{num::NonZeroU32, time::Duration};

use crate::{
    Timestamp,
    backoff::Draw,
    record::Message,
    time::{between, later},
};

/// SQS refuses a longer delay.
pub const DELAY_MAX: Duration = Duration::from_mins(15);

/// The shortest hop of a longer wait.
const HOP_MIN: Duration = Duration::from_mins(12);

/// How many messages of a queue SQS has in flight at most, unless AWS raised the quota.
pub const QUOTA: u32 = 120_000;

/// The default of `IN_FLIGHT_MAX`. The rest of [`QUOTA`] is for messages that are being handled, and for what a
/// late count doesn't show yet.
pub const IN_FLIGHT_MAX: NonZeroU32 = NonZeroU32::new(100_000).unwrap();

/// How late SQS's count may be.
const COUNT_LAG: Duration = Duration::from_mins(1);

/// How long after a count a handler asks again at the earliest.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// How long a count is remembered.
const COUNT_RETENTION: Duration = Duration::from_mins(3);

/// After this many waits in about a minute, a handler asks for the count even if its batches are small.
const WAITS_UNCOUNTED_MAX: u64 = 10;

/// How many handlers are assumed to do the same. As many handle a few thousand failures a second.
const PEERS: u32 = 25;

/// What a handler puts in flight is added up in so many parts of [`COUNT_LAG`].
const PARTS: usize = 4;

/// A first receive this long after the send shows that more arrives than is handled.
const BACKLOG_AGE: Duration = Duration::from_secs(5);

/// Waits at least this long are kept in flight up to the limit itself.
const LONG_WAIT: Duration = Duration::from_hours(12);

/// What a batch shows of its queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Signs {
    /// The batch has as many messages as one receive gives.
    pub full: bool,
    /// A message had to wait for its first receive.
    pub backlog: bool,
}

/// Whether a message had to wait for its first receive. One that was sent again was meant to.
pub fn is_backlog(message: &Message<'_>, now: Timestamp) -> bool {
    let waited = message.sent_at.is_some_and(|sent_at| between(sent_at, now) > BACKLOG_AGE);
    waited && message.receive_count == 1 && !message.was_sent_again()
}

/// One handler's estimate of how many messages of one queue are in flight.
#[derive(Clone, Debug, Default)]
pub struct Gauge {
    /// What the last batch showed.
    signs: Signs,
    /// Whether places were scarce when this handler last looked.
    is_crowded: bool,
    asked_at: Option<Timestamp>,
    counted: Option<(Timestamp, u64)>,
    /// What this handler has put in flight in the last parts of a minute, the latest first, and when that began.
    put: [Put; PARTS + 1],
    part_began_at: Option<Timestamp>,
}

/// Messages that were put in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Put {
    messages: u64,
    /// For how long they stay there together, each counted up to [`COUNT_LAG`].
    stay: Duration,
}

impl Gauge {
    /// Notes what a batch shows.
    pub fn begin(&mut self, signs: Signs) {
        self.signs = signs;
    }

    /// Whether to ask for the count now. If so, the question counts as asked, however it is answered.
    pub fn asks(&mut self, now: Timestamp) -> bool {
        let Signs { full, backlog } = self.signs;
        let many = self.uncounted(now) >= WAITS_UNCOUNTED_MAX;
        let reason = full || backlog || many || self.is_crowded;
        let recently =
            self.asked_at.is_some_and(|asked_at| between(asked_at, now) < COUNT_INTERVAL);
        let asks = reason && !recently;
        if asks {
            self.asked_at = Some(now);
        }
        asks
    }

    /// Notes SQS's answer.
    pub fn count(&mut self, in_flight: u64, now: Timestamp) {
        self.counted = Some((now, in_flight));
    }

    /// Whether a wait is to be kept as a delay. If not, its message counts as one more in flight.
    pub fn delays(&mut self, wait: Duration, max: NonZeroU32, now: Timestamp) -> bool {
        let longest = longest_delayed(self.estimate(now), max, self.signs);
        self.is_crowded = longest.is_some();
        let delays = longest.is_some_and(|longest| wait <= longest);
        if !delays {
            self.put[0].messages += 1;
            self.put[0].stay += wait.min(COUNT_LAG);
        }
        delays
    }

    /// How many messages are in flight, as far as anyone can tell.
    fn estimate(&mut self, now: Timestamp) -> u64 {
        self.turn(now);
        let recent = |(at, _): &(Timestamp, u64)| between(*at, now) <= COUNT_RETENTION;
        let counted = self.counted.filter(recent).map_or(0, |(_, count)| count);
        // A message that stays for half a minute is in flight half of the time that the count is late.
        let stay = self.put.iter().fold(Duration::ZERO, |stay, put| stay.saturating_add(put.stay));
        let uncounted = stay.saturating_mul(PEERS).as_millis().div_ceil(COUNT_LAG.as_millis());
        counted.saturating_add(u64::try_from(uncounted).unwrap_or(u64::MAX))
    }

    /// How many messages this handler has put in flight since a count surely shows them.
    fn uncounted(&mut self, now: Timestamp) -> u64 {
        self.turn(now);
        self.put.iter().map(|put| put.messages).sum()
    }

    /// Begins a new part if the current one is over.
    fn turn(&mut self, now: Timestamp) {
        let part = COUNT_LAG / PARTS as u32;
        let began_at = *self.part_began_at.get_or_insert(now);
        let parts = between(began_at, now).as_millis() / part.as_millis();
        for _ in 0..parts.min(self.put.len() as u128) {
            self.put.rotate_right(1);
            self.put[0] = Put::default();
        }
        if parts > 0 {
            self.part_began_at = Some(now);
        }
    }
}

/// The longest wait that is kept as a delay: none while less than half of the places are taken, from there on 15
/// minutes, and more with every further place. At the limit all waits are.
fn longest_delayed(in_flight: u64, max: NonZeroU32, signs: Signs) -> Option<Duration> {
    let half = f64::from(max.get()) / 2.0;
    // Counts are far below the 2^53 up to which this is exact.
    #[allow(clippy::cast_precision_loss, reason = "see above")]
    let beyond_half = (in_flight as f64 - half) / half;
    if beyond_half >= 1.0 {
        Some(Duration::MAX)
    } else if beyond_half >= 0.0 {
        let ratio = LONG_WAIT.as_secs_f64() / DELAY_MAX.as_secs_f64();
        Some(DELAY_MAX.mul_f64(ratio.powf(beyond_half)))
    } else {
        signs.backlog.then_some(DELAY_MAX)
    }
}

/// When an event that may not be retried now is looked at again. Events that are held back together don't come
/// back together.
pub fn held_back_until(request_id: &str, now: Timestamp) -> Timestamp {
    let minute = u32::try_from(now.timestamp() / 60).unwrap_or_default();
    later(now, Draw::seeded(request_id, minute).between(HOP_MIN, DELAY_MAX))
}

/// The `DelaySeconds` that bring a message back at `until`, or on the way there. Longer waits take hops of 12 to
/// 15 minutes: events that failed together would otherwise come back in waves.
pub fn delay_seconds(request_id: &str, until: Timestamp, now: Timestamp) -> u32 {
    let rest = between(now, until);
    let delay = if rest <= DELAY_MAX {
        rest
    } else {
        let minutes_left = u32::try_from(rest.as_secs() / 60).unwrap_or(u32::MAX);
        Draw::seeded(request_id, minutes_left).between(HOP_MIN, DELAY_MAX)
    };
    whole_seconds(delay)
}

/// Rounded up, as SQS counts in seconds and no attempt is made too early.
pub(crate) fn whole_seconds(duration: Duration) -> u32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_hours(1);
    const FULL: Signs = Signs { full: true, backlog: false };

    fn after(seconds: u64) -> Timestamp {
        later(NOW, SECOND * u32::try_from(seconds).unwrap())
    }

    #[test]
    fn the_longer_a_wait_the_more_places_may_be_taken_for_it_to_stay_in_flight() {
        let calm = Signs::default();
        let backlog = Signs { backlog: true, ..calm };
        let table = [
            (0, calm, SECOND, false),
            (49_999, FULL, SECOND, false),
            (50_000, calm, SECOND, true),
            (50_000, calm, DELAY_MAX, true),
            (50_000, calm, DELAY_MAX + SECOND, false),
            (75_000, calm, HOUR, true),
            (75_000, calm, 2 * HOUR, false),
            (99_999, calm, 11 * HOUR, true),
            (99_999, calm, 12 * HOUR, false),
            (100_000, calm, 300 * HOUR, true),
            (0, backlog, SECOND, true),
            (0, backlog, DELAY_MAX, true),
            (0, backlog, HOUR, false),
        ];
        for (in_flight, signs, wait, delayed) in table {
            let mut gauge = Gauge::default();
            gauge.begin(signs);
            gauge.count(in_flight, NOW);
            assert_eq!(
                gauge.delays(wait, IN_FLIGHT_MAX, NOW),
                delayed,
                "{in_flight} {signs:?} {wait:?}"
            );
        }
    }

    #[test]
    fn a_lone_failure_asks_for_nothing_and_a_crowd_asks_every_quarter_of_a_minute() {
        let mut gauge = Gauge::default();
        for second in 0..3600 {
            gauge.begin(Signs::default());
            assert!(!gauge.asks(after(second)), "{second}");
            if second % 20 == 0 {
                gauge.delays(HOUR, IN_FLIGHT_MAX, after(second));
            }
        }
        let mut gauge = Gauge::default();
        gauge.begin(FULL);
        let asked: Vec<_> = (0..40).filter(|&second| gauge.asks(after(second))).collect();
        assert_eq!(asked, [0, 15, 30]);
        let mut gauge = Gauge::default();
        let asked = (0..11).filter(|_| {
            let asks = gauge.asks(NOW);
            gauge.delays(HOUR, IN_FLIGHT_MAX, NOW);
            asks
        });
        assert_eq!(asked.collect::<Vec<_>>(), [10], "many small batches are a crowd, too");
    }

    #[test]
    fn what_was_put_in_flight_long_ago_is_counted_by_now() {
        let mut gauge = Gauge::default();
        for _ in 0..1000 {
            gauge.delays(HOUR, IN_FLIGHT_MAX, NOW);
        }
        assert_eq!(gauge.estimate(after(59)), 25_000);
        assert_eq!(gauge.estimate(after(74)), 25_000, "the count may be a minute late");
        assert_eq!(gauge.estimate(after(136)), 0);
    }

    /// The most in flight while so many events a second begin waits that don't end, and so many handlers, all new,
    /// see counts that are a minute late.
    fn most_in_flight(rate: u64, handlers: usize) -> u64 {
        let mut gauges = vec![Gauge::default(); handlers];
        let mut history = vec![0_u64];
        for second in 0..600 {
            let counted = history[history.len().saturating_sub(60)];
            let mut in_flight = history[history.len() - 1];
            let now = after(second);
            for gauge in &mut gauges {
                let share = rate / u64::try_from(handlers).unwrap();
                gauge.begin(Signs { full: share >= 10, backlog: false });
                if gauge.asks(now) {
                    gauge.count(counted, now);
                }
                for _ in 0..share {
                    in_flight += u64::from(!gauge.delays(HOUR, IN_FLIGHT_MAX, now));
                }
            }
            history.push(in_flight);
        }
        history[history.len() - 1]
    }

    #[test]
    fn a_queue_never_fills_up_though_its_count_is_a_minute_late() {
        for (rate, handlers) in [(10, 5), (100, 5), (200, 5), (1000, 10), (5000, 25)] {
            let most = most_in_flight(rate, handlers);
            assert!(most <= QUOTA.into(), "{rate} a second: {most}");
            assert!(most <= rate * 600, "{rate} a second: {most}");
        }
    }

    #[test]
    fn hops_are_spread_over_the_last_fifth_of_what_sqs_allows() {
        let hop = |id: usize| delay_seconds(&format!("request {id}"), later(NOW, 12 * HOUR), NOW);
        let hops: Vec<u32> = (0..1000).map(hop).collect();
        let in_minute = |minute: u32| hops.iter().filter(|&&hop| hop / 60 == minute).count();
        for minute in 12..15 {
            assert!(in_minute(minute) > 250, "{minute}: {}", in_minute(minute));
        }
        assert!(hops.iter().all(|hop| (720..=900).contains(hop)));
    }

    proptest! {
        #[test]
        fn hops_never_pass_the_due_time_by_a_second_and_end(
            id in "[a-z]{1,9}", wait in 0_u64..14 * 86_400_000
        ) {
            let until = later(NOW, Duration::from_millis(wait));
            let (mut now, mut hops) = (NOW, 0);
            while now < until {
                let delay = Duration::from_secs(delay_seconds(&id, until, now).into());
                prop_assert!((SECOND..=DELAY_MAX).contains(&delay));
                now = later(now, delay);
                hops += 1;
            }
            prop_assert!(between(until, now) < SECOND);
            prop_assert!(hops <= 1 + wait / 720_000);
        }
    }
}
