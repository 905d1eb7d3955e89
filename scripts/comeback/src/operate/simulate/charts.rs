//! The charts of a simulation, as one SVG.

use std::io;

use plotters::{coord::Shift, prelude::*};

use crate::operate::{
    simulate::{
        facts::{self, Table},
        rules::{AttemptTimes, Forecast, Point, Quantiles, Scenario},
    },
    text::{number, span},
};

const WIDTH: u32 = 960;
const HEIGHT: u32 = 1440;
const FONT: (&str, u32) = ("sans-serif", 13);
const TITLE: (&str, u32) = ("sans-serif", 17);
const MARGIN: u32 = 12;
const LABELS_BELOW: u32 = 42;
const LABELS_LEFT: u32 = 80;
const TICKS: usize = 12;

/// A palette for colour-blind people (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawResult = Result<(), DrawingAreaErrorKind<io::Error>>;

/// Draws all charts, one below the other, as an SVG.
pub fn draw(forecasts: &[Forecast], scenario: &Scenario) -> io::Result<String> {
    let mut svg = String::new();
    picture(&mut svg, forecasts, scenario).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(svg)
}

fn picture(svg: &mut String, forecasts: &[Forecast], scenario: &Scenario) -> DrawResult {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let [lives_area, attempts_area, retries_area, waiting_area] = &root.split_evenly((4, 1))[..]
    else {
        return Ok(());
    };
    lives(lives_area, forecasts)?;
    attempts(attempts_area, forecasts)?;
    let retries = |point: &Point| point.retries_per_second;
    timeline(retries_area, "Retries a second", forecasts, scenario, retries)?;
    let waiting = |point: &Point| point.waiting as f64;
    timeline(waiting_area, "Events that wait", forecasts, scenario, waiting)?;
    root.present()
}

fn colour(nth: usize) -> RGBColor {
    COLOURS[nth % COLOURS.len()]
}

/// The unit in seconds, and its name, for a time axis that ends at `end` seconds.
fn unit(end: f64) -> (f64, &'static str) {
    const UNITS: [(f64, &str); 4] =
        [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")];
    UNITS.into_iter().find(|(unit, _)| end >= 3.0 * unit).unwrap_or(UNITS[3])
}

/// A chart with this title, before it has its axes.
fn chart<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut chart = ChartBuilder::on(area);
    chart.caption(title, TITLE).margin(MARGIN);
    chart.x_label_area_size(LABELS_BELOW).y_label_area_size(LABELS_LEFT);
    chart
}

