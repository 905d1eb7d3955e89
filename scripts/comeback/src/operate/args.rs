//! The command lines of operators.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::Subcommand;
use comeback_core::duration;
use comeback_operate::dead_letters::{self, GroupBy, Place, Selection};

use crate::settings::{self, Setting};

/// The commands for operators.
#[derive(Debug, Subcommand)]
pub enum Operate {
    /// See what a policy means before you deploy it.
    ///
    /// Plays an event that never succeeds, and an outage of your function, with the retry handler's own rules: when
    /// attempts are made, how much load retries put on the function, how many events wait, when all have come back,
    /// and what that costs. Several policies are compared side by side. Nothing is deployed or called.
    #[command(
        after_help = "Example: comeback simulate --outage 1h --rate 10/s --policy 'calm: BASE_BACKOFF=10s' --policy 'eager: MAX_BACKOFF=1m'"
    )]
    Simulate(SimulateArgs),
    /// See what is in the dead-letter queue, redrive it, export it or delete it.
    ///
    /// The queue is that of the only retry handler of the account and region; --handler or --queue names another one.
    /// A letter that is only looked at is visible again at once.
    #[command(subcommand)]
    Dead(Box<Dead>),
    /// Print the completions for a shell.
    #[command(
        after_help = "Example: comeback completions bash > ~/.local/share/bash-completion/completions/comeback"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a man page for each command into a folder.
    #[command(after_help = "Example: comeback man ~/.local/share/man/man1")]
    Man {
        /// The folder, which is created if there is none.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Options of `comeback simulate`.
#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// A setting of the retry handler for all policies, such as MAX_AGE=7d; repeatable [default: its own].
    #[arg(long, value_name = "NAME=VALUE", value_parser = settings::parse)]
    pub set: Vec<Setting>,
    /// A policy to compare, by a name and its settings; repeatable [default: one policy, of --set].
    #[arg(long, value_name = "NAME: SETTING=VALUE …", value_parser = policy)]
    pub policy: Vec<Named>,
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

/// The commands for dead letters.
#[derive(Debug, Subcommand)]
pub enum Dead {
    /// List or count the letters.
    #[command(after_help = "Example: comeback dead list --function orders --group-by reason,error")]
    List(ListArgs),
    /// Show what is known about a letter.
    #[command(after_help = "Example: comeback dead show e4b46cbf --payload")]
    Show(ShowArgs),
    /// Invoke the letters' functions again, with the original payloads.
    ///
    /// Each letter is deleted once Lambda has accepted its event. If this is interrupted, each letter is either still
    /// in the queue or accepted, and the same command goes on. If it is killed, the events of at most --batches
    /// batches of ten are invoked twice. Letters that are sent after this began are left.
    #[command(
        after_help = "Example: comeback dead redrive --error PaymentError --where /order/country=DE --rate 50"
    )]
    Redrive(RedriveArgs),
    /// Write letters into a file, a line of JSON for each: message_id, sent_at, attributes and body.
    #[command(after_help = "Example: comeback dead export --reason not_retryable letters.jsonl")]
    Export(ExportArgs),
    /// Delete letters for good.
    #[command(after_help = "Example: comeback dead purge --older-than 7d")]
    Purge(PurgeArgs),
}

/// Where AWS is.
#[derive(Debug, clap::Args)]
pub struct Connection {
    /// The local cloud instead of AWS [default: http://127.0.0.1:4700].
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true)]
    pub local: Option<Option<String>>,
    /// The region [default: that of the AWS CLI].
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// The profile of the AWS CLI's configuration.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
}

/// Which dead-letter queue.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// The dead-letter queue of this retry handler.
    #[arg(long, value_name = "NAME", conflicts_with = "queue")]
    pub handler: Option<String>,
    /// A dead-letter queue, by its name or URL; also a function's own.
    #[arg(long, value_name = "NAME|URL")]
    pub queue: Option<String>,
}

/// Which letters: those that meet every filter. A repeatable one is met by any of its values.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters")]
pub struct Filter {
    /// The beginning of a message id or request id; repeatable.
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// A reason, such as max_age_exceeded, or none for letters that SQS or Lambda sent; repeatable.
    #[arg(long, value_name = "REASON")]
    pub reason: Vec<String>,
    /// A function, by its name or ARN; * matches any run; repeatable.
    #[arg(long, value_name = "FUNCTION")]
    pub function: Vec<String>,
    /// An error type, whole or its last segment; * matches any run; repeatable.
    #[arg(long, value_name = "TYPE")]
    pub error: Vec<String>,
    /// A part of the error message.
    #[arg(long, value_name = "TEXT")]
    pub message: Option<String>,
    /// The last failure is at least so long ago.
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub older_than: Option<Duration>,
    /// The last failure is at most so long ago.
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub newer_than: Option<Duration>,
    /// How many attempts were made: 3, 3.., ..5 or 3..5.
    #[arg(long, value_name = "N|FROM..TO", value_parser = attempts)]
    pub attempts: Option<RangeInclusive<u32>>,
    /// A value in the payload, by a JSON pointer, such as /order/country=DE; repeatable, and all must be there.
    #[arg(long = "where", value_name = "/POINTER=VALUE", value_parser = Place::parse)]
    pub places: Vec<Place>,
}

