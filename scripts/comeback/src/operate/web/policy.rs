//! The page that compares a policy with the deployed one, by the handler's own rules and those of `comeback simulate`.

use std::time::Duration;

use crate::operate::{
    simulate::rules::{Candidate, Forecast, Run, Scenario, simulate},
    web::rules::round_step,
};
use comeback_core::duration::{format, parse};
use maud::{Markup, html};

use super::{guard::Params, html::Untrusted, live::Live};
use crate::operate::{
    simulate::facts::{ATTEMPTS_TITLE, OUTAGE_TITLE, Table, attempts, outage_sentence, outages},
    text::{count, dollars, number, span},
};

const BASES: [&str; 9] = ["1s", "2s", "5s", "10s", "30s", "1m", "5m", "15m", "1h"];
const CEILINGS: [&str; 10] = ["10s", "30s", "1m", "5m", "15m", "1h", "3h", "6h", "12h", "1d"];
const AGES: [&str; 8] = ["1h", "6h", "12h", "1d", "2d", "3d", "7d", "13d"];
const OUTAGES: [&str; 9] = ["1m", "5m", "15m", "30m", "1h", "2h", "6h", "12h", "1d"];

/// The sliders: name, label, values, and initial value.
const SLIDERS: [(&str, &str, &[&str], &str); 4] = [
    ("base", "First wait (BASE_BACKOFF)", &BASES, "1s"),
    ("ceiling", "Longest wait (MAX_BACKOFF)", &CEILINGS, "12h"),
    ("age", "Given up after (MAX_AGE)", &AGES, "1d"),
    ("outage", "The function is down for", &OUTAGES, "1h"),
];

/// The run of a function that COST.md assumes.
const RUN: Run = Run { milliseconds: 100, memory_mb: 128 };

const EVENTS_PER_SECOND: f64 = 1.0;

const SEED: u64 = 1;

const DAY_SECONDS: f64 = 86_400.0;

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

fn chosen(params: &Params, name: &str) -> (usize, &'static str) {
    let Some((_, _, choices, usual)) = SLIDERS.iter().find(|(it, ..)| *it == name) else {
        return (0, "1s");
    };
    let nth = params.number::<usize>(name).filter(|nth| *nth < choices.len());
    let nth = nth.or_else(|| choices.iter().position(|it| it == usual)).unwrap_or(0);
    (nth, choices[nth])
}

/// The forecasts of the deployed policy, if it is known, and of the proposed one.
fn play(deployed: Option<Candidate>, params: &Params) -> Result<(Vec<Forecast>, Scenario), String> {
    let setting = |name: &str| match name {
        "BASE_BACKOFF" => Some(chosen(params, "base").1.to_owned()),
        "MAX_BACKOFF" => Some(chosen(params, "ceiling").1.to_owned()),
        "MAX_AGE" => Some(chosen(params, "age").1.to_owned()),
        _ => None,
    };
    let proposed = Candidate::read("proposed", setting).map_err(|error| error.to_string())?;
    let outage = parse(chosen(params, "outage").1).unwrap_or(Duration::from_hours(1));
    let scenario = Scenario { outage, events_per_second: EVENTS_PER_SECOND, run: RUN, seed: SEED };
    let candidates = deployed.into_iter().chain([proposed]);
    Ok((candidates.map(|it| simulate(&it, &scenario)).collect(), scenario))
}

/// The general policy of the handler.
fn deployed(live: &Live) -> Option<Candidate> {
    let settings = live.seen().handler.as_ref()?.environment.clone();
    Candidate::read("deployed", |name| settings.get(name).cloned()).ok()
}

pub fn page(live: &Live, params: &Params) -> Markup {
    html! {
        p { "Move a slider to see what a policy means for your events, before you deploy it. The handler's own code computes this." }
        @if let Some(Candidate { policy, .. }) = deployed(live) {
            p.faint { "The deployed policy: waits of up to " (format(policy.backoff.base)) ", doubled up to " (format(policy.backoff.max)) ", for " (format(policy.max_age)) "." }
        }
        form.sliders method="get" action="/policy" data-live="forecast" {
            @for (name, label, choices, _) in SLIDERS {
                @let (nth, value) = chosen(params, name);
                div {
                    label for=(name) { (label) ": " }
                    // If the label enclosed both, it would label the output and not the slider.
                    output for=(name) data-choices=(choices.join(" ")) { (value) }
                    input #(name) type="range" name=(name) min="0" max=(choices.len() - 1) value=(nth) aria-valuetext=(value);
                }
            }
            noscript { button { "Show" } }
        }
        div #forecast { (forecast(live, params)) }
    }
}

/// The part that is updated when a slider moves.
pub fn forecast(live: &Live, params: &Params) -> Markup {
    match play(deployed(live), params) {
        Ok((forecasts, scenario)) => shown(&forecasts, &scenario),
        Err(error) => {
            html! { p.notice.bad { "The handler would not start with these settings. " (Untrusted(&error)) } }
        }
    }
}

fn shown(forecasts: &[Forecast], scenario: &Scenario) -> Markup {
    let medians = |it: &Forecast| -> Vec<(f64, f64)> {
        let times = it.attempts.times.iter().filter(|it| it.share >= 0.5);
        times.map(|it| (it.after_seconds.median, f64::from(it.attempt.get()))).collect()
    };
    let retries = |it: &Forecast| -> Vec<(f64, f64)> {
        it.outage.timeline.iter().map(|it| (it.seconds, it.retries_per_second)).collect()
    };
    html! {
        (table(&essence(forecasts, &medians)))
        (chart("When each attempt is made, at the median", "the number of the attempt", forecasts, &medians, true))
        (chart("Retries a second from the beginning of the outage", "retries a second", forecasts, &retries, false))
        h2 { (OUTAGE_TITLE) ": " (outage_sentence(scenario)) }
        (table(&outages(forecasts)))
        h2 { (ATTEMPTS_TITLE) }
        (table(&attempts(forecasts)))
    }
}