/// The attempts of some events that never succeed: a line of dots for each event.
fn lives(area: &Area, forecasts: &[Forecast]) -> DrawResult {
    let attempts = || forecasts.iter().map(|forecast| &forecast.attempts);
    let end = attempts().map(|it| it.given_up_after_seconds.max).fold(1.0, f64::max);
    let (unit, units) = unit(end);
    let rows = attempts().map(|it| it.examples.len()).sum::<usize>();
    let mut chart = chart(area, "Attempts of events that never succeed: each row is one event")
        .build_cartesian_2d(0.0..end / unit, -1.0..rows as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(TICKS)
        .x_label_formatter(&|time| number(*time))
        .x_desc(format!("{units} after the first failure"))
        .label_style(FONT)
        .draw()?;
    let mut row = rows;
    for (nth, forecast) in forecasts.iter().enumerate() {
        let mut dots = Vec::new();
        for times in &forecast.attempts.examples {
            row -= 1;
            dots.extend(times.iter().map(|seconds| (*seconds / unit, row as f64)));
        }
        let dot = move |at| Circle::new(at, 2, colour(nth).filled());
        chart.draw_series(dots.into_iter().map(dot))?.label(&forecast.policy).legend(key(nth));
    }
    chart.configure_series_labels().label_font(FONT).background_style(WHITE).draw()
}

/// The time of each attempt: the median as a line, and the 5th to 95th percentile as a band.
fn attempts(area: &Area, forecasts: &[Forecast]) -> DrawResult {
    let times = || forecasts.iter().flat_map(|forecast| &forecast.attempts.times);
    let last = forecasts.iter().map(|it| it.attempts.times.len()).max().unwrap_or_default();
    let latest = times().map(|it| it.after_seconds.p95).fold(2.0, f64::max);
    let mut chart = chart(area, "When each attempt falls: median, and nine in ten")
        .build_cartesian_2d(1.0..last.max(2) as f64, (0.9..latest).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(TICKS)
        .x_label_formatter(&|attempt| number(*attempt))
        .y_label_formatter(&|seconds| span(*seconds))
        .x_desc("attempt")
        .y_desc("after the first failure")
        .label_style(FONT)
        .draw()?;
    for (nth, forecast) in forecasts.iter().enumerate() {
        let times = &forecast.attempts.times;
        let line = |quantile: fn(&Quantiles) -> f64| {
            let point =
                move |it: &AttemptTimes| (f64::from(it.attempt.get()), quantile(&it.after_seconds));
            times.iter().map(point)
        };
        let band = line(|it| it.p5).chain(line(|it| it.p95).rev()).collect::<Vec<_>>();
        chart.draw_series([Polygon::new(band, colour(nth).mix(0.2))])?;
        chart
            .draw_series(LineSeries::new(line(|it| it.median), colour(nth).stroke_width(2)))?
            .label(&forecast.policy)
            .legend(key(nth));
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::LowerRight).label_font(FONT).background_style(WHITE).draw()
}

/// A value over time. A vertical line marks the end of the outage.
fn timeline(
    area: &Area,
    title: &str,
    forecasts: &[Forecast],
    scenario: &Scenario,
    value: impl Fn(&Point) -> f64,
) -> DrawResult {
    let outage_end = scenario.outage.as_secs_f64();
    // With long waits, the last few events would take up most of the chart, so it ends before them.
    let recovered = |it: &Forecast| outage_end + 2.0 * it.outage.recovered_after_seconds.p95;
    let end = forecasts.iter().map(recovered).fold(outage_end * 1.2, f64::max);
    let (unit, units) = unit(end);
    let points = || forecasts.iter().flat_map(|forecast| &forecast.outage.timeline);
    let most = points().map(&value).fold(1.0, f64::max) * 1.05;
    let mut chart = chart(area, title).build_cartesian_2d(0.0..end / unit, 0.0..most)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(TICKS)
        .x_label_formatter(&|time| number(*time))
        .y_label_formatter(&|value| number(*value))
        .x_desc(format!("{units} from the beginning of the outage, which ends at the grey line"))
        .label_style(FONT)
        .draw()?;
    let grey = RGBColor(128, 128, 128);
    let at = outage_end / unit;
    chart.draw_series(LineSeries::new([(at, 0.0), (at, most)], grey))?;
    for (nth, forecast) in forecasts.iter().enumerate() {
        let shown = forecast.outage.timeline.iter().take_while(|point| point.seconds <= end);
        let points = shown.map(|point| (point.seconds / unit, value(point)));
        chart
            .draw_series(LineSeries::new(points, colour(nth).stroke_width(2)))?
            .label(&forecast.policy)
            .legend(key(nth));
    }
    chart.configure_series_labels().label_font(FONT).background_style(WHITE).draw()
}

/// The mark of a policy in a chart's legend.
fn key(nth: usize) -> impl Fn((i32, i32)) -> Rectangle<(i32, i32)> {
    move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour(nth).filled())
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#222;background:#fff}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .75rem \
.25rem 0;border-bottom:1px solid #ddd;vertical-align:top}figure{margin:2rem 0}svg{max-width:100%;height:auto}";

/// The page. It refers to no other file and has no script.
pub fn page(forecasts: &[Forecast], scenario: &Scenario, charts: &str) -> String {
    let sentence = escape(&facts::outage_sentence(scenario));
    let tables = [
        ("Policies", facts::settings(forecasts)),
        (facts::OUTAGE_TITLE, facts::outages(forecasts)),
        (facts::ATTEMPTS_TITLE, facts::attempts(forecasts)),
    ];
    let [policies, outage, attempts] = tables.map(|(title, of)| table(title, &of));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>comeback simulate</title>\n\
         <style>{STYLE}</style>\n<h1>{sentence}</h1>\n{policies}{outage}<figure>{charts}</figure>\n{attempts}</html>\n"
    )
}

fn table(title: &str, Table { header, rows }: &Table) -> String {
    let row = |cells: &[String], tag: &str| {
        let cell = |text: &String| format!("<{tag}>{}</{tag}>", escape(text));
        format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
    };
    let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<h2>{}</h2>\n<table>\n{}{rows}</table>\n", escape(title), row(header, "th"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::simulate::facts::tests::forecasts;

    #[test]
    fn each_chart_shows_every_policy() {
        let (forecasts, scenario) = forecasts();
        let svg = draw(&forecasts, &scenario).unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        for title in
            ["each row is one event", "nine in ten", "Retries a second", "Events that wait"]
        {
            assert!(svg.contains(title), "{title}");
        }
        for name in ["calm", "R&amp;D &lt;eager&gt;"] {
            assert_eq!(svg.matches(&format!("{name}\n")).count(), 4, "{name}");
        }
        // The example events of the first policy, with a dot for each attempt.
        let dots = forecasts[0].attempts.examples.iter().map(Vec::len).sum::<usize>();
        let colour = "#0072B2";
        let drawn = svg.lines().filter(|line| line.contains("<circle") && line.contains(colour));
        assert_eq!(drawn.count(), dots);
    }

    #[test]
    fn the_page_has_tables_and_charts_and_needs_no_other_file() {
        let (forecasts, scenario) = forecasts();
        let charts = draw(&forecasts, &scenario).unwrap();
        let page = page(&forecasts, &scenario, &charts);
        assert_eq!(page.matches("<table>").count(), 3);
        assert!(page.contains(&charts));
        assert!(page.contains("<th>R&amp;D &lt;eager&gt;</th>") && !page.contains("<eager>"));
        for outside in ["<script", "<link", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
