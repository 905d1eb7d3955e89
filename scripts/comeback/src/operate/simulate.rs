//! `comeback simulate`: simulates policies before they are deployed.

pub mod args;
pub mod charts;
pub mod facts;
mod html;
pub mod rules;

use std::{fs, io, path::Path, thread};

use crate::operate::simulate::rules::{Candidate, Forecast, Run, Scenario};
use args::{Policy, SimulateArgs};
use comeback_core::settings::BadSettings;
use serde::Serialize;

use crate::{
    settings::Setting,
    shell::{Failure, Outcome, Shell},
};

/// The name of the policy if there is no `--policy`.
const ONLY: &str = "policy";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    scenario: Scenario,
    policies: &'a [Forecast],
}

pub async fn run(args: &SimulateArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let candidates = candidates(args)?;
    let run = Run { milliseconds: args.run_ms, memory_mb: args.memory };
    let scenario =
        Scenario { outage: args.outage, events_per_second: args.rate, run, seed: args.seed };
    let forecasts = simulate(&candidates, &scenario);
    if args.svg.is_some() || args.html.is_some() {
        let charts = charts::draw(&forecasts, &scenario)?;
        if let Some(path) = &args.svg {
            write(path, &charts)?;
        }
        if let Some(path) = &args.html {
            write(path, &html::page(&forecasts, &scenario, &charts))?;
        }
    }
    if args.json {
        let document = Document { scenario, policies: &forecasts };
        shell.print_json(&document).await?;
    } else {
        shell.print(&facts::lines(&forecasts, &scenario, shell.width())).await?;
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
    use std::time::Duration;

    use super::*;

    fn setting(name: &str, value: &str) -> Setting {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_policys_own_settings_override_those_for_all() {
        let calm = Policy { name: "calm".into(), settings: vec![setting("MAX_AGE", "7d")] };
        let plain = Policy { name: "plain".into(), settings: Vec::new() };
        let args = |set: Vec<Setting>, policy: Vec<Policy>| SimulateArgs {
            set,
            policy,
            outage: Duration::from_secs(60),
            rate: 1.0,
            run_ms: 100,
            memory: 128,
            seed: 1,
            svg: None,
            html: None,
            json: false,
        };
        let all =
            args(vec![setting("MAX_AGE", "1h"), setting("JITTER", "none")], vec![calm, plain]);
        let read = candidates(&all).unwrap();
        let ages: Vec<_> = read.iter().map(|it| it.policy.max_age.as_secs() / 3600).collect();
        assert_eq!(ages, [7 * 24, 1]);
        let only = candidates(&args(Vec::new(), Vec::new())).unwrap();
        assert_eq!(only.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), [ONLY]);
        let bad = candidates(&args(vec![setting("MAX_AGE", "soon")], Vec::new())).unwrap_err();
        assert!(bad.to_string().starts_with("MAX_AGE must be a duration"), "{bad}");
    }
}
