//! `comeback pause` and `resume`: hold back the retries of a function or a queue, and list what is paused.

use comeback_core::time::rfc3339;
use serde_json::json;

use crate::{
    account::names::target_name,
    failure::Failure,
    operate::{
        options::SystemOptions,
        waiting::{
            register::open,
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

async fn hold_back(
    function: &str,
    options: &PauseOptions,
    is_pause: bool,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let register = open(&options.system, shell.now).await?;
    let targets = if is_pause {
        register.to_pause(function).await?
    } else {
        register.to_resume(function, &register.pauses().await?).await?
    };
    let mut lines = vec![Line::of(Style::Strong, register.place())];
    for target in &targets {
        let paused_at = register.paused_at(target).await?;
        let state =
            paused_at.map_or("not paused".to_owned(), |at| format!("paused since {}", rfc3339(at)));
        let text = format!("  {}: {state}", target_name(target));
        lines.push(Line::of(Style::Plain, text));
    }
    if !options.json {
        shell.print(&lines).await?;
    }
    if !options.yes {
        let what = if is_pause { "Hold back the retries of" } else { "Resume the retries of" };
        confirm(&format!("{what} {function}?"))?;
    }
    let since = is_pause.then(|| (shell.now)());
    for target in &targets {
        register.pause(target, since).await?;
    }
    if options.json {
        // The functions' ARNs have qualifiers.
        let (handler, paused_at) = (register.handler(), since.map(rfc3339));
        let document = json!({ "handler": handler, "functions": targets, "paused_at": paused_at });
        shell.print_json(&document).await?;
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
