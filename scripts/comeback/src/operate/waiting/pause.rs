//! `comeback pause` and `resume`: hold back the retries of a function or a queue, and list what is paused.

use comeback_core::{Timestamp, time::rfc3339};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::{
    account::names::target_name,
    failure::Failure,
    operate::{
        options::SystemOptions,
        waiting::{
            register::{DynamoRegister, open},
            rules::pauses::{Pause, pause_done},
        },
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, confirm},
    tables::table,
    text::counted,
    typed::not_empty,
};

#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// The function or the queue, such as sqs:imports, by its name or ARN. With a version or an alias, only that one;
    /// without, all that are attached. Without a function, all pauses are listed.
    #[arg(value_name = "FUNCTION[:ALIAS]|QUEUE", value_parser = not_empty)]
    pub function: Option<String>,
    #[command(flatten)]
    pub options: PauseOptions,
}

#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// The function or the queue, such as sqs:imports, by its name or ARN. With a version or an alias, only that one;
    /// without, all that are attached or paused.
    #[arg(value_name = "FUNCTION[:ALIAS]|QUEUE", value_parser = not_empty)]
    pub function: String,
    #[command(flatten)]
    pub options: PauseOptions,
}

#[derive(Debug, clap::Args)]
pub struct PauseOptions {
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

pub async fn pause(args: &PauseArgs, shell: &Shell) -> Result<Outcome, Failure> {
    match &args.function {
        Some(function) => hold_back(function, &args.options, true, shell).await,
        None => list_pauses(&args.options, shell).await,
    }
}

pub async fn resume(args: &ResumeArgs, shell: &Shell) -> Result<Outcome, Failure> {
    hold_back(&args.function, &args.options, false, shell).await
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct HeldJson {
    handler: String,
    /// The ARNs of the functions, which have qualifiers, or of the queue.
    functions: Vec<String>,
    /// Since when they are paused now; null after `resume`, and where nothing was done.
    paused_at: Option<String>,
}

/// What to pause or to resume.
pub struct Held {
    register: DynamoRegister,
    /// Each target, with the time since when it is paused.
    pub targets: Vec<(String, Option<Timestamp>)>,
}

impl Held {
    pub async fn find(
        function: &str,
        system: &SystemOptions,
        is_pause: bool,
        now: fn() -> Timestamp,
    ) -> Result<Self, Failure> {
        let register = open(system, now).await?;
        let names = if is_pause {
            register.to_pause(function).await?
        } else {
            register.to_resume(function, &register.pauses().await?).await?
        };
        let mut targets = Vec::new();
        for target in names {
            let paused_at = register.paused_at(&target).await?;
            targets.push((target, paused_at));
        }
        Ok(Self { register, targets })
    }

    /// Pauses the targets, or resumes them if `since` is None.
    pub async fn hold_back(&self, since: Option<Timestamp>) -> Result<(), Failure> {
        for (target, _) in &self.targets {
            self.register.pause(target, since).await?;
        }
        Ok(())
    }

    pub fn document(&self, since: Option<Timestamp>) -> HeldJson {
        HeldJson {
            handler: self.register.handler().to_owned(),
            functions: self.targets.iter().map(|(target, _)| target.clone()).collect(),
            paused_at: since.map(rfc3339),
        }
    }
}

async fn hold_back(
    function: &str,
    options: &PauseOptions,
    is_pause: bool,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let held = Held::find(function, &options.system, is_pause, shell.now).await?;
    let mut lines = vec![Line::of(Style::Strong, held.register.place())];
    for (target, paused_at) in &held.targets {
        let state =
            paused_at.map_or("not paused".to_owned(), |at| format!("paused since {}", rfc3339(at)));
        let text = format!("  {}: {state}", target_name(target));
        lines.push(Line::of(Style::Plain, text));
    }
    if !options.json {
        shell.print(&lines).await?;
    }
    if options.dry_run {
        if options.json {
            shell.print_json(&held.document(None)).await?;
        }
        return Ok(Outcome::Success);
    }
    if !options.yes {
        let what = if is_pause { "Hold back the retries of" } else { "Resume the retries of" };
        confirm(&format!("{what} {function}?"))?;
    }
    let since = is_pause.then(|| (shell.now)());
    held.hold_back(since).await?;
    if options.json {
        shell.print_json(&held.document(since)).await?;
    } else {
        let text = pause_done(function, is_pause);
        shell.print(&[Line::of(Style::Good, "✓ ").and(Style::Plain, text)]).await?;
    }
    Ok(Outcome::Success)
}

async fn list_pauses(options: &PauseOptions, shell: &Shell) -> Result<Outcome, Failure> {
    let register = open(&options.system, shell.now).await?;
    let pauses = register.pauses().await?;
    if options.json {
        let pause = |it: &Pause| json!({ "function": it.target, "paused_at": rfc3339(it.since) });
        let pauses: Vec<_> = pauses.iter().map(pause).collect();
        let document = json!({ "handler": register.handler(), "pauses": pauses });
        shell.print_json(&document).await?;
        return Ok(Outcome::Success);
    }
    let number = counted(pauses.len() as u64, "pause");
    let mut lines = vec![Line::of(Style::Strong, format!("{number} at {}", register.place()))];
    if !pauses.is_empty() {
        let header = ["function", "paused since"].map(str::to_owned);
        let row = |it: &Pause| vec![target_name(&it.target).into_owned(), rfc3339(it.since)];
        let rows: Vec<_> = pauses.iter().map(row).collect();
        lines.extend(table(&header, &rows, shell.width()));
    }
    shell.print(&lines).await?;
    Ok(Outcome::Success)
}
