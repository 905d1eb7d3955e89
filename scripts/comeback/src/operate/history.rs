//! `comeback history`: the orders that operators have given, from the ledger.

pub mod rules;

use std::time::Duration;

use comeback_core::{Timestamp, time::rfc3339};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{fault::Clock as _, function::Function},
    aws::Aws,
    failure::Failure,
    operate::{
        history::rules::{Past, State, orders},
        logbook::{Ledger, Logbook},
        options::{SystemOptions, find},
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, uninterrupted},
    tables::narrowed,
    text::counted,
    typed::{When, not_empty, when},
};

/// How far back the page looks.
pub const SINCE: When = When::Distance(Duration::from_hours(7 * 24));

/// The most items that are read. Each order has two.
const ITEMS_MAX: usize = 20_000;

/// In a terminal of less than 110 columns, a list has no face and no filter.
const NARROW: (usize, &[usize]) = (110, &[0, 1, 3, 5, 6]);

#[derive(Clone, Debug, clap::Args)]
pub struct HistoryArgs {
    /// Orders of this duration, or since a time in UTC, such as 03:10 or 2026-05-01T12:00:00Z.
    #[arg(long, value_name = "DURATION|TIME", default_value = "7d", value_parser = when)]
    pub since: When,
    /// Only orders of whoever has this in the ARN or the unique id.
    #[arg(long, value_name = "TEXT", value_parser = not_empty)]
    pub who: Option<String>,
    /// The maximum number of orders to list, the latest first.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct HistoryJson {
    handler: String,
    since: String,
    /// Why there is no history, if there is none.
    missing: Option<String>,
    /// Whether these are all orders.
    complete: bool,
    orders: Vec<Past>,
}

pub async fn document(
    args: &HistoryArgs,
    now: fn() -> Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<HistoryJson, Failure> {
    let (aws, handler) = find(&args.system, now).await?;
    Ok(read(&aws, &handler, args.since, goes_on).await?.narrowed(args))
}

/// The history of a handler, or why there is none.
pub struct History {
    pub handler: String,
    pub since: Timestamp,
    pub missing: Option<String>,
    pub is_whole: bool,
    pub orders: Vec<Past>,
}

pub async fn read(
    aws: &Aws,
    handler: &Function,
    since: When,
    goes_on: impl Fn() -> bool,
) -> Result<History, Failure> {
    let (name, since) = (handler.name().to_owned(), since.before(aws.now()));
    let ledger = Ledger { aws: aws.clone(), handler: handler.clone() };
    let mut history = History {
        handler: name,
        since,
        missing: missing(handler),
        is_whole: true,
        orders: Vec::new(),
    };
    if let Some(logbook) = Logbook::of(ledger).filter(|_| history.missing.is_none()) {
        let goes_on = |read: usize| read < ITEMS_MAX && goes_on();
        let (items, is_whole) = logbook.since(since, goes_on).await?;
        (history.orders, history.is_whole) = (orders(&items, aws.now()), is_whole);
    }
    Ok(history)
}

fn missing(handler: &Function) -> Option<String> {
    let name = handler.name();
    match (handler.ledger(), handler.register()) {
        (None, _) => Some(format!(
            "{name} has no ledger, so there is no history of orders: set LEDGER_TABLE"
        )),
        (Some(_), None) => Some(format!(
            "{name} has no register, without which the orders in its ledger can't be listed: set REGISTER=true"
        )),
        (Some(_), Some(_)) => None,
    }
}

impl History {
    fn narrowed(self, args: &HistoryArgs) -> HistoryJson {
        let Self { handler, since, missing, is_whole, mut orders } = self;
        orders.retain(|past| args.who.as_ref().is_none_or(|who| past.is_of(who)));
        let limit = args.limit as usize;
        let complete = is_whole && missing.is_none() && orders.len() <= limit;
        orders.truncate(limit);
        HistoryJson { handler, since: rfc3339(since), missing, complete, orders }
    }
}

pub async fn run(args: &HistoryArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let goes_on = uninterrupted()?;
    let document = document(args, shell.now, &goes_on).await?;
    if args.json {
        shell.print_json(&document).await?;
    } else {
        shell.print(&lines(&document, shell.width())).await?;
    }
    Ok(if goes_on() { Outcome::Success } else { Outcome::Interrupted })
}

fn lines(document: &HistoryJson, width: Option<usize>) -> Vec<Line> {
    let HistoryJson { handler, since, missing, complete, orders } = document;
    if let Some(missing) = missing {
        return vec![Line::of(Style::Plain, missing)];
    }
    let number = counted(orders.len() as u64, "order");
    let mut lines = vec![Line::of(Style::Strong, format!("{number} to {handler} since {since}"))];
    if !orders.is_empty() {
        lines.extend(narrowed(HEADER, orders.iter().map(row), width, NARROW));
    }
    if !complete {
        lines.push(Line::of(Style::Faint, "… and more: pass --limit N, or a later --since"));
    }
    if orders.iter().any(|past| past.state == State::Interrupted) {
        let text = "interrupted: an hour after it began, an order has no end. It was killed, or it still runs";
        lines.push(Line::of(Style::Faint, text));
    }
    lines
}

pub const HEADER: [&str; 7] = ["given at", "by", "through", "order", "of", "changed", "end"];

/// The cells of an order, by [`HEADER`].
pub fn row(past: &Past) -> [String; 7] {
    let through = past.through.map_or("", |through| through.word()).to_owned();
    let (by, given_at) = (past.name().to_owned(), past.given_at.clone());
    [given_at, by, through, past.command(), past.about(), past.numbers(), past.ending()]
}
