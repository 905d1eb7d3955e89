//! What a person types: durations, times, rates, a filter that selects everything because a variable of a script is not
//! set, and a misspelt name.

use std::{ops::RangeInclusive, time::Duration};

use chrono::{Days, NaiveTime};
use comeback_core::{
    Timestamp,
    arn::QUEUE_PREFIX,
    time::{self, earlier, later},
};
use serde::Serialize;

/// Stands for a missing error type, reason or function.
pub const NONE: &str = "none";

/// Parses a value that must not be empty. An empty filter would match everything.
pub fn not_empty(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("expected a value, got none: is a variable not set?");
    }
    Ok(text.to_owned())
}

/// Parses a duration, also one of several parts as this program prints it: `1 h 30 m` or `1h30m`.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    parts(text).ok_or("expected a duration such as 90s, 15m, 1h30m, 24h or 7d")
}

fn parts(text: &str) -> Option<Duration> {
    let text: String = text.split_whitespace().collect();
    if let Some(one) = comeback_core::duration::parse(&text) {
        return Some(one);
    }
    let (mut sum, mut before) = (None::<Duration>, Duration::MAX);
    for part in text.split_inclusive(|c: char| c.is_ascii_alphabetic()) {
        let number = part.strip_suffix(|c: char| c.is_ascii_alphabetic())?;
        let unit = comeback_core::duration::parse(&format!("1{}", part.strip_prefix(number)?))?;
        // The largest unit is first, and none is there twice.
        if unit >= before {
            return None;
        }
        sum = Some(sum.unwrap_or_default().checked_add(comeback_core::duration::parse(part)?)?);
        before = unit;
    }
    sum
}

/// A point in time: absolute, a time of day, or a distance from now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum When {
    At(Timestamp),
    /// In UTC, as all times that this program prints.
    Clock(NaiveTime),
    Distance(Duration),
}

/// Parses a point in time.
pub fn when(text: &str) -> Result<When, &'static str> {
    let clock =
        || ["%H:%M", "%H:%M:%S"].iter().find_map(|it| NaiveTime::parse_from_str(text, it).ok());
    let distance = duration(text).ok().map(When::Distance);
    distance.or_else(|| clock().map(When::Clock)).or_else(|| time::parse(text).map(When::At)).ok_or(
        "expected a duration such as 90s, 15m or 24h, or a time in UTC such as 03:10 or 2026-05-01T12:00:00Z",
    )
}

impl When {
    /// The time, which is in the past if it is relative.
    pub fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Distance(distance) => earlier(now, distance),
            Self::Clock(clock) => {
                let today = today(clock, now);
                if today <= now {
                    today
                } else {
                    today.checked_sub_days(Days::new(1)).unwrap_or(now)
                }
            }
        }
    }

    /// The time, which is in the future if it is relative.
    pub fn after(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Distance(distance) => later(now, distance),
            Self::Clock(clock) => {
                let today = today(clock, now);
                if today > now {
                    today
                } else {
                    today.checked_add_days(Days::new(1)).unwrap_or(now)
                }
            }
        }
    }
}

fn today(clock: NaiveTime, now: Timestamp) -> Timestamp {
    now.date_naive().and_time(clock).and_utc()
}

/// How many events a second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Rate(f64);

impl Rate {
    /// From one event a day to a million a second.
    const ALL: RangeInclusive<f64> = 1.0 / 86_400.0..=1e6;

    pub fn new(per_second: f64) -> Option<Self> {
        Self::ALL.contains(&per_second).then_some(Self(per_second))
    }

    pub fn per_second(self) -> f64 {
        self.0
    }

    /// How long so many events take.
    pub fn time_of(self, events: usize) -> Duration {
        Duration::from_secs_f64(events as f64 / self.0)
    }
}

/// Parses a rate: a number of events, a second or for a unit of time.
pub fn rate(text: &str) -> Result<Rate, &'static str> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let unit = comeback_core::duration::parse(&format!("1{unit}")).filter(|_| unit.len() == 1);
    let number = number.trim().parse::<f64>().ok();
    let rate = number.zip(unit).and_then(|(number, unit)| Rate::new(number / unit.as_secs_f64()));
    rate.ok_or(
        "expected a number of events and a unit of time, such as 20, 0.5/s, 90/m or 1000000/d",
    )
}

/// The name that somebody probably meant, if one is like the word. A queue is also found without its prefix.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.strip_prefix(QUEUE_PREFIX).unwrap_or(name).to_lowercase();
    let word = plain(&word.replace('*', ""));
    let distance = |name: &'a str| (strsim::osa_distance(&word, &plain(name)), name);
    let (edits, name) = names.into_iter().map(distance).min()?;
    (edits * 2 <= word.len().max(name.len())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_refused() {
        assert_eq!(not_empty("a"), Ok("a".to_owned()));
        assert_eq!(not_empty(" "), Ok(" ".to_owned()));
        assert!(not_empty("").is_err());
    }

    #[test]
    fn a_duration_that_this_program_prints_can_be_typed() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("1h30m", 5_400), ("1 h 30 m", 5_400), ("2d1h1m1s", 176_461)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "h", "1h30", "30m1h", "1h1h", "1h-1m", "1w", "1.5h", "1h 30x"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_of_day_is_the_last_one_or_the_next_one() {
        let now = time::parse("2026-05-01T12:00:00Z").unwrap();
        for (text, before, after) in [
            ("15m", "2026-05-01T11:45:00Z", "2026-05-01T12:15:00Z"),
            ("03:10", "2026-05-01T03:10:00Z", "2026-05-02T03:10:00Z"),
            ("23:59:30", "2026-04-30T23:59:30Z", "2026-05-01T23:59:30Z"),
            ("12:00", "2026-05-01T12:00:00Z", "2026-05-02T12:00:00Z"),
            ("2026-04-01T00:00:00Z", "2026-04-01T00:00:00Z", "2026-04-01T00:00:00Z"),
        ] {
            let when = when(text).unwrap();
            let expected = [before, after].map(|text| time::parse(text).unwrap());
            assert_eq!([when.before(now), when.after(now)], expected, "{text}");
        }
        for text in ["", "24:00", "3:1:2:3", "yesterday", "2026-04-01", "-15m"] {
            assert!(when(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_is_a_number_for_a_unit_of_time() {
        for (text, expected) in
            [("10/s", 10.0), ("10", 10.0), ("90/m", 1.5), ("0.5/s", 0.5), ("864000/d", 10.0)]
        {
            assert_eq!(rate(text), Ok(Rate(expected)), "{text}");
        }
        for text in ["", "0/s", "-1/s", "10/w", "10/ms", "x/s", "inf/s", "nan/s", "10/2s", "2e6/s"]
        {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_nearest_name_is_the_one_that_was_meant() {
        let names = ["billing", "orders", "orders-eu", "sqs:mails"];
        for (word, expected) in [
            ("ordrs", Some("orders")),
            ("Orders", Some("orders")),
            ("ord*", Some("orders")),
            ("mails", Some("sqs:mails")),
            ("sqs:mals", Some("sqs:mails")),
            ("sqs:orders", Some("orders")),
            ("payments", None),
            ("*", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
        assert_eq!(nearest("orders", []), None);
    }
}
