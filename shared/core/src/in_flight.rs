//! Chooses how a message waits: in flight or as a delay.
//!
//! Waits are kept in flight at first. As places become scarce, the longest waits get them. A handler estimates the
//! number of messages in flight: SQS's last count, plus those that all handlers have put in flight since then. It
//! assumes that the others have put in as many as itself. `docs/design/waits.md` compares both kinds of waits.

use std::{num::NonZeroU32, time::Duration};

use crate::{Timestamp, backoff::Draw, message::Message, time::between};

/// The longest delay that SQS accepts.
pub const DELAY_MAX: Duration = Duration::from_mins(15);

/// The shortest hop of a longer wait.
const HOP_MIN: Duration = Duration::from_mins(12);

/// SQS's quota of messages in flight in one queue, unless AWS raised it.
pub const QUOTA: u32 = 120_000;

/// The default of `IN_FLIGHT_MAX`. The rest of [`QUOTA`] is for messages that are being handled, and for those that a
/// late count doesn't show yet.
pub const IN_FLIGHT_MAX: NonZeroU32 = NonZeroU32::new(100_000).unwrap();

/// How late SQS's count may be.
const COUNT_LAG: Duration = Duration::from_mins(1);

/// The minimum time between two requests of a handler for the count.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// How long a count is remembered, and how many handlers it implies.
const COUNT_RETENTION: Duration = Duration::from_mins(3);

/// After this many waits in about a minute, a handler asks for the count even if its batches are small.
const WAITS_UNCOUNTED_MAX: u64 = 10;

/// The minimum number of handlers to assume. That many handle a few hundred failures a second.
const PEERS_MIN: u32 = 25;

/// The maximum: Lambda's default concurrency of an account, which is also about as many batches as a mapping runs.
const PEERS_MAX: u32 = 1_000;

/// The messages that a handler puts in flight are counted in parts of this length.
const PART: Duration = Duration::from_secs(15);

/// This many parts are as long as [`COUNT_LAG`]. Twice as many are kept, because counts may be late.
const PARTS: usize = 4;
const PARTS_REMEMBERED: usize = 2 * PARTS;

/// If the first receive is this long after the send, messages arrive faster than they are handled.
const BACKLOG_AGE: Duration = Duration::from_secs(5);

/// Waits of at least this length are kept in flight until the limit is reached.
const LONG_WAIT: Duration = Duration::from_hours(12);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Signs {
    /// The batch has at least as many messages as one receive returns.
    pub full: bool,
    /// A message had to wait for its first receive.
    pub backlog: bool,
}

/// Whether a message had to wait for its first receive. If it was sent again, that wait was intended and doesn't count.
pub fn is_backlog(message: &Message<'_>, now: Timestamp) -> bool {
    let waited = message.sent_at.is_some_and(|sent_at| between(sent_at, now) > BACKLOG_AGE);
    waited && message.receive_count == 1 && !message.was_sent_again()
}

/// One handler's estimate of how many messages of one queue are in flight.
#[derive(Clone, Debug, Default)]
pub struct Gauge {
    signs: Signs,
    /// Whether places were scarce at the last estimate.
    is_crowded: bool,
    asked_at: Option<Timestamp>,
    counted: Option<(Timestamp, u64)>,
    /// The number of handlers that the counts imply. The estimate uses at least [`PEERS_MIN`].
    peers: u32,
    /// The messages that this handler put in flight in the current part and earlier ones, and when that part began.
    put: [Put; PARTS_REMEMBERED + 1],
    part_began_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Put {
    messages: u64,
    /// The sum of their times in flight, each counted up to [`COUNT_LAG`].
    stay: Duration,
    /// The same, each counted up to [`PART`].
    stay_in_part: Duration,
}

impl Gauge {
    /// Notes the signs of load in a batch.
    pub fn begin(&mut self, signs: Signs) {
        self.signs = signs;
    }

    /// Whether to ask for the count now. If so, the next request waits for `COUNT_INTERVAL`, even if this one fails.
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

