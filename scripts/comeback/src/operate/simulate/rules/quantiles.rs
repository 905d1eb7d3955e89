//! Quantiles of a sample.

use serde::Serialize;

/// Five quantiles of a sample, in the unit of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub min: f64,
    /// The 5th percentile.
    pub p5: f64,
    pub median: f64,
    /// The 95th percentile.
    pub p95: f64,
    pub max: f64,
}

impl Quantiles {
    /// The quantiles of a sample, which are zero if it is empty.
    pub(super) fn of(sample: &mut [f64]) -> Self {
        sample.sort_unstable_by(f64::total_cmp);
        let Some(last) = sample.len().checked_sub(1) else {
            return Self::default();
        };
        // The value at the nearest rank, without interpolation.
        let at = |quantile: f64| sample[(quantile * last as f64).round() as usize];
        Self { min: at(0.0), p5: at(0.05), median: at(0.5), p95: at(0.95), max: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_sample() {
        let mut sample: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let expected = Quantiles { min: 0.0, p5: 5.0, median: 50.0, p95: 95.0, max: 100.0 };
        assert_eq!(Quantiles::of(&mut sample), expected);
        assert_eq!(Quantiles::of(&mut [7.0]).median, 7.0);
        assert_eq!(Quantiles::of(&mut []), Quantiles::default());
    }
}
