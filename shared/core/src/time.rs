//! Points in time, with arithmetic that can't overflow.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

/// A point in time. Always an argument: nothing in this crate reads a clock.
pub type Timestamp = DateTime<Utc>;

/// `from` plus `by`. Saturates.
pub fn later(from: Timestamp, by: Duration) -> Timestamp {
    TimeDelta::from_std(by)
        .ok()
        .and_then(|by| from.checked_add_signed(by))
        .unwrap_or(Timestamp::MAX_UTC)
}

/// `from` minus `by`. Saturates.
pub fn earlier(from: Timestamp, by: Duration) -> Timestamp {
    TimeDelta::from_std(by)
        .ok()
        .and_then(|by| from.checked_sub_signed(by))
        .unwrap_or(Timestamp::MIN_UTC)
}

/// Parses RFC 3339. A leap second is read as the second after it, because a difference to a leap second would be
/// a second short.
pub fn parse(text: &str) -> Option<Timestamp> {
    let at = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    let second = Timestamp::from_timestamp(at.timestamp(), 0)?;
    Some(later(second, Duration::from_nanos(at.timestamp_subsec_nanos().into())))
}

/// The time from milliseconds since 1970, in which Lambda gives the deadline of an invocation. Saturates.
pub fn at_millis(millis: u64) -> Timestamp {
    let at = i64::try_from(millis).ok().and_then(Timestamp::from_timestamp_millis);
    at.unwrap_or(Timestamp::MAX_UTC)
}

/// The time from `earlier` to `later`; zero if they are the other way round.
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    later.signed_duration_since(earlier).to_std().unwrap_or(Duration::ZERO)
}

/// The time in the format of Lambda's records: RFC 3339 with milliseconds.
pub fn rfc3339(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The time in RFC 3339, with as many digits as it has.
pub(crate) fn rfc3339_exact(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_more_than_time_holds_stops_at_its_end() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(later(now, Duration::MAX), Timestamp::MAX_UTC);
        assert_eq!(later(now, Duration::from_secs(1)).timestamp(), 1);
    }

    #[test]
    fn a_deadline_that_is_no_time_is_the_end_of_time() {
        assert_eq!(rfc3339(at_millis(1_769_947_240_568)), "2026-02-01T12:00:40.568Z");
        for beyond in [u64::MAX, u64::MAX / 2] {
            assert_eq!(at_millis(beyond), Timestamp::MAX_UTC);
        }
    }

    #[test]
    fn a_second_after_a_leap_second_is_a_second() {
        for (written, expected) in [
            ("2016-12-31T23:59:60.999Z", "2017-01-01T00:00:00.999Z"),
            ("2016-12-31T23:59:59.999Z", "2016-12-31T23:59:59.999Z"),
        ] {
            let at = parse(written).unwrap();
            assert_eq!(rfc3339(at), expected);
            assert_eq!(between(at, later(at, Duration::from_secs(1))), Duration::from_secs(1));
        }
        assert_eq!(parse("soon"), None);
    }

    #[test]
    fn a_difference_is_never_negative() {
        let now = Timestamp::UNIX_EPOCH;
        let then = later(now, Duration::from_millis(1500));
        assert_eq!(between(now, then), Duration::from_millis(1500));
        assert_eq!(between(then, now), Duration::ZERO);
    }
}