    /// Notes the count that SQS returned.
    pub fn count(&mut self, in_flight: u64, now: Timestamp) {
        self.advance(now);
        let before = self.counted.replace((now, in_flight));
        self.peers = match before.filter(|(at, _)| between(*at, now) <= COUNT_RETENTION) {
            Some((at, before)) => {
                let grown = in_flight.saturating_sub(before);
                self.peers.max(peers(grown, between(at, now), &self.put))
            }
            None => 0,
        };
    }

    /// Whether to keep a wait as a delay. If not, its message is added to those in flight.
    pub fn delays(&mut self, wait: Duration, max: NonZeroU32, now: Timestamp) -> bool {
        let longest = longest_delayed(self.estimate(now), max, self.signs);
        self.is_crowded = longest.is_some();
        let delays = longest.is_some_and(|longest| wait <= longest);
        if !delays {
            self.keep(wait, now);
        }
        delays
    }

    /// Adds a message to those in flight that can't wait as a delay.
    pub fn keep(&mut self, wait: Duration, now: Timestamp) {
        self.advance(now);
        self.put[0].messages += 1;
        self.put[0].stay += wait.min(COUNT_LAG);
        self.put[0].stay_in_part += wait.min(PART);
    }

    fn estimate(&mut self, now: Timestamp) -> u64 {
        self.advance(now);
        let recent = |(at, _): &(Timestamp, u64)| between(*at, now) <= COUNT_RETENTION;
        let counted = self.counted.filter(recent);
        let (counted, peers) = counted.map_or((0, 0), |(_, count)| (count, self.peers));
        // A message that stays for half a minute counts half, because the count is a minute late.
        let stays = self.put.iter().take(PARTS + 1).map(|put| put.stay);
        let stay = stays.fold(Duration::ZERO, Duration::saturating_add);
        let peers = peers.max(PEERS_MIN);
        let uncounted = stay.saturating_mul(peers).as_millis().div_ceil(COUNT_LAG.as_millis());
        counted.saturating_add(u64::try_from(uncounted).unwrap_or(u64::MAX))
    }

    /// How many messages this handler has put in flight so recently that a count may not show them.
    fn uncounted(&mut self, now: Timestamp) -> u64 {
        self.advance(now);
        self.put.iter().take(PARTS + 1).map(|put| put.messages).sum()
    }

    /// Begins a new part if the current one is over.
    fn advance(&mut self, now: Timestamp) {
        let began_at = *self.part_began_at.get_or_insert(now);
        let parts = between(began_at, now).as_millis() / PART.as_millis();
        for _ in 0..parts.min(self.put.len() as u128) {
            self.put.rotate_right(1);
            self.put[0] = Put::default();
        }
        if parts > 0 {
            self.part_began_at = Some(now);
        }
    }
}

/// The number of concurrent handlers that explains the growth of the messages in flight in this time, if each handler
/// has put in as many as this one.
///
/// It isn't known when the counted messages were put in flight. So this takes the largest part that this handler
/// remembers: a smaller one could overestimate the number of handlers. A message that stays for a third of a part
/// counts a third: most of the short waits of the other handlers are over, too, when SQS counts.
fn peers(grown: u64, time: Duration, put: &[Put]) -> u32 {
    let own = put.iter().map(|put| put.stay_in_part).max().unwrap_or_default();
    let grown_in_part = u128::from(grown) * PART.as_millis() / time.max(PART).as_millis();
    let peers = grown_in_part * PART.as_millis() / own.max(PART).as_millis();
    u32::try_from(peers).unwrap_or(u32::MAX).min(PEERS_MAX)
}

/// The longest wait that is kept as a delay: 15 minutes once half of the places are taken, more with every further
/// place, and any wait at the limit. Below half there is none, except 15 minutes during a backlog.
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

/// The `DelaySeconds` that bring a message back at `until`, or earlier for a further hop. Hops take 12 to 15 minutes,
/// drawn by the request id: otherwise events that failed together would come back in waves.
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

/// Rounds up to whole seconds, the unit of SQS, so that no attempt is made too early.
pub(crate) fn whole_seconds(duration: Duration) -> u32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::later;

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

