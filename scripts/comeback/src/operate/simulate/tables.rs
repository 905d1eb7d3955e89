//! The tables of a simulation, for the terminal and for HTML pages, and its timelines as rows of bars.

use maud::{Markup, Render, html};

use crate::{
    operate::simulate::rules::{AttemptTimes, Forecast, Outage, Point, Scenario},
    paint::{Line, Style},
    tables::{bars, table},
    text::{count, dollars, number, span},
};

const ATTEMPTS_MAX: usize = 20;

const BARS_WIDTH: usize = 60;

pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Render for Table {
    fn render(&self) -> Markup {
        html! {
            div.wide tabindex="0" { table {
                thead { tr { @for cell in &self.header { @if cell.is_empty() { td {} } @else { th { (cell) } } } } }
                tbody { @for row in &self.rows { tr { @for (nth, cell) in row.iter().enumerate() {
                    @if nth == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                } } } }
            } }
        }
    }
}

pub fn lines(forecasts: &[Forecast], scenario: &Scenario, width: Option<usize>) -> Vec<Line> {
    let mut lines = vec![Line::of(Style::Plain, outage_sentence(scenario)), Line::default()];
    let mut add = |title: &str, of: &Table| {
        lines.push(Line::of(Style::Strong, title));
        lines.extend(table(&of.header, &of.rows, width));
        lines.push(Line::default());
    };
    add("Policies", &settings(forecasts));
    add(ATTEMPTS_TITLE, &attempts(forecasts));
    add(OUTAGE_TITLE, &outages(forecasts));
    for (title, value) in [
        ("Retries a second", (|point| point.retries_per_second) as fn(&Point) -> f64),
        ("Events that wait", |point| point.waiting as f64),
    ] {
        lines.push(Line::of(Style::Strong, title));
        lines.extend(timelines(forecasts, value, width));
        lines.push(Line::default());
    }
    lines.pop();
    lines
}

/// Titles that the live page uses too.
pub const ATTEMPTS_TITLE: &str =
    "Time of each attempt after the first failure: median (5th – 95th percentile)";
pub const OUTAGE_TITLE: &str = "What the outage means";

pub fn outage_sentence(scenario: &Scenario) -> String {
    let Scenario { outage, events_per_second, .. } = scenario;
    let (rate, unit) = if *events_per_second < 0.1 {
        (events_per_second * 3600.0, "hour")
    } else {
        (*events_per_second, "second")
    };
    let events = if rate == 1.0 { "event" } else { "events" };
    let outage = span(outage.as_secs_f64());
    format!(
        "An outage of {outage}, with {} {events} a{} {unit}",
        number(rate),
        if unit == "hour" { "n" } else { "" }
    )
}

pub fn with_policies(first: &str, forecasts: &[Forecast]) -> Vec<String> {
    let names = forecasts.iter().map(|forecast| forecast.policy.clone());
    std::iter::once(first.to_owned()).chain(names).collect()
}

pub fn row(name: &str, forecasts: &[Forecast], cell: impl Fn(&Forecast) -> String) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(forecasts.iter().map(cell)).collect()
}

pub fn settings(forecasts: &[Forecast]) -> Table {
    let names = forecasts.first().map(|forecast| forecast.settings.as_slice()).unwrap_or_default();
    let rows = names.iter().enumerate();
    let rows = rows.map(|(nth, (name, _))| row(name, forecasts, |it| it.settings[nth].1.clone()));
    Table { rows: rows.collect(), header: with_policies("setting", forecasts) }
}

