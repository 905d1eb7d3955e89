//! The page that compares a policy with the deployed one, by the handler's own rules and those of `comeback simulate`.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{
    duration::{format, parse},
    settings::{Settings, policy::Policy},
};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    html::{Params, Untrusted},
    live::Live,
};

use crate::{
    operate::{
        plot::{Axis, Curve, highest, plot},
        simulate::{
            rules::{Candidate, Forecast, Of, Run, Scenario, simulate},
            tables::{
                ATTEMPTS_TITLE, OUTAGE_TITLE, Table, attempts, outage_sentence, outages, row,
                with_policies,
            },
        },
    },
    text::{count, counted, dollars, span},
};

/// A slider: its name, its label, and its values.
type Slider = (&'static str, &'static str, &'static str);

/// What can be chosen for a first wait, for a longest wait, and for the time after which an event is given up.
const FIRST: &str = "1s 2s 5s 10s 30s 1m 5m 15m 1h";
const LONGEST: &str = "10s 30s 1m 5m 15m 1h 3h 6h 12h 1d";
const AGES: &str = "1h 6h 12h 1d 2d 3d 7d 13d";

/// The sliders of settings, with the setting's name.
const SETTINGS: [(&str, Slider); 3] = [
    ("BASE_BACKOFF", ("base", "First wait (BASE_BACKOFF)", FIRST)),
    ("MAX_BACKOFF", ("ceiling", "Longest wait (MAX_BACKOFF)", LONGEST)),
    ("MAX_AGE", ("age", "Given up after (MAX_AGE)", AGES)),
];

const OUTAGE: Slider = ("outage", "The function is down for", "1m 5m 15m 30m 1h 2h 6h 12h 1d");

/// The outage to begin with, and the longest wait of the proposal to begin with. If that is deployed, the next longer
/// one is proposed, so that there is something to compare.
const OUTAGE_FIRST: &str = "1h";
const CEILING_FIRST: &str = "15m";

/// The run of a function that COST.md assumes.
const RUN: Run = Run { milliseconds: 100, memory_mb: 128 };

const EVENTS_PER_SECOND: f64 = 1.0;

const SEED: u64 = 1;

const DAY_SECONDS: f64 = 86_400.0;

/// The choice of a slider: the one in the address, or else the longest that is not longer than `first`.
fn chosen((name, _, choices): Slider, params: &Params, first: Duration) -> (usize, &'static str) {
    let choices: Vec<_> = choices.split(' ').collect();
    let nth = params.number::<usize>(name).filter(|nth| *nth < choices.len());
    let is_short = |it: &&str| parse(it).is_none_or(|it| it <= first);
    let nth = nth.unwrap_or_else(|| choices.partition_point(is_short).max(1) - 1);
    (nth, choices[nth])
}

/// What the form says: the error whose policy is compared, by the policy's name, the proposed settings, and the outage.
struct Chosen {
    error: Option<String>,
    settings: [(&'static str, Slider, usize, &'static str); 3],
    outage: (usize, &'static str),
}

impl Chosen {
    /// Without parameters, the proposal is the deployed policy with another longest wait.
    fn of(deployed: Option<&Candidate>, params: &Params) -> Self {
        let known = |text: &str| parse(text).unwrap_or_default();
        let error = deployed.and_then(|it| it.decides.clone());
        let default = Policy::default();
        let policy = deployed.map_or(&default, |it| &it.policy);
        let (shortest, longest) = (policy.shortest(), policy.longest());
        let of = |(setting, slider): (&'static str, Slider), first| {
            let (nth, value) = chosen(slider, params, first);
            (setting, slider, nth, value)
        };
        let [base, ceiling, age] = SETTINGS;
        let mut ceiling = of(ceiling, known(CEILING_FIRST).max(shortest));
        let (_, (name, _, choices), nth, value) = &mut ceiling;
        let is_deployed = deployed.is_some() && parse(value) == Some(longest);
        if params.get(name).is_none()
            && is_deployed
            && let Some(longer) = choices.split(' ').nth(*nth + 1)
        {
            (*nth, *value) = (*nth + 1, longer);
        }
        let settings = [of(base, shortest), ceiling, of(age, policy.max_age)];
        Self { error, settings, outage: chosen(OUTAGE, params, known(OUTAGE_FIRST)) }
    }

    fn setting(&self, wanted: &str) -> Option<&'static str> {
        self.settings.iter().find(|(setting, ..)| *setting == wanted).map(|(.., value)| *value)
    }

    fn scenario(&self) -> Scenario {
        let outage = parse(self.outage.1).unwrap_or(Duration::from_hours(1));
        Scenario { outage, events_per_second: EVENTS_PER_SECOND, run: RUN, seed: SEED }
    }
}

/// The settings of the deployed handler, which the proposal changes.
type Environment = BTreeMap<String, String>;

fn environment(live: &Live) -> Environment {
    live.seen().handler.as_ref().map(|it| it.environment.clone()).unwrap_or_default()
}

/// The deployed policy, or that of the error whose policy has the name in the parameters.
fn deployed(environment: &Environment, params: &Params) -> Option<Candidate> {
    let is_known = !environment.is_empty();
    let of = params.get("error").map_or(Of::Error(None), Of::Named);
    let candidate = Candidate::read("deployed", of, |name| environment.get(name).cloned());
    candidate.ok().filter(|_| is_known)
}

/// The names of the policies that errors have of their own.
fn errors(environment: &Environment) -> Vec<String> {
    let settings = Settings::from_lookup(|name| environment.get(name).cloned());
    let named = |settings: &Settings| {
        let own = settings.rules.policies.of_errors();
        own.map(|own| own.name.clone()).collect()
    };
    settings.as_ref().map(named).unwrap_or_default()
}

/// `POLICIES` in which the error of this name has the proposed settings. Its others stay.
fn with_error(environment: &Environment, name: &str, chosen: &Chosen) -> Value {
    let (pattern, target) = name.rsplit_once(" of ").unwrap_or((name, "*"));
    let deployed = environment.get("POLICIES").and_then(|text| serde_json::from_str(text).ok());
    let mut of_target = deployed
        .and_then(|mut all: Value| all.get_mut(target).map(Value::take))
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    let mut own = of_target["ERRORS"][pattern].take();
    if !own.is_object() {
        own = json!({});
    }
    // A list would stand beside what replaces it.
    own.as_object_mut().map(|own| own.remove("BACKOFFS"));
    for (setting, .., value) in chosen.settings {
        own[setting] = value.into();
    }
    of_target["ERRORS"] = json!({ pattern: own });
    json!({ target: of_target })
}

/// The forecasts of the deployed policy, if it is known, and of the proposed one.
fn forecasts(
    environment: &Environment,
    params: &Params,
    chosen: &Chosen,
) -> Result<Vec<Forecast>, String> {
    let of_error = chosen.error.as_deref();
    let policies = of_error.map(|name| with_error(environment, name, chosen).to_string());
    let setting = |name: &str| {
        let proposed = match &policies {
            Some(policies) => (name == "POLICIES").then(|| policies.clone()),
            None => chosen.setting(name).map(str::to_owned),
        };
        proposed.or_else(|| environment.get(name).cloned())
    };
    let of = of_error.map_or(Of::Error(None), Of::Named);
    let proposed = Candidate::read("proposed", of, setting).map_err(|error| error.to_string())?;
    let candidates = deployed(environment, params).into_iter().chain([proposed]);
    let scenario = chosen.scenario();
    Ok(candidates.map(|it| simulate(&it, &scenario)).collect())
}

pub fn page(live: &Live, params: &Params) -> Markup {
    let environment = environment(live);
    let errors = errors(&environment);
    let deployed = deployed(&environment, params);
    let chosen = Chosen::of(deployed.as_ref(), params);
    let slider = |(name, label, choices): Slider, nth: usize, value: &str| {
        html! {
            div {
                label for=(name) { (label) ": " }
                // If the label enclosed both, it would label the output and not the slider.
                output for=(name) data-choices=(choices) { (value) }
                input #(name) type="range" name=(name) min="0" max=(choices.matches(' ').count())
                    value=(nth) aria-valuetext=(value);
            }
        }
    };
    html! {
        p {
            "Move a slider to see what a policy means for your events, before you deploy it. The handler's \
            own code computes this, for "
            strong { (counted(EVENTS_PER_SECOND as u64, "event")) " a second" } "."
        }
        form.sliders method="get" action="/policy" data-live="forecast" {
            @if !errors.is_empty() {
                div {
                    label for="error" { "The policy for: " }
                    select #error name="error" {
                        option value="" { "events with any other error" }
                        @for name in &errors {
                            option value=(name) selected[chosen.error.as_ref() == Some(name)] { (Untrusted(name)) }
                        }
                    }
                }
            }
            @for (_, it, nth, value) in chosen.settings { (slider(it, nth, value)) }
            (slider(OUTAGE, chosen.outage.0, chosen.outage.1))
            noscript { button { "Show" } }
        }
        div #forecast { (forecast(live, params)) }
    }
}

