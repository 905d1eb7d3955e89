//! `comeback dead list`: letters as a table, as groups, or as JSON.

use std::cmp::Reverse;

use comeback_core::Timestamp;
use serde_json::json;

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
    tables::{group_json, group_lines, narrowed},
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

pub async fn list(args: &ListArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let queue = open(&args.queue, shell).await?;
    let goes_on = uninterrupted()?;
    let selection = &args.selection;
    let mut groups = Groups::default();
    let (mut selected, mut letters) = (0, Vec::new());
    let now = (shell.now)();
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
    let names: Vec<_> = args.group_by.iter().map(|(name, _)| *name).collect();
    letters.sort_by_key(|it| Reverse(it.failed_at()));
    if args.json {
        let mut document = json!({
            "queue": queue.url, "looked_at": looked_at, "hidden": queue.hidden,
            "selected": selected,
        });
        if args.group_by.is_empty() {
            document["letters"] = json!(letters);
        } else {
            document["groups"] = group_json(&names, &groups, |group| {
                let Group { count: letters, first_at, last_at } = group;
                json!({ "letters": letters, "first_at": first_at, "last_at": last_at })
            });
        }
        shell.print_json(&document).await?;
    } else {
        let mut lines = vec![summary(&queue, looked_at, selected)];
        if !args.group_by.is_empty() {
            let ago = |at| format!("{} ago", age(at, now));
            let times = |group: &Group| [ago(group.last_at), ago(group.first_at)];
            let columns = ["letters", "last failed", "first failed"];
            lines.extend(group_lines(&names, columns, &groups, times, shell.width()));
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
