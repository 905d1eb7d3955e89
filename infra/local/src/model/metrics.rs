//! What CloudWatch counts of functions by the minute: their invocations, and those that failed.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use comeback_core::Timestamp;

/// Minutes that are older than this are forgotten.
const MINUTES_MAX: i64 = 3 * 60;

/// The counts of all functions.
#[derive(Default)]
pub struct Metrics(BTreeMap<Arc<str>, BTreeMap<i64, Counts>>);

/// The runs of a function that ended in one minute.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// All of them.
    pub invocations: u32,
    /// Those that failed.
    pub errors: u32,
}

impl Metrics {
    /// Counts a run that has ended.
    pub(crate) fn count(&mut self, now: Timestamp, function: &Arc<str>, is_error: bool) {
        let minute = minute(now);
        let minutes = self.0.entry(Arc::clone(function)).or_default();
        while minutes.first_key_value().is_some_and(|(&old, _)| old <= minute - MINUTES_MAX) {
            minutes.pop_first();
        }
        let counts = minutes.entry(minute).or_default();
        counts.invocations += 1;
        counts.errors += u32::from(is_error);
    }

    /// The minutes of a function that began in this time and had runs, each with the seconds since 1970.
    pub fn of(&self, function: &str, time: Range<Timestamp>) -> Vec<(i64, Counts)> {
        let minutes = self.0.get(function).into_iter().flatten();
        let seconds = time.start.timestamp()..time.end.timestamp();
        let began = minutes.map(|(minute, counts)| (minute * 60, *counts));
        began.filter(|(began, _)| seconds.contains(began)).collect()
    }
}

pub(super) fn minute(at: Timestamp) -> i64 {
    at.timestamp().div_euclid(60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_function_and_minute() {
        let at = |seconds| Timestamp::from_timestamp(seconds, 0).unwrap();
        let (orders, other): (Arc<str>, Arc<str>) = ("orders".into(), "other".into());
        let mut metrics = Metrics::default();
        for (second, function, is_error) in
            [(60, &orders, false), (119, &orders, true), (120, &orders, true), (61, &other, false)]
        {
            metrics.count(at(second), function, is_error);
        }
        let counts = |invocations, errors| Counts { invocations, errors };
        assert_eq!(metrics.of("orders", at(0)..at(180)), [(60, counts(2, 1)), (120, counts(1, 1))]);
        assert_eq!(metrics.of("orders", at(60)..at(120)), [(60, counts(2, 1))]);
        assert_eq!(metrics.of("orders", at(61)..at(120)), []);
        assert_eq!(metrics.of("nobody", at(0)..at(180)), []);
        metrics.count(at(60 * 60 * 24), &orders, false);
        assert_eq!(metrics.of("orders", at(0)..at(180)), [], "it was long ago");
    }
}
