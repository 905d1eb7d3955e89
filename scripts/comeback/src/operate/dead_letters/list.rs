//! `comeback dead list`, `comeback dead show`, and `comeback dead export`: letters as lines of JSON.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use comeback_core::{
    Timestamp,
    target::Target,
    time::{between, rfc3339},
};
use serde_json::json;

use crate::{
    operate::{
        dead_letters::{
            queue::{Queue, QueueOptions, look_at_all, open},
            rules::{GroupBy, Letter, Listed, Selection},
        },
        options::{Named, one_of},
        rules::{Group, Groups, letters, slips::not_empty},
        text::{count, error, group_json, group_lines, narrowed, span},
    },
    paint::{self, Line, Style},
    shell::{Failure, Outcome, Shell, uninterrupted},
};

/// The most letters that `show` prints.
const SHOWN_MAX: usize = 10;

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

fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or("unknown".to_owned(), |at| span(between(at, now).as_secs() as f64))
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

#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The beginning of its message id, or of its event's request id.
    #[arg(value_name = "ID", value_parser = not_empty)]
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

pub async fn show(args: &ShowArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let queue = open(&args.queue, shell).await?;
    let goes_on = uninterrupted()?;
    let selection = Selection { ids: vec![args.id.clone()], ..Selection::default() };
    let now = (shell.now)();
    let mut found = Vec::new();
    look_at_all(&queue, |letter| {
        if selection.matches(&letter, &letter.facts(), now) {
            found.push(letter.listed(args.payload));
        }
        found.len() < SHOWN_MAX && goes_on()
    })
    .await?;
    if !goes_on() {
        return Ok(Outcome::Interrupted);
    }
    if found.is_empty() {
        let (queue, id) = (queue.name(), &args.id);
        let text = format!(
            "there is no letter in {queue} whose message id or request id begins with {id:?}"
        );
        return Err(text.into());
    }
    if args.json {
        shell.print_json(&found).await?;
    } else {
        let lines: Vec<_> = found.iter().flat_map(|letter| described(letter, now)).collect();
        shell.print(&lines).await?;
    }
    Ok(Outcome::Success)
}

fn described(letter: &Listed, now: Timestamp) -> Vec<Line> {
    let facts = &letter.facts;
    let moment = |at: Option<Timestamp>| {
        at.map(|at| format!("{} ({} ago)", rfc3339(at), age(Some(at), now)))
    };
    let origin = serde_json::to_value(facts.origin).ok();
    let size = letter.payload_bytes.map(|bytes| format!("{} bytes", count(bytes as u64)));
    let is_queue = facts.target.as_ref().is_some_and(Target::is_queue);
    let what = if is_queue { "queue" } else { "function" };
    let members = [
        ("reason", facts.reason.clone()),
        ("origin", origin.and_then(|it| it.as_str().map(str::to_owned))),
        (what, facts.target.as_ref().map(ToString::to_string)),
        ("request id", facts.request_id.clone()),
        ("attempts", facts.attempts.map(|attempts| attempts.to_string())),
        ("first failure", moment(facts.first_failure_at)),
        ("last failure", moment(facts.last_failure_at)),
        ("error type", facts.error_type.clone()),
        ("error message", facts.error_message.clone()),
        ("sent", moment(letter.sent_at)),
        ("payload", Some(size.unwrap_or("none, or not JSON".to_owned()))),
    ];
    let mut lines = vec![Line::of(Style::Strong, format!("letter {}", letter.message_id))];
    for (name, value) in members {
        let Some(value) = value else { continue };
        lines.push(Line::of(Style::Faint, format!("  {name:<14}")).and(Style::Plain, value));
    }
    lines.extend(payload(letter));
    lines
}

fn payload(letter: &Listed) -> Vec<Line> {
    let Some(payload) = &letter.payload else { return Vec::new() };
    let title = Line::of(Style::Faint, format!("payload of {}:", letter.event_id()));
    std::iter::once(title).chain(payload.lines().map(|line| Line::of(Style::Plain, line))).collect()
}

#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The file, which must not exist yet; - for standard output, with --payload.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Allow payloads to be printed.
    #[arg(long)]
    pub payload: bool,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub queue: QueueOptions,
}

const STDOUT: &str = "-";

pub async fn export(args: &ExportArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let to_stdout = args.file == Path::new(STDOUT);
    if to_stdout && !args.payload {
        return Err(
            "expected --payload, because an export to standard output prints payloads".into()
        );
    }
    let queue = open(&args.queue, shell).await?;
    let goes_on = uninterrupted()?;
    let failed = |source: io::Error| Failure::File { path: args.file.clone(), source };
    let mut file: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
    } else {
        // Only the owner may read the file, because it has payloads. An earlier export is not overwritten.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&args.file);
        Box::new(BufWriter::new(file.map_err(failed)?))
    };
    let selection = &args.selection;
    let now = (shell.now)();
    let (mut written, mut exported) = (Ok(()), 0_u64);
    look_at_all(&queue, |letter| {
        if selection.matches(&letter, &letter.facts(), now) {
            let line = paint::json(&line(&letter)).map_err(io::Error::from);
            written = line.and_then(|line| writeln!(file, "{line}"));
            exported += u64::from(written.is_ok());
        }
        written.is_ok() && goes_on()
    })
    .await?;
    written.and_then(|()| file.flush()).map_err(failed)?;
    eprintln!("comeback: {} letters exported; they are still in {}", count(exported), queue.name());
    Ok(if goes_on() { Outcome::Success } else { Outcome::Interrupted })
}

/// A letter, unchanged. The body is a string and not JSON, so that every byte is kept.
fn line(letter: &Letter) -> serde_json::Value {
    json!({
        "message_id": letter.id,
        "sent_at": letter.sent_at,
        "attributes": letter.texts().collect::<BTreeMap<_, _>>(),
        "body": letter.body,
    })
}