pub fn attempts(forecasts: &[Forecast]) -> Table {
    let times = |times: &AttemptTimes| {
        let after = times.after_seconds;
        let [median, p5, p95] = [after.median, after.p5, after.p95].map(span);
        let range = if p5 == p95 { String::new() } else { format!(" ({p5} – {p95})") };
        let share = if times.share < 1.0 {
            format!(", {:.0} % of events", (times.share * 100.0).clamp(1.0, 99.0))
        } else {
            String::new()
        };
        format!("{median}{range}{share}")
    };
    let most = forecasts.iter().map(|it| it.attempts.times.len()).max().unwrap_or_default();
    let cell = |nth: usize| {
        move |forecast: &Forecast| forecast.attempts.times.get(nth).map_or(String::new(), times)
    };
    let mut rows: Vec<_> = (0..most.min(ATTEMPTS_MAX))
        .map(|nth| row(&(nth + 1).to_string(), forecasts, cell(nth)))
        .collect();
    if most > ATTEMPTS_MAX {
        rows.push(row("…", forecasts, |_| String::new()));
    }
    rows.push(row("given up", forecasts, |forecast| {
        let attempts = &forecast.attempts;
        let reason = attempts.reason.map_or("", |reason| reason.as_str());
        let (made, after) = (attempts.made, attempts.given_up_after_seconds);
        let times = if made.min == made.max {
            number(made.median)
        } else {
            format!("{} to {}", number(made.min), number(made.max))
        };
        format!("after {times} attempts, {}: {reason}", span(after.median))
    }));
    Table { header: with_policies("attempt", forecasts), rows }
}

pub fn outages(forecasts: &[Forecast]) -> Table {
    type Cell = fn(&Outage) -> String;
    let cells: [(&str, Cell); 13] = [
        ("events that fail", |it| count(it.events)),
        ("succeed after the outage", |it| count(it.succeeded)),
        ("are given up", given_up),
        ("retries", |it| {
            format!("{} ({} an event)", count(it.retries), number(it.retries_of_an_event.median))
        }),
        ("most retries a second", |it| number(it.retries_per_second_max)),
        ("most load, with new events", |it| format!("{} a second", number(it.load_max))),
        ("half are back after", |it| recovered(it, it.recovered_after_seconds.median)),
        ("95 % are back after", |it| recovered(it, it.recovered_after_seconds.p95)),
        ("all are back after", |it| recovered(it, it.recovered_after_seconds.max)),
        ("most waiting at once", waiting),
        ("Comeback costs, drop-in", |it| {
            price(it.dollars.drop_in_in_full_batches, it.dollars.drop_in_each_alone)
        }),
        ("with envelopes, no ledger", |it| {
            price(it.dollars.comeback_in_full_batches, it.dollars.comeback_each_alone)
        }),
        ("runs of the function cost", |it| dollars(it.dollars.target_runs)),
    ];
    let mut rows: Vec<_> =
        cells.iter().map(|(name, cell)| row(name, forecasts, |it| cell(&it.outage))).collect();
    if forecasts.iter().any(|forecast| forecast.outage.one_in > 1) {
        rows.push(row("played", forecasts, |it| {
            format!("one event in {}", count(it.outage.one_in))
        }));
    }
    Table { header: with_policies("", forecasts), rows }
}

fn price(in_full_batches: f64, each_alone: f64) -> String {
    let [full, alone] = [in_full_batches, each_alone].map(dollars);
    format!("{full} (ten in a batch) to {alone} (each alone)")
}

fn given_up(outage: &Outage) -> String {
    let reasons = outage.given_up.iter().map(|(reason, of)| format!("{} {reason}", count(*of)));
    let reasons = reasons.collect::<Vec<_>>();
    if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") }
}

fn recovered(outage: &Outage, seconds: f64) -> String {
    if outage.succeeded == 0 { "never".to_owned() } else { span(seconds) }
}

fn waiting(outage: &Outage) -> String {
    let Outage { waiting_max, in_flight_max, .. } = *outage;
    let most = count(waiting_max);
    if waiting_max > u64::from(in_flight_max) {
        format!("{most}; {} fit in flight, the rest waits as delays", count(in_flight_max.into()))
    } else {
        format!("{most} of {} that fit in flight", count(in_flight_max.into()))
    }
}