/// What people ask first, for each policy.
fn essence(forecasts: &[Forecast], medians: &dyn Fn(&Forecast) -> Vec<(f64, f64)>) -> Table {
    let row = |name: &str, cell: &dyn Fn(&Forecast) -> String| {
        [name.to_owned()].into_iter().chain(forecasts.iter().map(cell)).collect()
    };
    let longest =
        |it: &Forecast| it.attempts.times.iter().map(|it| it.ceiling_seconds).fold(0.0, f64::max);
    let names = forecasts.iter().map(|it| it.policy.clone());
    Table {
        header: [String::new()].into_iter().chain(names).collect(),
        rows: vec![
            row("retries of an event in its first day", &|it| {
                count(medians(it).iter().filter(|(at, _)| *at <= DAY_SECONDS).count() as u64)
            }),
            row("longest wait", &|it| span(longest(it))),
            row("Comeback costs, for the outage", &|it| {
                dollars(it.outage.dollars.comeback_in_full_batches)
            }),
        ],
    }
}

/// The curves of all policies over each other. The curve is stretched to the size of the page, the texts are not.
fn chart(
    title: &str,
    unit: &str,
    forecasts: &[Forecast],
    points: &dyn Fn(&Forecast) -> Vec<(f64, f64)>,
    is_log: bool,
) -> Markup {
    let curves: Vec<_> = forecasts.iter().map(|it| (&it.policy, points(it))).collect();
    let all = || curves.iter().flat_map(|(_, points)| points);
    let right = all().map(|(x, _)| *x).fold(1.0, f64::max);
    let step = nice(all().map(|(_, y)| *y).fold(0.0, f64::max));
    let top = (all().map(|(_, y)| *y).fold(step, f64::max) / step).ceil() * step;
    let x = |seconds: f64| {
        let part =
            if is_log { seconds.max(1.0).ln() / right.max(2.0).ln() } else { seconds / right };
        part * 100.0
    };
    let y = |value: f64| 100.0 - value / top * 100.0;
    let linear = round_step(right, 4.0);
    let ticks: Vec<(f64, String)> = if is_log {
        let inside = DECADES.iter().filter(|(at, _)| *at <= right);
        inside.map(|(at, name)| (*at, (*name).to_owned())).collect()
    } else {
        (0..)
            .map(|nth| f64::from(nth) * linear)
            .take_while(|at| *at <= right)
            .map(|at| (at, span(at)))
            .collect()
    };
    let line = |points: &[(f64, f64)]| {
        points
            .iter()
            .map(|(at, value)| format!("{:.2},{:.2} ", x(*at), y(*value)))
            .collect::<String>()
    };
    html! {
        h2 { (title) }
        figure.plot {
            svg width="100%" height="220" role="img" aria-label=(format!("{title}; the tables have the same numbers")) {
                @for nth in 0..=4 {
                    @let value = f64::from(nth) * step;
                    @if value <= top {
                        line x1="0" x2="100%" y1=(format!("{:.1}%", y(value))) y2=(format!("{:.1}%", y(value))) {}
                        text x="-6" y=(format!("{:.1}%", y(value))) dy="4" text-anchor="end" { (number(value)) }
                    }
                }
                @for (at, name) in &ticks {
                    line x1=(format!("{:.1}%", x(*at))) x2=(format!("{:.1}%", x(*at))) y1="0" y2="100%" {}
                    text x=(format!("{:.1}%", x(*at))) y="100%" dy="16" text-anchor="middle" { (name) }
                }
                svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none" {
                    @for (policy, points) in &curves { polyline class=(policy) points=(line(points)) {} }
                }
            }
            figcaption { @for (policy, _) in &curves { span class=(format!("key {policy}")) { (policy) } " " } span.faint { "upwards: " (unit) } }
        }
    }
}

/// A round distance of at most five ticks from zero to this value.
fn nice(most: f64) -> f64 {
    let scale = 10_f64.powf((most.max(0.1) / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|it| it * scale * 4.0 >= most);
    step.unwrap_or(10.0) * scale
}

fn table(Table { header, rows }: &Table) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            thead { tr { @for cell in header { @if cell.is_empty() { td {} } @else { th { (cell) } } } } }
            tbody { @for row in rows { tr { @for (nth, cell) in row.iter().enumerate() {
                @if nth == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
            } } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_of_each_slider_is_a_duration_that_the_handler_takes_by_itself() {
        for (name, _, choices, usual) in SLIDERS {
            assert!(choices.contains(&usual), "{name}");
            for choice in choices {
                assert!(parse(choice).is_some(), "{name} {choice}");
            }
        }
        assert!(play(None, &Params::default()).is_ok());
        let bad = Params::parse(b"base=8&ceiling=0");
        assert!(play(None, &bad).unwrap_err().contains("BACKOFF"), "a base over the ceiling");
    }

    #[test]
    fn an_axis_of_values_has_round_ticks_up_to_the_largest() {
        for (most, expected) in [(0.0, 0.01), (3.0, 1.0), (17.0, 5.0), (240.0, 100.0)] {
            assert!((nice(most) - expected).abs() < 1e-9, "{most}: {}", nice(most));
        }
    }
}
