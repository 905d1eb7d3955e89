//! The command line of `comeback simulate`.

use std::{path::PathBuf, time::Duration};

use comeback_core::duration;

use crate::settings::{self, Setting};

/// Options of `comeback simulate`.
#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// A setting of the retry handler for all policies, such as MAX_AGE=7d; repeatable [default: its own].
    #[arg(long, value_name = "NAME=VALUE", value_parser = settings::parse)]
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
/// A policy on the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: Vec<Setting>,
}

/// The longest outage to simulate.
const OUTAGE_MAX: Duration = Duration::from_hours(31 * 24);

/// The highest rate, in events a second.
const RATE_MAX: f64 = 1e6;

fn policy(text: &str) -> Result<Policy, String> {
    const EXPECTED: &str =
        "expected a name and settings, such as 'calm: BASE_BACKOFF=10s MAX_AGE=7d'";
    let (name, settings) = text.split_once(':').ok_or(EXPECTED)?;
    let name = name.trim();
    if name.is_empty() || name.contains('=') {
        return Err(EXPECTED.to_owned());
    }
    let settings = settings.split_whitespace().map(settings::parse).collect::<Result<_, _>>();
    Ok(Policy { name: name.to_owned(), settings: settings.map_err(|error| error.to_string())? })
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

#[cfg(test)]
mod tests {
    use super::*;

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