/// A row of bars for each policy, all with the same scales.
fn timelines(forecasts: &[Forecast], value: fn(&Point) -> f64, width: Option<usize>) -> Vec<Line> {
    let points = || forecasts.iter().flat_map(|forecast| &forecast.outage.timeline);
    let end = points().map(|point| point.seconds).fold(0.0, f64::max);
    let most = points().map(value).fold(0.0, f64::max);
    let name_width = forecasts.iter().map(|it| it.policy.chars().count()).max().unwrap_or_default();
    let room =
        width.map_or(BARS_WIDTH, |width| width.saturating_sub(name_width + 1).min(BARS_WIDTH));
    let mut lines = Vec::new();
    for forecast in forecasts {
        let timeline = &forecast.outage.timeline;
        let own_end = timeline.last().map_or(0.0, |point| point.seconds);
        let width = if end > 0.0 { (own_end / end * room as f64).ceil() as usize } else { 0 };
        let values: Vec<_> = timeline.iter().map(value).collect();
        let name = Line::of(Style::Plain, &forecast.policy).padded(name_width + 1);
        lines.push(name.and(Style::Busy, bars(&values, most, width)));
    }
    let scale = format!("0 to {}, at most {}", span(end), number(most));
    lines.push(Line::of(Style::Plain, " ".repeat(name_width + 1)).and(Style::Faint, scale));
    lines
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::operate::simulate::rules::{Candidate, Of, Run, simulate};

    /// Two policies, one with a name that is special in XML.
    pub fn forecasts() -> (Vec<Forecast>, Scenario) {
        let scenario = Scenario {
            outage: Duration::from_mins(10),
            events_per_second: 1.0,
            run: Run { milliseconds: 100, memory_mb: 128 },
            seed: 1,
        };
        let candidate = |name: &str, max_backoff: &str, max_age: &str| {
            let read = |wanted: &str| match wanted {
                "MAX_BACKOFF" => Some(max_backoff.to_owned()),
                "MAX_AGE" => Some(max_age.to_owned()),
                "IN_FLIGHT_MAX" => Some("500".to_owned()),
                _ => None,
            };
            Candidate::read(name, Of::Error(None), read).unwrap()
        };
        let candidates = [candidate("calm", "12h", "24h"), candidate("R&D <eager>", "1m", "5m")];
        (candidates.iter().map(|it| simulate(it, &scenario)).collect(), scenario)
    }

    fn cells<'a>(table: &'a Table, name: &str) -> &'a [String] {
        let row = table.rows.iter().find(|row| row[0] == name);
        &row.unwrap_or_else(|| panic!("no row {name}"))[1..]
    }

    #[test]
    fn the_tables_have_a_column_for_each_policy() {
        let (forecasts, scenario) = forecasts();
        assert_eq!(outage_sentence(&scenario), "An outage of 10 m, with 1 event a second");
        assert_eq!(settings(&forecasts).header, ["setting", "calm", "R&D <eager>"]);
        assert_eq!(cells(&settings(&forecasts), "MAX_AGE"), ["1d", "5m"]);
        let attempts = attempts(&forecasts);
        assert_eq!(cells(&attempts, "1"), ["1 s", "1 s"]);
        let given_up = cells(&attempts, "given up");
        assert!(given_up[0].ends_with(" attempts, 23 h 59 m: max_age_exceeded"), "{given_up:?}");
        let outages = outages(&forecasts);
        assert_eq!(cells(&outages, "events that fail"), ["600", "600"]);
        assert_eq!(cells(&outages, "are given up")[0], "none");
        assert!(cells(&outages, "are given up")[1].ends_with(" max_age_exceeded"));
        let waiting = cells(&outages, "most waiting at once");
        assert!(
            waiting[0].ends_with("; 500 fit in flight, the rest waits as delays"),
            "{waiting:?}"
        );
        assert!(waiting[1].ends_with(" of 500 that fit in flight"), "{waiting:?}");
        let lines = lines(&forecasts, &scenario, Some(40));
        // The terminal wraps titles.
        let wide = lines.iter().map(|line| line.paint(false)).filter(|it| it.chars().count() > 40);
        assert_eq!(wide.collect::<Vec<_>>(), [ATTEMPTS_TITLE]);
    }
}
