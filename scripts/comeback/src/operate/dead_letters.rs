//! `comeback dead`: lists, redrives, exports and deletes the letters in a dead-letter queue.

mod list;
mod queue;
pub mod rules;
mod work;

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::Subcommand;

use crate::{
    operate::{
        dead_letters::rules::{GroupBy, PointerValue, Selection},
        options::{Connection, FailureFilter, Named, duration, one_of},
    },
    shell::{Failure, Outcome, Shell},
};

pub use crate::operate::dead_letters::queue::Queue;

pub async fn run(command: &Dead, shell: &Shell) -> Result<Outcome, Failure> {
    match command {
        Dead::List(args) => list::list(args, shell).await,
        Dead::Show(args) => list::show(args, shell).await,
        Dead::Redrive(args) => work::redrive(args, shell).await,
        Dead::Purge(args) => work::purge(args, shell).await,
        Dead::Export(args) => list::export(args, shell).await,
    }
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
    /// Invoke the letters' functions again, with the original payloads. Messages go to their queues again.
    ///
    /// Each letter is deleted after Lambda or SQS has accepted its event. Ctrl-C ends the command cleanly: run it again
    /// to redrive the rest. If it is killed, the events of up to --batches batches of ten may be invoked twice. Letters
    /// that arrive after the command began stay in the queue.
    #[command(
        after_help = "Example: comeback dead redrive --error PaymentError --where /order/country=DE --rate 50"
    )]
    Redrive(RedriveArgs),
    /// Write letters into a file, a line of JSON for each: message_id, sent_at, attributes and body.
    #[command(after_help = "Example: comeback dead export --reason not_retryable letters.jsonl")]
    Export(ExportArgs),
    /// Delete letters for good.
    #[command(after_help = "Example: comeback dead purge --older-than 7d")]
    Purge(OrderArgs),
}

/// Options that select a dead-letter queue.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Where")]
pub struct QueueOptions {
    /// The dead-letter queue of this retry handler.
    #[arg(long, value_name = "NAME", conflicts_with = "queue")]
    pub handler: Option<String>,
    /// A dead-letter queue, by its name or URL; also a function's own.
    #[arg(long, value_name = "NAME|URL")]
    pub queue: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

/// Filters on letters. All filters must match. A repeatable filter matches if one of its values does.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters")]
pub struct Filter {
    /// The beginning of a message id or request id; repeatable.
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// A reason, such as max_age_exceeded, or none for letters that SQS or Lambda sent; repeatable.
    #[arg(long, value_name = "REASON")]
    pub reason: Vec<String>,
    #[command(flatten)]
    pub failures: FailureFilter,
    /// The last failure is at least this long ago.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// The last failure is at most this long ago.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub newer_than: Option<Duration>,
    /// How many attempts were made: 3, 3.., ..5 or 3..5.
    #[arg(long, value_name = "N|FROM..TO", value_parser = attempts)]
    pub attempts: Option<RangeInclusive<u32>>,
    /// A value in the payload, by a JSON pointer, such as /order/country=DE; repeatable, and all must be there.
    #[arg(long = "where", value_name = "/POINTER=VALUE", value_parser = PointerValue::parse)]
    pub places: Vec<PointerValue>,
}

impl From<&Filter> for Selection {
    fn from(filter: &Filter) -> Self {
        Self {
            ids: filter.id.clone(),
            reasons: filter.reason.clone(),
            functions: filter.failures.function.clone(),
            errors: filter.failures.error.clone(),
            message: filter.failures.message.clone(),
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
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = |text: &str| one_of(&GroupBy::ALL, text))]
    pub group_by: Vec<Named<GroupBy>>,
    /// List at most this many letters. The whole queue is still read.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Print the payloads, too.
    #[arg(long)]
    pub payload: bool,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub queue: QueueOptions,
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
    #[command(flatten)]
    pub queue: QueueOptions,
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
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub queue: QueueOptions,
}

/// Options of commands that change something.
#[derive(Debug, clap::Args)]
pub struct OrderArgs {
    /// Start at once: don't ask, and don't count the selected letters first.
    #[arg(long)]
    pub yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub queue: QueueOptions,
}

/// Options of `comeback dead redrive`.
#[derive(Debug, clap::Args)]
pub struct RedriveArgs {
    /// The function or the queue, such as sqs:imports, in place of each letter's own, by its name or ARN. A function
    /// may have a version or an alias.
    #[arg(long, value_name = "FUNCTION[:ALIAS]|QUEUE")]
    pub to: Option<String>,
    /// Set a value in the payload, by a JSON pointer. The value is JSON, or the text of a string; repeatable.
    #[arg(long, value_name = "/POINTER=VALUE", value_parser = PointerValue::parse)]
    pub set: Vec<PointerValue>,
    /// Edit the payload of the only selected letter in $VISUAL or $EDITOR.
    #[arg(long)]
    pub edit: bool,
    /// The most letters to redrive in a second, such as 20 or 0.5 [default: as many as possible].
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
    /// How many batches of ten are redriven concurrently. More are faster when calls are slow, but if the command is
    /// killed, that many batches may be redriven twice.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub batches: u8,
    #[command(flatten)]
    pub order: OrderArgs,
}

/// Rates that are lower than one letter an hour make no sense, and would not fit into times.
fn rate(text: &str) -> Result<f64, &'static str> {
    const RATES: RangeInclusive<f64> = 1.0 / 3600.0..=1e6;
    let rate = text.parse().ok().filter(|rate| RATES.contains(rate));
    rate.ok_or("expected a number of letters a second, such as 20 or 0.5")
}

fn attempts(text: &str) -> Result<RangeInclusive<u32>, &'static str> {
    rules::attempts(text).ok_or("expected a number or a range, such as 3, 3.., ..5 or 3..5")
}
