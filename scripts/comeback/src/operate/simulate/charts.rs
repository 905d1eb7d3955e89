//! The charts of a simulation as an SVG, and its page, for files that need no other file.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    operate::{
        plot::{Axis, Curve, highest, plot},
        simulate::{
            rules::{AttemptTimes, Forecast, Point, Scenario},
            tables::{self, ATTEMPTS_TITLE, OUTAGE_TITLE, outage_sentence},
        },
    },
    quantiles::Quantiles,
};

/// A palette for colour-blind people (Okabe and Ito).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// The most ticks of an axis of time in a file.
const TICKS_MAX: f64 = 10.0;

/// All charts, one below the other, as an SVG that needs no other file.
pub fn draw(forecasts: &[Forecast], scenario: &Scenario) -> String {
    let colours = COLOURS.iter().enumerate();
    let colours: String =
        colours.map(|(nth, colour)| format!(".c{nth}{{color:{colour}}}")).collect();
    let outage_end = scenario.outage.as_secs_f64();
    // With long waits, the last few events would take up most of the chart, so it ends before them.
    let recovered = |it: &Forecast| outage_end + 2.0 * it.outage.recovered_after_seconds.p95;
    let end = forecasts.iter().map(recovered).fold(outage_end * 1.2, f64::max);
    let from_outage = "from the beginning of the outage, which ends at the grey line";
    let timeline = |value: fn(&Point) -> f64| {
        let line = |it: &Forecast| {
            let shown = it.outage.timeline.iter().take_while(|point| point.seconds <= end);
            shown.map(|point| (point.seconds, value(point))).collect()
        };
        let curves = curves(forecasts, |it, curve| curve.line = line(it));
        plot(&Axis::time(end, TICKS_MAX), &highest(&curves), &curves, Some(outage_end))
    };
    let charts = [
        (
            "Attempts of events that never succeed: each row is one event",
            "after the first failure",
            lives(forecasts),
        ),
        (
            "When each attempt falls: median, and nine in ten",
            "after the first failure; upwards: the number of the attempt",
            attempts(forecasts),
        ),
        ("Retries a second", from_outage, timeline(|point| point.retries_per_second)),
        ("Events that wait", from_outage, timeline(|point| point.waiting as f64)),
    ];
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 1440" width="960" height="1440" {
            style { (PreEscaped(DRAWING)) (PreEscaped(colours)) }
            rect width="960" height="1440" fill="#fff" {}
            @for (nth, (title, below, chart)) in charts.into_iter().enumerate() {
                svg y=(nth * 360) width="960" height="360" {
                    text.title x="80" y="26" { (title) }
                    text x="940" y="26" text-anchor="end" { @for (nth, forecast) in forecasts.iter().enumerate() {
                        tspan class=(class(nth)) dx="14" { (forecast.policy) }
                    } }
                    svg x="80" y="44" width="800" height="256" overflow="visible" { (chart) }
                    text x="480" y="340" text-anchor="middle" { (below) }
                }
            }
        }
    };
    svg.into_string()
}

const DRAWING: &str = "text{font:13px sans-serif;fill:#444}.title{font-size:17px}tspan{fill:currentColor}\
line{stroke:#e4e4e4}line.marked{stroke:#888}circle{fill:currentColor}polygon{fill:currentColor;opacity:.2}\
polyline{fill:none;stroke:currentColor;stroke-width:2;vector-effect:non-scaling-stroke}";

fn class(nth: usize) -> String {
    format!("c{}", nth % COLOURS.len())
}

fn curves(forecasts: &[Forecast], mut fill: impl FnMut(&Forecast, &mut Curve)) -> Vec<Curve> {
    let curve = |(nth, forecast): (usize, &Forecast)| {
        let mut curve = Curve { class: class(nth), ..Curve::default() };
        fill(forecast, &mut curve);
        curve
    };
    forecasts.iter().enumerate().map(curve).collect()
}

/// The attempts of some events that never succeed: a line of dots for each event.
fn lives(forecasts: &[Forecast]) -> Markup {
    let attempts = || forecasts.iter().map(|forecast| &forecast.attempts);
    let end = attempts().map(|it| it.given_up_after_seconds.max).fold(1.0, f64::max);
    let mut row = attempts().map(|it| it.examples.len()).sum::<usize>() + 1;
    let y = Axis::without_ticks(row as f64);
    let curves = curves(forecasts, |it, curve| {
        for times in &it.attempts.examples {
            row -= 1;
            curve.dots.extend(times.iter().map(|seconds| (*seconds, row as f64)));
        }
    });
    plot(&Axis::time(end, TICKS_MAX), &y, &curves, None)
}

/// The time of each attempt: the median as a line, and the 5th to 95th percentile as a band.
fn attempts(forecasts: &[Forecast]) -> Markup {
    let times = forecasts.iter().flat_map(|forecast| &forecast.attempts.times);
    let latest = times.map(|it| it.after_seconds.p95).fold(1.0, f64::max);
    let curves = curves(forecasts, |it, curve| {
        let line = |quantile: fn(&Quantiles) -> f64| {
            let point =
                move |it: &AttemptTimes| (quantile(&it.after_seconds), f64::from(it.attempt.get()));
            it.attempts.times.iter().map(point)
        };
        curve.line = line(|it| it.median).collect();
        curve.band = line(|it| it.p5).chain(line(|it| it.p95).rev()).collect();
    });
    plot(&Axis::log_time(latest), &highest(&curves), &curves, None)
}

const PAGE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#222;background:#fff}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .75rem \
.25rem 0;border-bottom:1px solid #ddd;vertical-align:top}figure{margin:2rem 0}svg{max-width:100%;height:auto}";

/// A page with the tables and the charts. It refers to no other file and has no script.
pub fn page(forecasts: &[Forecast], scenario: &Scenario, charts: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "comeback simulate" }
                style { (PreEscaped(PAGE)) }
            }
            body {
                h1 { (outage_sentence(scenario)) }
                h2 { "Policies" } (tables::settings(forecasts))
                h2 { (OUTAGE_TITLE) } (tables::outages(forecasts))
                figure { (PreEscaped(charts)) }
                h2 { (ATTEMPTS_TITLE) } (tables::attempts(forecasts))
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::simulate::tables::tests::forecasts;

    #[test]
    fn the_page_has_tables_and_charts_of_every_policy_and_needs_no_other_file() {
        let (forecasts, scenario) = forecasts();
        let charts = draw(&forecasts, &scenario);
        assert!(charts.starts_with("<svg xmlns=") && charts.ends_with("</svg>"));
        for name in [">calm<", ">R&amp;D &lt;eager&gt;<"] {
            assert_eq!(charts.matches(name).count(), 4, "{name}");
        }
        // The example events of the first policy, with a dot for each attempt.
        let dots = forecasts[0].attempts.examples.iter().map(Vec::len).sum::<usize>();
        assert_eq!(charts.matches("<circle class=\"c0\"").count(), dots);
        assert_eq!(
            (charts.matches("<polyline").count(), charts.matches("<polygon").count()),
            (6, 2)
        );
        let page = page(&forecasts, &scenario, &charts);
        assert_eq!(page.matches("<table>").count(), 3);
        assert!(page.contains(&charts));
        assert!(page.contains("<th>R&amp;D &lt;eager&gt;</th>") && !page.contains("<eager>"));
        for outside in ["<script", "<link", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