impl From<&Filter> for Selection {
    fn from(filter: &Filter) -> Self {
        Self {
            ids: filter.id.clone(),
            reasons: filter.reason.clone(),
            functions: filter.function.clone(),
            errors: filter.error.clone(),
            message: filter.message.clone(),
            older_than: filter.older_than,
            newer_than: filter.newer_than,
            attempts: filter.attempts.clone(),
            places: filter.places.clone(),
        }
    }
}

/// Options of `comeback dead list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Count the letters that have these in common, separated by commas: reason, function, error, attempts, day.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = group_by)]
    pub group_by: Vec<GroupBy>,
    /// How many letters are listed at most. All of them are looked at.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Print the payloads, too.
    #[arg(long)]
    pub payload: bool,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Which letters.
    #[command(flatten)]
    pub filter: Filter,
    /// Which queue.
    #[command(flatten, next_help_heading = "Where")]
    pub which: Which,
    /// Where AWS is.
    #[command(flatten)]
    pub connection: Connection,
}

/// Options of `comeback dead show`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The beginning of its message id, or of its event's request id.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print the payload, too.
    #[arg(long)]
    pub payload: bool,
    /// Print a JSON list of the letters instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Which queue.
    #[command(flatten, next_help_heading = "Where")]
    pub which: Which,
    /// Where AWS is.
    #[command(flatten)]
    pub connection: Connection,
}

/// Options of `comeback dead export`.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The file, which must not exist yet; - for standard output, with --payload.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Allow payloads to be printed.
    #[arg(long)]
    pub payload: bool,
    /// Which letters.
    #[command(flatten)]
    pub filter: Filter,
    /// Which queue.
    #[command(flatten, next_help_heading = "Where")]
    pub which: Which,
    /// Where AWS is.
    #[command(flatten)]
    pub connection: Connection,
}

/// Options of commands that change something.
#[derive(Debug, clap::Args)]
pub struct OrderArgs {
    /// Do not ask, and do not look at all letters before.
    #[arg(long)]
    pub yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Which letters.
    #[command(flatten)]
    pub filter: Filter,
    /// Which queue.
    #[command(flatten, next_help_heading = "Where")]
    pub which: Which,
    /// Where AWS is.
    #[command(flatten)]
    pub connection: Connection,
}

/// Options of `comeback dead redrive`.
#[derive(Debug, clap::Args)]
pub struct RedriveArgs {
    /// The function to invoke in place of each letter's own, by its name or ARN, with a version or an alias if needed.
    #[arg(long, value_name = "FUNCTION[:ALIAS]")]
    pub to: Option<String>,
    /// Set a value in the payload, by a JSON pointer. The value is JSON, or the text of a string; repeatable.
    #[arg(long, value_name = "/POINTER=VALUE", value_parser = Place::parse)]
    pub set: Vec<Place>,
    /// Edit the payload of the only selected letter in $EDITOR.
    #[arg(long)]
    pub edit: bool,
    /// The most letters a second [default: as many as possible].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// How many batches of ten are worked on at the same time. More are faster if calls take long, but as many may be
    /// redriven twice if this is killed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub batches: u8,
    /// What all commands share.
    #[command(flatten)]
    pub order: OrderArgs,
}

/// Options of `comeback dead purge`.
#[derive(Debug, clap::Args)]
pub struct PurgeArgs {
    /// What all commands share.
    #[command(flatten)]
    pub order: OrderArgs,
}

fn age(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text).ok_or("expected a duration such as 90s, 15m, 24h or 7d")
}

fn attempts(text: &str) -> Result<RangeInclusive<u32>, &'static str> {
    dead_letters::attempts(text).ok_or("expected a number or a range, such as 3, 3.., ..5 or 3..5")
}

fn group_by(text: &str) -> Result<GroupBy, String> {
    let found = GroupBy::ALL.into_iter().find(|(name, _)| *name == text);
    let names = GroupBy::ALL.map(|(name, _)| name).join(", ");
    found.map(|(_, by)| by).ok_or_else(|| format!("expected one of {names}"))
}

/// A policy on the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: Vec<Setting>,
}

/// The longest outage that is played.
const OUTAGE_MAX: Duration = Duration::from_hours(31 * 24);

/// The most events a second.
const RATE_MAX: f64 = 1e6;

fn policy(text: &str) -> Result<Named, String> {
    const EXPECTED: &str =
        "expected a name and settings, such as 'calm: BASE_BACKOFF=10s MAX_AGE=7d'";
    let (name, settings) = text.split_once(':').ok_or(EXPECTED)?;
    let name = name.trim();
    if name.is_empty() || name.contains('=') {
        return Err(EXPECTED.to_owned());
    }
    let settings = settings.split_whitespace().map(settings::parse).collect::<Result<_, _>>();
    Ok(Named { name: name.to_owned(), settings: settings.map_err(|error| error.to_string())? })
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
        assert_eq!(calm, Named { name: "calm".into(), settings: settings.into() });
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
