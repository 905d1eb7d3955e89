//! `comeback dead show`: all that is known of a letter.

use comeback_core::{
    Timestamp,
    target::Target,
    time::{between, rfc3339},
};

use crate::{
    failure::Failure,
    operate::dead_letters::{
        queue::{QueueOptions, look_at_all, open},
        rules::{Listed, Selection},
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, uninterrupted},
    text::{count, span},
    typed::not_empty,
};

/// The most letters to print.
const SHOWN_MAX: usize = 10;

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

/// The letters whose ids begin with the argument.
pub async fn found(
    args: &ShowArgs,
    now: fn() -> Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<Vec<Listed>, Failure> {
    let queue = open(&args.queue, now).await?;
    let selection = Selection { ids: vec![args.id.clone()], ..Selection::default() };
    let now = now();
    let mut found = Vec::new();
    look_at_all(&queue, |letter| {
        if selection.matches(&letter, &letter.facts(), now) {
            found.push(letter.listed(args.payload));
        }
        found.len() < SHOWN_MAX && goes_on()
    })
    .await?;
    if found.is_empty() && goes_on() {
        let (queue, id) = (queue.name(), &args.id);
        let text = format!(
            "there is no letter in {queue} whose message id or request id begins with {id:?}"
        );
        return Err(text.into());
    }
    Ok(found)
}

pub async fn show(args: &ShowArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let goes_on = uninterrupted()?;
    let found = found(args, shell.now, &goes_on).await?;
    if !goes_on() {
        return Ok(Outcome::Interrupted);
    }
    if args.json {
        shell.print_json(&found).await?;
    } else {
        let now = (shell.now)();
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
    let elsewhere = || {
        let fault = facts.payload_fault.as_deref().unwrap_or("its record has none");
        facts.payload_location.as_ref().map(|_| format!("can't be read: {fault}"))
    };
    let is_queue = facts.target.as_ref().is_some_and(Target::is_queue);
    let what = if is_queue { "queue" } else { "function" };
    let members = [
        ("reason", facts.reason.clone()),
        ("advice", facts.advice.clone()),
        ("origin", origin.and_then(|it| it.as_str().map(str::to_owned))),
        (what, facts.target.as_ref().map(ToString::to_string)),
        ("not delivered", facts.source.as_deref().map(|source| format!("by {source}"))),
        ("request id", facts.request_id.clone()),
        ("attempts", facts.attempts.map(|attempts| attempts.to_string())),
        ("first failure", moment(facts.first_failure_at)),
        ("last failure", moment(facts.last_failure_at)),
        ("error type", facts.error_type.clone()),
        ("error message", facts.error_message.clone()),
        ("sent", moment(letter.sent_at)),
        ("payload", Some(size.or_else(elsewhere).unwrap_or("none, or not JSON".to_owned()))),
        ("payload is in", facts.payload_location.clone()),
    ];
    let mut lines = vec![Line::of(Style::Strong, format!("letter {}", letter.message_id))];
    for (name, value) in members {
        let Some(value) = value else { continue };
        lines.push(Line::of(Style::Faint, format!("  {name:<14}")).and(Style::Plain, value));
    }
    lines.extend(payload(letter));
    lines
}

pub fn payload(letter: &Listed) -> Vec<Line> {
    let Some(payload) = &letter.payload else { return Vec::new() };
    let title = Line::of(Style::Faint, format!("payload of {}:", letter.event_id()));
    std::iter::once(title).chain(payload.lines().map(|line| Line::of(Style::Plain, line))).collect()
}

pub fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or("unknown".to_owned(), |at| span(between(at, now).as_secs() as f64))
}
