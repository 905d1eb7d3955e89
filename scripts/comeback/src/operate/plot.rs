//! A chart for an `svg` element: its axes, with ticks at round values, and its curves. Positions are percentages, so
//! that a chart is as wide as its place, and its texts are not stretched.

use maud::{Markup, html};

use crate::text::{number, span};

/// The ticks of an axis of time that is logarithmic.
const DECADES: [(f64, &str); 9] = [
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 m"),
    (600.0, "10 m"),
    (3600.0, "1 h"),
    (21_600.0, "6 h"),
    (86_400.0, "1 d"),
    (259_200.0, "3 d"),
    (1_123_200.0, "13 d"),
];

/// An axis from 0 to `end`, or from 1 if it is logarithmic.
pub struct Axis {
    end: f64,
    is_log: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    fn linear(end: f64, step: f64, name: fn(f64) -> String) -> Self {
        let ticks = (0..).map(|nth| f64::from(nth) * step).take_while(|at| *at <= end * 1.001);
        Self { end, is_log: false, ticks: ticks.map(|at| (at, name(at))).collect() }
    }

    /// Seconds, with at most this many ticks.
    pub fn time(end: f64, most_ticks: f64) -> Self {
        Self::linear(end, round_step(end, most_ticks), span)
    }

    /// An axis whose places have no names.
    pub fn without_ticks(end: f64) -> Self {
        Self { end, is_log: false, ticks: Vec::new() }
    }

    pub fn log_time(end: f64) -> Self {
        let end = end.max(2.0);
        let ticks = DECADES.iter().filter(|(at, _)| *at <= end);
        Self { end, is_log: true, ticks: ticks.map(|(at, name)| (*at, (*name).into())).collect() }
    }

    /// The places of the ticks, as percentages of the length, with their names.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.ticks.iter().map(|(at, name)| (self.at(*at), name.as_str()))
    }

    /// Values up to this one, with at most five round ticks.
    pub fn values(most: f64) -> Self {
        let step = nice(most);
        Self::linear((most.max(step) / step).ceil() * step, step, number)
    }

    /// Where a value is, as a percentage of the length.
    pub fn at(&self, value: f64) -> f64 {
        let Self { end, is_log, .. } = self;
        let part = if *is_log { value.max(1.0).ln() / end.ln() } else { value / end };
        part * 100.0
    }
}

/// A round distance of at most five ticks from zero to this value.
fn nice(most: f64) -> f64 {
    let scale = 10_f64.powf((most.max(0.1) / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|it| it * scale * 4.0 >= most);
    step.unwrap_or(10.0) * scale
}

/// The distance of the ticks of an axis of time, so that there are at most this many, at round times.
fn round_step(seconds: f64, most: f64) -> f64 {
    const STEPS: [f64; 21] = [
        0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0,
        3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0,
    ];
    let step = STEPS.into_iter().find(|step| seconds / step <= most);
    step.unwrap_or_else(|| (seconds / most / 86_400.0).ceil() * 86_400.0)
}

/// What a chart shows of a policy: a line, the outline of a band, and dots.
#[derive(Default)]
pub struct Curve {
    /// The class of its elements, which gives them their colour.
    pub class: String,
    pub line: Vec<(f64, f64)>,
    pub band: Vec<(f64, f64)>,
    pub dots: Vec<(f64, f64)>,
}

/// A chart between its axes, for an `svg` element. A line marks this value of `x`.
pub fn plot(x: &Axis, y: &Axis, curves: &[Curve], marked: Option<f64>) -> Markup {
    let percent = |value: f64| format!("{value:.2}%");
    let up = |value: f64| 100.0 - y.at(value);
    let points = |points: &[(f64, f64)]| -> String {
        let text = |(at, value): &(f64, f64)| format!("{:.2},{:.2} ", x.at(*at), up(*value));
        points.iter().map(text).collect()
    };
    html! {
        @for (at, name) in y.ticks() {
            @let at = percent(100.0 - at);
            line x1="0" x2="100%" y1=(at) y2=(at) {}
            text x="-6" y=(at) dy="4" text-anchor="end" { (name) }
        }
        @for (at, name) in x.ticks() {
            @let at = percent(at);
            line x1=(at) x2=(at) y1="0" y2="100%" {}
            text x=(at) y="100%" dy="16" text-anchor="middle" { (name) }
        }
        @if let Some(at) = marked.map(|at| percent(x.at(at))) { line.marked x1=(at) x2=(at) y1="0" y2="100%" {} }
        svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none" {
            @for it in curves {
                @if !it.band.is_empty() { polygon class=(it.class) points=(points(&it.band)) {} }
                @if !it.line.is_empty() { polyline class=(it.class) points=(points(&it.line)) {} }
            }
        }
        @for it in curves {
            @for (at, value) in &it.dots {
                circle class=(it.class) cx=(percent(x.at(*at))) cy=(percent(up(*value))) r="2" {}
            }
        }
    }
}

/// The upward axis of these lines.
pub fn highest(curves: &[Curve]) -> Axis {
    let values = curves.iter().flat_map(|it| &it.line).map(|(_, value)| *value);
    Axis::values(values.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_values_has_round_ticks_up_to_the_largest() {
        for (most, expected) in [(0.0, 0.01), (3.0, 1.0), (17.0, 5.0), (240.0, 100.0)] {
            assert!((nice(most) - expected).abs() < 1e-9, "{most}: {}", nice(most));
        }
    }

    #[test]
    fn an_axis_has_ticks_at_round_times() {
        for (seconds, expected) in [(3.0, 0.5), (100.0, 30.0), (1000.0, 300.0), (2.6e6, 518_400.0)]
        {
            assert_eq!(round_step(seconds, 6.0), expected, "{seconds}");
        }
    }
}
