//! Formats numbers, times and errors.

use std::time::Duration;

use comeback_core::{Timestamp, time::between};

/// A whole number with separators: `36,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// A number with its noun: `1 event`, `2 events`.
pub fn counted(number: u64, one: &str) -> String {
    format!("{} {}", count(number), noun(number, one))
}

/// The noun for this number of things.
pub fn noun(number: u64, one: &str) -> String {
    format!("{one}{}", if number == 1 { "" } else { "s" })
}

/// The events as the subject of a sentence, with its verb: `1 event waits`, `2 events wait`.
pub fn events_that(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", events(number), if number == 1 { one } else { many })
}

pub fn events(number: u64) -> String {
    counted(number, "event")
}

pub fn letters(number: u64) -> String {
    counted(number, "letter")
}

/// A number, rounded to a tenth if it is below ten, else to a whole number.
pub fn number(number: f64) -> String {
    if number < 10.0 && number.fract() != 0.0 {
        format!("{number:.1}")
    } else {
        count(number.round() as u64)
    }
}

/// An amount of dollars with cents, or with six digits if it is less than a cent.
pub fn dollars(dollars: f64) -> String {
    if dollars > 0.0 && dollars < 0.01 {
        return format!("${dollars:.6}");
    }
    let cents = (dollars * 100.0).round() as u64;
    format!("${}.{:02}", count(cents / 100), cents % 100)
}

/// A span of time in its two largest units: `850 ms`, `12.5 s`, `3 m 5 s`, `11 h 59 m`.
pub fn span(seconds: f64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let whole = seconds.round() as u64;
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1000.0);
    }
    if whole < 60 {
        let tenths = format!("{seconds:.1}");
        return format!("{} s", tenths.strip_suffix(".0").unwrap_or(&tenths));
    }
    let largest = UNITS.iter().position(|(unit, _)| whole >= *unit).unwrap_or(3);
    let (unit, name) = UNITS[largest];
    let rest = UNITS.get(largest + 1).map(|(next, name)| (whole % unit / next, *name));
    match rest.filter(|(rest, _)| *rest > 0) {
        Some((rest, smaller)) => format!("{} {name} {rest} {smaller}", whole / unit),
        None => format!("{} {name}", whole / unit),
    }
}

/// Formats a duration in the largest unit that divides it evenly.
pub fn exact_span(duration: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let seconds = duration.as_secs();
    let unit = UNITS.iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{seconds} s"), |(unit, name)| format!("{} {name}", seconds / unit))
}

/// A time relative to now: `in 5 m`, `3 s ago`.
pub fn due(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", span(between(now, at).as_secs_f64().ceil()))
    } else {
        format!("{} ago", span(between(at, now).as_secs_f64().floor()))
    }
}

/// The text, cut to at most `max` characters.
pub fn shortened(text: &str, max: usize) -> String {
    let mut beginning: String = text.chars().take(max).collect();
    if beginning.len() < text.len() {
        beginning.push('…');
    }
    beginning
}

/// Names the policy that decided, if it is that of an error.
pub fn by(policy: Option<&str>) -> String {
    policy.map(|policy| format!(" by {policy}")).unwrap_or_default()
}

pub fn error(error_type: Option<&str>, message: Option<&str>) -> String {
    const MESSAGE_MAX: usize = 60;
    let message = message.map(|message| shortened(message, MESSAGE_MAX));
    let parts = [error_type.unwrap_or_default(), message.as_deref().unwrap_or_default()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_separators_and_their_nouns() {
        for (value, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(value), expected);
        }
        assert_eq!((events(1), letters(1)), ("1 event".to_owned(), "1 letter".to_owned()));
        assert_eq!((events(0), letters(2)), ("0 events".to_owned(), "2 letters".to_owned()));
        let waits = |number| events_that(number, "waits", "wait");
        assert_eq!([0, 1, 2].map(waits), ["0 events wait", "1 event waits", "2 events wait"]);
    }

    #[test]
    fn numbers_have_separators() {
        for (value, expected) in [(0.25, "0.2"), (9.96, "10.0"), (3.0, "3"), (12_000.4, "12,000")] {
            assert_eq!(number(value), expected);
        }
        for (value, expected) in
            [(0.0, "$0.00"), (0.0042, "$0.004200"), (0.666, "$0.67"), (1234.5, "$1,234.50")]
        {
            assert_eq!(dollars(value), expected);
        }
    }

    #[test]
    fn a_span_has_at_most_two_units() {
        for (seconds, expected) in [
            (0.0, "0 s"),
            (0.85, "850 ms"),
            (12.0, "12 s"),
            (12.55, "12.6 s"),
            (60.0, "1 m"),
            (185.0, "3 m 5 s"),
            (43_140.0, "11 h 59 m"),
            (90_061.0, "1 d 1 h"),
        ] {
            assert_eq!(span(seconds), expected);
        }
    }
}
