//! The page that compares a policy with the deployed one, by the handler's own rules and those of `comeback simulate`.

use std::time::Duration;

use comeback_core::duration::{format, parse};
use maud::{Markup, html};

use super::{
    html::{Params, Untrusted},
    live::Live,
};
use crate::operate::{
    simulate::{
        ATTEMPTS_TITLE, OUTAGE_TITLE, Table, attempts,
        charts::{Axis, Curve, highest, plot},
        outage_sentence, outages, row,
        rules::{Candidate, Forecast, Run, Scenario, simulate},
        with_policies,
    },
    text::{count, dollars, span},
};

/// The sliders: name, label, values, and initial value.
const SLIDERS: [(&str, &str, &str, &str); 4] = [
    ("base", "First wait (BASE_BACKOFF)", "1s 2s 5s 10s 30s 1m 5m 15m 1h", "1s"),
    ("ceiling", "Longest wait (MAX_BACKOFF)", "10s 30s 1m 5m 15m 1h 3h 6h 12h 1d", "12h"),
    ("age", "Given up after (MAX_AGE)", "1h 6h 12h 1d 2d 3d 7d 13d", "1d"),
    ("outage", "The function is down for", "1m 5m 15m 30m 1h 2h 6h 12h 1d", "1h"),
];

/// The run of a function that COST.md assumes.
const RUN: Run = Run { milliseconds: 100, memory_mb: 128 };

const EVENTS_PER_SECOND: f64 = 1.0;

const SEED: u64 = 1;

const DAY_SECONDS: f64 = 86_400.0;

fn chosen(params: &Params, name: &str) -> (usize, &'static str) {
    let Some((_, _, choices, usual)) = SLIDERS.iter().find(|(it, ..)| *it == name) else {
        return (0, "1s");
    };
    let choices: Vec<_> = choices.split(' ').collect();
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
                    output for=(name) data-choices=(choices) { (value) }
                    input #(name) type="range" name=(name) min="0" max=(choices.matches(' ').count()) value=(nth) aria-valuetext=(value);
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
        (essence(forecasts, &medians))
        (chart("When each attempt is made, at the median", "the number of the attempt", Axis::log_time, forecasts, &medians))
        (chart("Retries a second from the beginning of the outage", "retries a second", |end| Axis::time(end, 4.0), forecasts, &retries))
        h2 { (OUTAGE_TITLE) ": " (outage_sentence(scenario)) }
        (outages(forecasts))
        h2 { (ATTEMPTS_TITLE) }
        (attempts(forecasts))
    }
}

/// What people ask first, for each policy.
fn essence(forecasts: &[Forecast], medians: &dyn Fn(&Forecast) -> Vec<(f64, f64)>) -> Table {
    let longest =
        |it: &Forecast| it.attempts.times.iter().map(|it| it.ceiling_seconds).fold(0.0, f64::max);
    Table {
        header: with_policies("", forecasts),
        rows: vec![
            row("retries of an event in its first day", forecasts, |it| {
                count(medians(it).iter().filter(|(at, _)| *at <= DAY_SECONDS).count() as u64)
            }),
            row("longest wait", forecasts, |it| span(longest(it))),
            row("Comeback costs, for the outage", forecasts, |it| {
                dollars(it.outage.dollars.comeback_in_full_batches)
            }),
        ],
    }
}

/// The curves of all policies over each other.
fn chart(
    title: &str,
    unit: &str,
    x: fn(f64) -> Axis,
    forecasts: &[Forecast],
    points: &dyn Fn(&Forecast) -> Vec<(f64, f64)>,
) -> Markup {
    let curve =
        |it: &Forecast| Curve { class: it.policy.clone(), line: points(it), ..Curve::default() };
    let curves: Vec<_> = forecasts.iter().map(curve).collect();
    let right = curves.iter().flat_map(|it| &it.line).map(|(at, _)| *at).fold(1.0, f64::max);
    html! {
        h2 { (title) }
        figure.plot {
            svg width="100%" height="220" role="img" aria-label=(format!("{title}; the tables have the same numbers")) {
                (plot(&x(right), &highest(&curves), &curves, None))
            }
            figcaption { @for it in &curves { span class=(format!("key {}", it.class)) { (it.class) } " " } span.faint { "upwards: " (unit) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_of_each_slider_is_a_duration_that_the_handler_takes_by_itself() {
        for (name, _, choices, usual) in SLIDERS {
            assert!(choices.split(' ').any(|it| it == usual), "{name}");
            for choice in choices.split(' ') {
                assert!(parse(choice).is_some(), "{name} {choice}");
            }
        }
        assert!(play(None, &Params::default()).is_ok());
        let bad = Params::parse(b"base=8&ceiling=0");
        assert!(play(None, &bad).unwrap_err().contains("BACKOFF"), "a base over the ceiling");
    }
}
