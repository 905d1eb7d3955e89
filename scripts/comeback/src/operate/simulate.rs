//! `comeback simulate`: simulates policies before they are deployed.

pub mod charts;
pub mod rules;
pub mod tables;

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use comeback_core::settings::BadSettings;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    failure::Failure,
    functions::{Setting, setting},
    operate::simulate::rules::{Candidate, Forecast, Of, Run, Scenario},
    shell::{Outcome, Shell},
    typed::{Rate, duration, not_empty, rate},
};

/// The name of the policy if there is no `--policy`.
const ONLY: &str = "policy";

const OUTAGE_MAX: Duration = Duration::from_hours(31 * 24);

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
    #[arg(long, value_name = "NUMBER[/UNIT]", default_value = "10/s", value_parser = rate)]
    pub rate: Rate,
    /// The type of the error with which the function fails, as its runtime reports it. Its policy in ERRORS decides.
    #[arg(long, value_name = "TYPE", value_parser = not_empty)]
    pub error: Option<String>,
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

fn policy(text: &str) -> Result<Policy, String> {
    const EXPECTED: &str =
        "expected a name and settings, such as 'calm: BASE_BACKOFF=10s MAX_AGE=7d'";
    let (name, settings) = text.split_once(':').ok_or(EXPECTED)?;
    let name = name.trim();
    if name.is_empty() || name.contains('=') {
        return Err(EXPECTED.to_owned());
    }
    let settings = words(settings).iter().map(|word| of_policy(word)).collect::<Result<_, _>>()?;
    Ok(Policy { name: name.to_owned(), settings })
}

/// The settings in a text. The JSON of one may have spaces, so a setting ends where the next one begins.
fn words(settings: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in settings.split_whitespace() {
        let is_name = |name: &str| name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_');
        let begins = word.split_once('=').is_some_and(|(name, _)| is_name(name));
        match words.last_mut() {
            Some(last) if !begins && last.contains(['{', '[']) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// A setting of a policy. The errors of all functions stand in POLICIES, as the handler reads them.
fn of_policy(word: &str) -> Result<Setting, String> {
    match word.strip_prefix("ERRORS=") {
        Some(errors) => Ok(("POLICIES".to_owned(), format!(r#"{{"*":{{"ERRORS":{errors}}}}}"#))),
        None => setting(word),
    }
}

fn outage(text: &str) -> Result<Duration, String> {
    duration(text)
        .ok()
        .filter(|outage| (Duration::from_secs(1)..=OUTAGE_MAX).contains(outage))
        .ok_or_else(|| "expected a duration from 1s to 31d, such as 90s, 15m or 24h".to_owned())
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct SimulateJson {
    scenario: Scenario,
    policies: Vec<Forecast>,
}

pub fn document(args: &SimulateArgs) -> Result<SimulateJson, Failure> {
    let candidates = candidates(args)?;
    let run = Run { milliseconds: args.run_ms, memory_mb: args.memory };
    let scenario = Scenario {
        outage: args.outage,
        events_per_second: args.rate.per_second(),
        run,
        seed: args.seed,
    };
    let policies = simulate(&candidates, &scenario);
    Ok(SimulateJson { scenario, policies })
}

pub async fn run(args: &SimulateArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let document = document(args)?;
    let SimulateJson { scenario, policies: forecasts } = &document;
    if args.svg.is_some() || args.html.is_some() {
        let charts = charts::draw(forecasts, scenario);
        if let Some(path) = &args.svg {
            write(path, &charts)?;
        }
        if let Some(path) = &args.html {
            write(path, &charts::page(forecasts, scenario, &charts))?;
        }
    }
    if args.json {
        shell.print_json(&document).await?;
    } else {
        shell.print(&tables::lines(forecasts, scenario, shell.width())).await?;
    }
    Ok(Outcome::Success)
}

/// The policies. The settings of each override those of `--set`.
fn candidates(args: &SimulateArgs) -> Result<Vec<Candidate>, BadSettings> {
    let only = [Policy { name: ONLY.to_owned(), settings: Vec::new() }];
    let named = if args.policy.is_empty() { &only } else { args.policy.as_slice() };
    let read = |Policy { name, settings }: &Policy| {
        Candidate::read(name, Of::Error(args.error.as_deref()), |wanted| {
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

#[cfg(test)]
mod tests {
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
    fn the_first_error_that_matches_decides_and_what_it_does_not_set_is_the_policys() {
        let read = |error: &[&str]| {
            let errors = r#"own: MAX_AGE=2d ERRORS={"RateLimited*": {"BACKOFFS": "1m, 3h", "JITTER": "none"}, "*": {"MAX_ATTEMPTS": 1}}"#;
            let args = [&["simulate", "--policy", errors], error].concat();
            let args = Args::try_parse_from(args).unwrap();
            let mut all = candidates(&args.simulate).unwrap();
            let scenario = Scenario {
                outage: args.simulate.outage,
                events_per_second: 0.01,
                run: Run { milliseconds: 1, memory_mb: 128 },
                seed: 1,
            };
            let forecast = rules::simulate(&all[0], &scenario);
            let medians = forecast.attempts.times.iter().map(|it| it.after_seconds.median);
            (all.remove(0).decides, medians.take(3).collect::<Vec<_>>())
        };
        let limited = read(&["--error", "app.RateLimitedError"]);
        let name = "RateLimited* of *".to_owned();
        assert_eq!(limited, (Some(name), vec![60.0, 10_860.0, 21_660.0]));
        let (name, other) = read(&["--error", "Down"]);
        assert_eq!((name.as_deref(), other.len()), (Some("* of *"), 1));
        let (name, general) = read(&[]);
        assert_eq!((name, general.len()), (None, 3), "an unknown error has no policy of its own");
        let bad = r#"simulate | --policy=bad: ERRORS={"A":{"BACKOFFS":"1m","BASE_BACKOFF":"1s"}}"#;
        let bad = Args::try_parse_from(bad.split('|').map(str::trim)).unwrap();
        let bad = candidates(&bad.simulate).unwrap_err().to_string();
        assert!(
            bad.contains("POLICIES.*.ERRORS.A.BACKOFFS must be absent beside BASE_BACKOFF"),
            "{bad}"
        );
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
}