/// The part that is updated when a slider moves.
pub fn forecast(live: &Live, params: &Params) -> Markup {
    let environment = environment(live);
    let deployed = deployed(&environment, params);
    let chosen = Chosen::of(deployed.as_ref(), params);
    match forecasts(&environment, params, &chosen) {
        Ok(forecasts) => {
            html! { (is_deployed(deployed.as_ref())) (copy(&environment, &chosen)) (shown(&forecasts, &chosen.scenario())) }
        }
        Err(error) => {
            html! { p.notice.bad { "The handler would not start with these settings. " (Untrusted(&error)) } }
        }
    }
}

/// What the deployed policy says.
fn is_deployed(deployed: Option<&Candidate>) -> Markup {
    let Some(Candidate { policy, decides, .. }) = deployed else { return html! {} };
    html! {
        p.faint {
            "The deployed policy"
            @if let Some(name) = decides { " for " (Untrusted(name)) }
            ": waits of at most "
            @if policy.backoffs.is_empty() {
                (format(policy.backoff.base)) " at first, a ceiling that doubles up to "
                (format(policy.backoff.max))
            } @else {
                (policy.backoffs.to_string().replace(',', ", ")) ", one after the other"
            }
            ", for " (format(policy.max_age)) "."
        }
    }
}

/// The proposed settings, to deploy them.
fn copy(environment: &Environment, chosen: &Chosen) -> Markup {
    let settings = chosen.settings.map(|(setting, .., value)| format!("{setting}={value}"));
    let text = match &chosen.error {
        Some(name) => format!("POLICIES={}", with_error(environment, name, chosen)),
        None => settings.join("\n"),
    };
    html! {
        h2 { "The proposed settings" }
        @if chosen.error.is_some() { p.faint { "The other members of POLICIES stay as they are." } }
        div.copy {
            pre #settings tabindex="0" { (Untrusted(&text)) }
            button type="button" data-copy="settings" { "Copy" }
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
        (chart(
            "When each attempt is made, at the median",
            "the number of the attempt",
            Axis::log_time,
            forecasts,
            &medians,
        ))
        (chart(
            "Retries a second from the beginning of the outage",
            "retries a second",
            |end| Axis::time(end, 4.0),
            forecasts,
            &retries,
        ))
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
                dollars(it.outage.dollars.drop_in_in_full_batches)
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
            figcaption {
                @for it in &curves { span class=(format!("key {}", it.class)) { (it.class) } " " }
                span.faint { "upwards: " (unit) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_of_each_slider_is_a_duration_that_the_handler_takes_by_itself() {
        for (name, _, choices) in SETTINGS.map(|(_, it)| it).into_iter().chain([OUTAGE]) {
            for choice in choices.split(' ') {
                assert!(parse(choice).is_some(), "{name} {choice}");
            }
        }
        let none = Environment::new();
        assert!(
            forecasts(&none, &Params::default(), &Chosen::of(None, &Params::default())).is_ok()
        );
        let bad = Chosen::of(None, &Params::parse(b"base=8&ceiling=0"));
        assert!(
            forecasts(&none, &Params::default(), &bad).unwrap_err().contains("BACKOFF"),
            "a base over the ceiling"
        );
    }

    #[test]
    fn the_first_proposal_is_the_deployed_policy_with_another_longest_wait() {
        for (settings, expected) in [
            ("DEAD_LETTER_QUEUE_URL=q", ["1s", "15m", "1d"]),
            ("BASE_BACKOFF=7s MAX_BACKOFF=15m MAX_AGE=2d", ["5s", "1h", "2d"]),
            ("BASE_BACKOFF=1h MAX_BACKOFF=1h MAX_AGE=13d", ["1h", "3h", "13d"]),
        ] {
            let pairs = settings.split(' ').filter_map(|it| it.split_once('='));
            let environment = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let environment: Environment = environment.collect();
            let deployed = deployed(&environment, &Params::default());
            let chosen = Chosen::of(deployed.as_ref(), &Params::default());
            assert_eq!(chosen.settings.map(|(.., value)| value), expected, "{settings}");
            let is_other = |it: &Candidate| Some(it.policy.backoff.max) != parse(expected[1]);
            assert!(deployed.as_ref().is_none_or(is_other), "{settings}");
        }
        let given = Params::parse(b"base=0&ceiling=4&age=3");
        let environment = [("MAX_BACKOFF".to_owned(), "15m".to_owned())].into();
        let chosen = Chosen::of(deployed(&environment, &given).as_ref(), &given);
        assert_eq!(chosen.setting("MAX_BACKOFF"), Some("15m"), "what was chosen stays");
    }

    #[test]
    fn the_proposal_keeps_the_other_settings_of_the_handler() {
        let environment = [("MAX_ATTEMPTS".to_owned(), "3".to_owned())].into();
        let chosen =
            Chosen::of(deployed(&environment, &Params::default()).as_ref(), &Params::default());
        for forecast in forecasts(&environment, &Params::default(), &chosen).unwrap() {
            assert_eq!(forecast.attempts.times.len(), 3, "{}", forecast.policy);
        }
    }
    #[test]
    fn the_policy_of_an_error_is_compared_with_one_in_which_only_its_waits_differ() {
        let policies = r#"{"orders":{"MAX_AGE":"2d","ERRORS":{"Limited*":{"BACKOFFS":"1m,3h","MAX_ATTEMPTS":4}}}}"#;
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment: Environment = [
            of("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/0/q"),
            of("POLICIES", policies),
        ]
        .into();
        assert_eq!(errors(&environment), ["Limited* of orders"]);
        let params = Params::parse(b"error=Limited*+of+orders&base=3&ceiling=3&age=3");
        let chosen = Chosen::of(deployed(&environment, &params).as_ref(), &params);
        let forecasts = forecasts(&environment, &params, &chosen).unwrap();
        let ceilings = |it: &Forecast| {
            it.attempts.times.iter().map(|it| it.ceiling_seconds).collect::<Vec<_>>()
        };
        let all: Vec<_> = forecasts.iter().map(ceilings).collect();
        assert_eq!(all, [[60.0, 10_800.0, 10_800.0, 10_800.0], [10.0, 20.0, 40.0, 80.0]]);
        let shown = copy(&environment, &chosen).into_string();
        assert!(
            shown.contains("&quot;MAX_ATTEMPTS&quot;:4") && !shown.contains("BACKOFFS"),
            "{shown}"
        );
        let unknown = Params::parse(b"error=Nobody");
        let chosen = Chosen::of(deployed(&environment, &unknown).as_ref(), &unknown);
        assert_eq!(chosen.error, None);
    }
}
