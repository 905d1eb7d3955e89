//! `comeback dead list`: letters as a table, as groups, or as JSON.

use std::cmp::Reverse;

use comeback_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    failure::Failure,
    groups::{Group, Groups},
    operate::{
        dead_letters::{
            queue::{Queue, QueueOptions, look_at_all, open},
            rules::{GroupBy, Listed, Selection},
            show::{age, payload},
        },
        options::{Named, one_of},
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, uninterrupted},
    tables::{GroupJson, group_json, group_lines, narrowed},
    text::{count, error, letters},
};

/// In a terminal of less than 80 columns, a list has only the letter, its function and its error. `show` has the rest.
const NARROW: (usize, &[usize]) = (80, &[0, 1, 5]);

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
    pub selection: Selection,
    #[command(flatten)]
    pub queue: QueueOptions,
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct DeadJson {
    /// The URL of the queue.
    queue: String,
    looked_at: u64,
    /// About how many letters another consumer has received.
    hidden: u64,
    selected: u64,
    /// Whether everything was read.
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    letters: Option<Vec<Listed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<GroupJson<DeadGroup>>>,
}

#[derive(JsonSchema, Serialize)]
struct DeadGroup {
    letters: u64,
    first_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
}

/// The letters that were found, and where.
struct Read {
    queue: Queue,
    looked_at: u64,
    selected: u64,
    is_partial: bool,
    letters: Vec<Listed>,
    groups: Groups,
    at: Timestamp,
}

impl Read {
    fn document(self, args: &ListArgs) -> DeadJson {
        let is_grouped = !args.group_by.is_empty();
        let groups = group_json(&names(args), &self.groups, |group| {
            let Group { count: letters, first_at, last_at } = *group;
            DeadGroup { letters, first_at, last_at }
        });
        DeadJson {
            looked_at: self.looked_at,
            hidden: self.queue.hidden,
            selected: self.selected,
            complete: !self.is_partial,
            letters: (!is_grouped).then_some(self.letters),
            groups: is_grouped.then_some(groups),
            queue: self.queue.url,
        }
    }
}

fn names(args: &ListArgs) -> Vec<&'static str> {
    args.group_by.iter().map(|(name, _)| *name).collect()
}

pub async fn document(
    args: &ListArgs,
    now: fn() -> Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<DeadJson, Failure> {
    Ok(read(args, now, goes_on).await?.document(args))
}

async fn read(
    args: &ListArgs,
    now: fn() -> Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<Read, Failure> {
    let queue = open(&args.queue, now).await?;
    let selection = &args.selection;
    let mut groups = Groups::default();
    let (mut selected, mut letters) = (0, Vec::new());
    let now = now();
    let looked_at = look_at_all(&queue, |letter| {
        let facts = letter.facts();
        if selection.matches(&letter, &facts, now) {
            selected += 1;
            let key = args.group_by.iter().map(|(_, by)| by.key(&letter, &facts)).collect();
            groups.count(key, letter.failed_at(&facts));
            if args.group_by.is_empty() && letters.len() < args.limit {
                letters.push(letter.listed(args.payload));
            }
        }
        goes_on()
    })
    .await?;
    if selected == 0 {
        queue.refuse_unknown(&selection.failures.functions).await?;
    }
    letters.sort_by_key(|it: &Listed| Reverse(it.failed_at()));
    let is_partial = !goes_on();
    Ok(Read { queue, looked_at, selected, is_partial, letters, groups, at: now })
}

pub async fn list(args: &ListArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let goes_on = uninterrupted()?;
    let read = read(args, shell.now, &goes_on).await?;
    if args.json {
        shell.print_json(&read.document(args)).await?;
    } else {
        let Read { queue, looked_at, selected, letters, groups, at: now, .. } = read;
        let mut lines = vec![summary(&queue, looked_at, selected)];
        if !args.group_by.is_empty() {
            let ago = |at| format!("{} ago", age(at, now));
            let times = |group: &Group| [ago(group.last_at), ago(group.first_at)];
            let columns = ["letters", "last failed", "first failed"];
            lines.extend(group_lines(&names(args), columns, &groups, times, shell.width()));
        } else if !letters.is_empty() {
            lines.extend(rows(&letters, now, shell.width()));
            if selected > letters.len() as u64 {
                let rest = count(selected - letters.len() as u64);
                let text = format!("… and {rest} more: pass --limit N, a filter or --group-by");
                lines.push(Line::of(Style::Faint, text));
            }
        }
        if args.payload {
            lines.extend(letters.iter().flat_map(payload));
        }
        shell.print(&lines).await?;
    }
    Ok(if goes_on() { Outcome::Success } else { Outcome::Interrupted })
}

fn summary(queue: &Queue, looked_at: u64, selected: u64) -> Line {
    let mut text = format!("{} in {} ({})", letters(looked_at), queue.name(), queue.region());
    if selected != looked_at {
        text = format!("{} of {text}", count(selected));
    }
    if queue.hidden > 0 {
        text += &format!(", and about {} hidden", count(queue.hidden));
    }
    Line::of(Style::Strong, text)
}

fn rows(letters: &[Listed], now: Timestamp, width: Option<usize>) -> Vec<Line> {
    let header = ["letter", "function", "reason", "attempts", "failed", "error"];
    let row = |letter: &Listed| {
        let or_none = |text: &Option<String>| text.clone().unwrap_or("none".to_owned());
        let facts = &letter.facts;
        [
            letter.event_id().chars().take(8).collect(),
            letter.target_name().unwrap_or("unknown".into()).into_owned(),
            or_none(&facts.reason),
            facts.attempts.map_or(String::new(), |attempts| attempts.to_string()),
            format!("{} ago", age(letter.failed_at(), now)),
            error(facts.error_type.as_deref(), facts.error_message.as_deref()),
        ]
    };
    narrowed(header, letters.iter().map(row), width, NARROW)
}
