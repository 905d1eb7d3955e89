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

use comeback_core::{duration, settings::BadSettings};
use serde_json::json;

use crate::{
    failure::Failure,
    functions::{Setting, setting},
    operate::simulate::rules::{Candidate, Forecast, Run, Scenario},
    shell::{Outcome, Shell},
};

/// The name of the policy if there is no `--policy`.
const ONLY: &str = "policy";

const OUTAGE_MAX: Duration = Duration::from_hours(31 * 24);

const RATE_MAX: f64 = 1e6;

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
        shell.print(&tables::lines(&forecasts, &scenario, shell.width())).await?;
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
}
