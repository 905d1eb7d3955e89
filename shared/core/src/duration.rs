//! Durations as people write them: `90`, `90s`, `15m`, `24h`, `7d`.

use std::time::Duration;

const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)];

/// Reads a whole number with an optional unit; a bare number is seconds.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (digits, seconds_per_unit) = UNITS
        .iter()
        .find_map(|&(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .unwrap_or((text, 1));
    // `u64::from_str` would accept a leading `+`.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(Duration::from_secs(count.checked_mul(seconds_per_unit)?))
}

/// Writes whole seconds in the largest unit that divides them, as [`parse`] reads it.
pub fn format(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (unit, per_unit) = UNITS
        .into_iter()
        .rev()
        .find(|&(_, per_unit)| seconds.is_multiple_of(per_unit) && seconds > 0)
        .unwrap_or(UNITS[0]);
    format!("{}{unit}", seconds / per_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_whole_number_and_a_unit() {
        let table = [
            ("0", Some(0)),
            ("90", Some(90)),
            (" 15m ", Some(900)),
            ("24h", Some(86_400)),
            ("7d", Some(604_800)),
            ("", None),
            ("s", None),
            ("+5s", None),
            ("-5s", None),
            ("1.5h", None),
            ("15 m", None),
            ("15M", None),
            ("1h30m", None),
            ("1w", None),
            ("999999999999999999999", None),
            ("18446744073709551615d", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected.map(Duration::from_secs), "{text:?}");
        }
    }

    #[test]
    fn a_duration_is_written_in_the_largest_unit_that_divides_it() {
        for (seconds, written) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (5400, "90m"), (86_400, "1d"), (90_000, "25h")]
        {
            assert_eq!(format(Duration::from_secs(seconds)), written);
            assert_eq!(parse(written), Some(Duration::from_secs(seconds)));
        }
    }
}
