//! The page that simulates a policy with the handler's own rules, with the charts of `comeback simulate`.

use std::time::Duration;

use crate::operate::simulate::rules::{Candidate, Forecast, Run, Scenario, simulate};
use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use comeback_core::duration::{format, parse};
use maud::{Markup, html};

use super::{html::Untrusted, live::Live, params::Params};
use crate::operate::simulate::{
    charts,
    facts::{ATTEMPTS_TITLE, OUTAGE_TITLE, Table, attempts, outage_sentence, outages},
};

const BASES: [&str; 9] = ["1s", "2s", "5s", "10s", "30s", "1m", "5m", "15m", "1h"];
const CEILINGS: [&str; 10] = ["10s", "30s", "1m", "5m", "15m", "1h", "3h", "6h", "12h", "1d"];
const AGES: [&str; 8] = ["1h", "6h", "12h", "1d", "2d", "3d", "7d", "13d"];
const OUTAGES: [&str; 9] = ["1m", "5m", "15m", "30m", "1h", "2h", "6h", "12h", "1d"];

/// The sliders: name, label, values, and initial value.
const SLIDERS: [(&str, &str, &[&str], &str); 4] = [
    ("base", "First wait at most (BASE_BACKOFF)", &BASES, "1s"),
    ("ceiling", "Longest wait (MAX_BACKOFF)", &CEILINGS, "12h"),
    ("age", "Given up after (MAX_AGE)", &AGES, "1d"),
    ("outage", "The function is down for", &OUTAGES, "1h"),
];

/// The run of a function that COST.md assumes.
const RUN: Run = Run { milliseconds: 100, memory_mb: 128 };

const EVENTS_PER_SECOND: f64 = 1.0;

const SEED: u64 = 1;

fn chosen(params: &Params, name: &str) -> (usize, &'static str) {
    let Some((_, _, choices, usual)) = SLIDERS.iter().find(|(it, ..)| *it == name) else {
        return (0, "1s");
    };
    let nth = params.number::<usize>(name).filter(|nth| *nth < choices.len());
    let nth = nth.or_else(|| choices.iter().position(|it| it == usual)).unwrap_or(0);
    (nth, choices[nth])
}

fn play(params: &Params) -> Result<(Forecast, Scenario), String> {
    let setting = |name: &str| match name {
        "BASE_BACKOFF" => Some(chosen(params, "base").1.to_owned()),
        "MAX_BACKOFF" => Some(chosen(params, "ceiling").1.to_owned()),
        "MAX_AGE" => Some(chosen(params, "age").1.to_owned()),
        _ => None,
    };
    let candidate = Candidate::read("this policy", setting).map_err(|error| error.to_string())?;
    let outage = parse(chosen(params, "outage").1).unwrap_or(Duration::from_hours(1));
    let scenario = Scenario { outage, events_per_second: EVENTS_PER_SECOND, run: RUN, seed: SEED };
    Ok((simulate(&candidate, &scenario), scenario))
}

pub fn page(live: &Live, params: &Params) -> Markup {
    let functions = live.seen().functions.iter().map(|it| it.function.clone()).collect::<Vec<_>>();
    let policy =
        functions.first().and_then(|function| live.policy(&super::live::bare_name(function)));
    html! {
        p { "Move a slider to see what a policy means for your events, before you deploy it. The handler's own code computes this." }
        @if let Some(policy) = policy {
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
        div #forecast { (forecast(params)) }
    }
}

/// The part that is updated when a slider moves.
pub fn forecast(params: &Params) -> Markup {
    let (forecast, scenario) = match play(params) {
        Ok(played) => played,
        Err(error) => {
            return html! { p.notice.bad { "The handler would not start with these settings. " (Untrusted(&error)) } };
        }
    };
    let forecasts = [forecast];
    html! {
        img.chart src=(format!("/policy.svg?{params}")) width="960" height="1440"
            alt="Charts of when attempts fall, and of retries and waiting events during the outage. The tables have the same numbers.";
        h2 { (ATTEMPTS_TITLE) }
        (table(&attempts(&forecasts)))
        h2 { (OUTAGE_TITLE) ": " (outage_sentence(&scenario)) }
        (table(&outages(&forecasts)))
    }
}

fn table(Table { header, rows }: &Table) -> Markup {
    html! {
        div.wide { table {
            thead { tr { @for cell in header { @if cell.is_empty() { td {} } @else { th { (cell) } } } } }
            tbody { @for row in rows { tr { @for (nth, cell) in row.iter().enumerate() {
                @if nth == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
            } } } }
        } }
    }
}

pub fn picture(params: &Params) -> Response {
    let drawn = play(params).and_then(|(forecast, scenario)| {
        charts::draw(&[forecast], &scenario).map_err(|error| error.to_string())
    });
    match drawn {
        Ok(svg) => ([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response(),
        Err(error) => super::html::plain(axum::http::StatusCode::BAD_REQUEST, &error),
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
        assert!(play(&Params::default()).is_ok());
        let bad = Params::parse(b"base=8&ceiling=0");
        assert!(forecast(&bad).into_string().contains("BACKOFF"), "a base over the ceiling");
    }
}
