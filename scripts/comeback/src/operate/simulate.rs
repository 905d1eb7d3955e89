//! `comeback simulate`: simulates policies before they are deployed. Its tables are for the terminal and the HTML page.

pub mod charts;
pub mod rules;

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use comeback_core::{duration, settings::BadSettings};
use maud::{Markup, Render, html};
use serde_json::json;

use crate::{
    functions::{Setting, setting},
    operate::{
        simulate::rules::{AttemptTimes, Candidate, Forecast, Outage, Point, Run, Scenario},
        text::{bars, count, dollars, number, span, table},
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell},
};

/// The name of the policy if there is no `--policy`.
const ONLY: &str = "policy";

pub async fn run(args: &SimulateArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let candidates = candidates(args)?;
    let run = Run { milliseconds: args.run_ms, memory_mb: args.memory };
    let scenario =
        Scenario { outage: args.outage, events_per_second: args.rate, run, seed: args.seed };
    let forecasts = simulate(&candidates, &scenario);
    if args.svg.is_some() || args.html.is_some() {
        let charts = charts::draw(&forecasts, &scenario);
        if let Some(path) = &args.svg {
            write(path, &charts)?;
        }
        if let Some(path) = &args.html {
            write(path, &charts::page(&forecasts, &scenario, &charts))?;
        }
    }
    if args.json {
        shell.print_json(&json!({ "scenario": scenario, "policies": forecasts })).await?;
    } else {
        shell.print(&lines(&forecasts, &scenario, shell.width())).await?;
    }
    Ok(Outcome::Success)
}

/// The policies. The settings of each override those of `--set`.
fn candidates(args: &SimulateArgs) -> Result<Vec<Candidate>, BadSettings> {
    let only = [Policy { name: ONLY.to_owned(), settings: Vec::new() }];
    let named = if args.policy.is_empty() { &only } else { args.policy.as_slice() };
    let read = |Policy { name, settings }: &Policy| {
        Candidate::read(name, |wanted| {
            let mut given = args.set.iter().chain(settings).rev();
            let last = given.find(|(name, _): &&Setting| name == wanted);
            last.map(|(_, value)| value.clone())
        })
    };
    named.iter().map(read).collect()
}

fn simulate(candidates: &[Candidate], scenario: &Scenario) -> Vec<Forecast> {
    thread::scope(|scope| {
        let threads: Vec<_> = candidates
            .iter()
            .map(|candidate| scope.spawn(|| rules::simulate(candidate, scenario)))
            .collect();
        let forecast = |thread: thread::ScopedJoinHandle<'_, Forecast>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(forecast).collect()
    })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let refused = |source: io::Error| Failure::File { path: path.to_owned(), source };
    fs::write(path, text).map_err(refused)
}

#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// A setting of the retry handler for all policies, such as MAX_AGE=7d; repeatable [default: its own].
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<Setting>,
    /// A policy to compare, by a name and its settings; repeatable [default: one policy, of --set].
    #[arg(long, value_name = "NAME: SETTING=VALUE …", value_parser = policy)]
    pub policy: Vec<Policy>,
    /// How long the function fails every event.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = outage)]
    pub outage: Duration,
    /// How many events arrive, such as 10/s, 90/m or 1000000/d.
    #[arg(long, value_name = "NUMBER/UNIT", default_value = "10/s", value_parser = rate)]
    pub rate: f64,
    /// How many milliseconds a run of the function takes, for its cost.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub run_ms: u32,
    /// How many MB of memory the function has, for its cost.
    #[arg(long, value_name = "MB", default_value_t = 128)]
    pub memory: u32,
    /// Decides the draws of the jitter.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the charts as SVG into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write tables and charts as an HTML page into this file, which needs no other file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    pub name: String,
    pub settings: Vec<Setting>,
}

const OUTAGE_MAX: Duration = Duration::from_hours(31 * 24);

const RATE_MAX: f64 = 1e6;