    #[test]
    fn how_many_handlers_the_counts_imply_is_forgotten_three_minutes_after_the_last() {
        let mut gauge = Gauge::default();
        gauge.count(0, NOW);
        gauge.count(3_000, after(15));
        gauge.keep(HOUR, after(195));
        assert_eq!(gauge.estimate(after(195)), 3_000 + u64::from(PEERS_MAX));
        assert_eq!(gauge.estimate(after(196)), u64::from(PEERS_MIN));
    }

    #[test]
    fn short_waits_of_one_handler_are_not_taken_for_those_of_many() {
        for wait in [1, 5, 15, 60, 3600] {
            let mut gauge = Gauge::default();
            gauge.begin(FULL);
            for second in 0..120 {
                if gauge.asks(after(second)) {
                    gauge.count(20 * second.min(wait), after(second));
                }
                for _ in 0..20 {
                    gauge.keep(SECOND * u32::try_from(wait).unwrap(), after(second));
                }
            }
            assert_eq!(gauge.peers, 1, "{wait} s");
        }
    }

    /// The most messages in flight while `rate` messages a second begin a wait. All handlers are new, and see counts
    /// that are a minute late.
    fn most_in_flight(rate: u64, handlers: usize, wait: Duration) -> u64 {
        let mut gauges = vec![Gauge::default(); handlers];
        let mut put = Vec::new();
        let mut history = Vec::new();
        for second in 0..600 {
            let counted = history.iter().rev().nth(59).copied().unwrap_or_default();
            let now = after(second);
            let mut put_now = 0;
            for gauge in &mut gauges {
                let share = rate / u64::try_from(handlers).unwrap();
                gauge.begin(Signs { full: share >= 10, backlog: false });
                if gauge.asks(now) {
                    gauge.count(counted, now);
                }
                let delays = (0..share).map(|_| gauge.delays(wait, IN_FLIGHT_MAX, now));
                put_now += u64::try_from(delays.filter(|delays| !delays).count()).unwrap();
            }
            put.push(put_now);
            let seconds = usize::try_from(wait.as_secs()).unwrap();
            history.push(put.iter().rev().take(seconds).sum());
        }
        history.into_iter().max().unwrap()
    }

    #[test]
    fn a_queue_never_fills_up_though_its_count_is_a_minute_late() {
        let minutes = Duration::from_mins;
        for (rate, handlers, wait) in [
            (10, 5, HOUR),
            (100, 5, HOUR),
            (200, 5, HOUR),
            (1000, 10, HOUR),
            (5000, 25, HOUR),
            (1000, 100, HOUR),
            (1000, 100, minutes(3)),
            (1000, 25, minutes(3)),
        ] {
            let most = most_in_flight(rate, handlers, wait);
            assert!(most <= QUOTA.into(), "{rate} a second: {most}");
            assert!(most > u64::from(QUOTA).min(rate * 300) / 3, "{rate} a second: {most}");
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
        fn counts_show_how_many_handlers_there_are(
            handlers in 0_u64..2_000, share in 1_u64..10, lag in 0_u64..=60
        ) {
            let mut gauge = Gauge::default();
            gauge.begin(FULL);
            for second in 0..120 {
                let now = after(second);
                if gauge.asks(now) {
                    gauge.count(handlers * share * second.saturating_sub(lag), now);
                }
                let put = (0..share).filter(|_| !gauge.delays(HOUR, NonZeroU32::MAX, now));
                prop_assert_eq!(put.count() as u64, share, "there is always room");
            }
            prop_assert_eq!(u64::from(gauge.peers), handlers.min(PEERS_MAX.into()));
            gauge.count(0, after(300));
            prop_assert_eq!(gauge.peers, 0, "that was long ago");
        }

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
