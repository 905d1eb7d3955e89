//! Quantiles of a sample.

use schemars::JsonSchema;
use serde::Serialize;

/// Five quantiles of a sample, in the unit of its values.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct Quantiles {
    pub min: f64,
    pub p5: f64,
    pub median: f64,
    pub p95: f64,
    pub max: f64,
}

impl Quantiles {
    /// The quantiles of a sample, which are zero if it is empty.
    pub fn of(sample: &mut [f64]) -> Self {
        sample.sort_unstable_by(f64::total_cmp);
        let at = |share| quantile(sample, share).unwrap_or_default();
        Self { min: at(0.0), p5: at(0.05), median: at(0.5), p95: at(0.95), max: at(1.0) }
    }
}

/// The value of a sorted sample at the nearest rank, without interpolation.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
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