fn policy(text: &str) -> Result<Policy, String> {
    const EXPECTED: &str =
        "expected a name and settings, such as 'calm: BASE_BACKOFF=10s MAX_AGE=7d'";
    let (name, settings) = text.split_once(':').ok_or(EXPECTED)?;
    let name = name.trim();
    if name.is_empty() || name.contains('=') {
        return Err(EXPECTED.to_owned());
    }
    let settings = settings.split_whitespace().map(setting).collect::<Result<_, _>>()?;
    Ok(Policy { name: name.to_owned(), settings })
}

fn outage(text: &str) -> Result<Duration, String> {
    duration::parse(text)
        .filter(|outage| (Duration::from_secs(1)..=OUTAGE_MAX).contains(outage))
        .ok_or_else(|| "expected a duration from 1s to 31d, such as 90s, 15m or 24h".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = duration::parse(&format!("1{unit}")).filter(|_| unit.len() == 1);
    let number = number.parse::<f64>().ok().filter(|number| *number > 0.0);
    number
        .zip(seconds)
        .map(|(number, seconds)| number / seconds.as_secs_f64())
        .filter(|rate| *rate <= RATE_MAX)
        .ok_or_else(|| "expected a number of events and a unit of time, such as 10/s, 90/m or 1000000/d, at most 1000000/s".to_owned())
}

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

fn lines(forecasts: &[Forecast], scenario: &Scenario, width: Option<usize>) -> Vec<Line> {
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
    let cells: [(&str, Cell); 12] = [
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
        ("Comeback costs", |it| {
            let dollar = it.dollars;
            let [full, alone] =
                [dollar.comeback_in_full_batches, dollar.comeback_each_alone].map(dollars);
            format!("{full} (ten in a batch) to {alone} (each alone)")
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
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        simulate: SimulateArgs,
    }

    #[test]
    fn a_policys_own_settings_override_those_for_all() {
        let read = |line: &str| {
            let args = Args::try_parse_from(line.split('|').map(str::trim)).unwrap();
            candidates(&args.simulate)
        };
        let all = "simulate | --set=MAX_AGE=1h | --policy=calm: MAX_AGE=7d | --policy=plain:";
        let all = read(all).unwrap();
        let ages: Vec<_> = all.iter().map(|it| it.policy.max_age.as_secs() / 3600).collect();
        assert_eq!(ages, [7 * 24, 1]);
        let only = read("simulate").unwrap();
        assert_eq!(only.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), [ONLY]);
        let bad = read("simulate | --set=MAX_AGE=soon").unwrap_err();
        assert!(bad.to_string().starts_with("MAX_AGE must be a duration"), "{bad}");
    }

    #[test]
    fn a_policy_is_a_name_and_settings() {
        let calm = policy("calm: BASE_BACKOFF=10s  MAX_AGE=7d").unwrap();
        let settings = [("BASE_BACKOFF", "10s"), ("MAX_AGE", "7d")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(calm, Policy { name: "calm".into(), settings: settings.into() });
        assert_eq!(policy("as it is:").unwrap().settings, []);
        for (text, part) in [
            ("calm", "expected a name and settings"),
            (": JITTER=none", "expected a name and settings"),
            ("JITTER=none MAX_AGE=7d:", "expected a name and settings"),
            ("calm: JITTER", "expected NAME=VALUE"),
            ("calm: NOISE=1", "expected one of BASE_BACKOFF"),
        ] {
            let refused = policy(text).unwrap_err();
            assert!(refused.starts_with(part), "{text:?}: {refused}");
        }
    }

    #[test]
    fn a_rate_is_a_number_for_a_unit_of_time() {
        for (text, expected) in
            [("10/s", 10.0), ("10", 10.0), ("90/m", 1.5), ("0.5/s", 0.5), ("864000/d", 10.0)]
        {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in ["", "0/s", "-1/s", "10/w", "10/ms", "x/s", "inf/s", "nan/s", "10/2s", "2e6/s"]
        {
            assert!(rate(text).is_err(), "{text}");
        }
    }

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
            Candidate::read(name, read).unwrap()
        };
        let candidates = [candidate("calm", "12h", "24h"), candidate("R&D <eager>", "1m", "5m")];
        (candidates.iter().map(|it| rules::simulate(it, &scenario)).collect(), scenario)
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
