//! `comeback waiting`, `pause` and `resume`: waiting events, and an operator's orders for them.

pub mod register;
pub mod rules;

use std::{collections::BTreeMap, time::Duration};

use clap::Subcommand;
use comeback_core::{
    Timestamp,
    claim::Order,
    duration,
    register::Entry,
    time::{self, earlier, rfc3339},
};
use serde_json::json;

use crate::{
    operate::{
        handler_log::collected_lines,
        options::{Named, OrderOptions, SystemOptions, find, one_of},
        rules::{
            Answer, Fault, Group, Groups, counted, events, life::lives, slips::not_empty,
            target_name,
        },
        text::{due, error, group_json, group_lines, narrowed, table},
        waiting::{
            register::{DynamoRegister, open},
            rules::{
                GroupBy, Listed, Partition, Plan, Selection, carry_out, of_life, pause_done,
                pauses::Pause, visit,
            },
        },
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell, confirm, progress, spinner, uninterrupted},
};

pub async fn run(args: &WaitingArgs, shell: &Shell) -> Result<Outcome, Failure> {
    match &args.action {
        None => list(&args.list, shell).await,
        Some(Action::RetryNow(args)) => order(Order::Retry, args, shell).await,
        Some(Action::Cancel(args)) => order(Order::Cancel, args, shell).await,
    }
}

#[derive(Debug, clap::Args)]
pub struct WaitingArgs {
    /// What to do with the events. Without it, they are listed.
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Orders for waiting events.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Retry events now, before they are due.
    ///
    /// Each retry counts as an attempt. A delayed message can't be made visible sooner, so its event comes back within
    /// 15 minutes. An event that the handler has retried in the meantime is not retried again.
    #[command(
        after_help = "Example: comeback waiting retry-now --function orders --error PaymentError --rate 20"
    )]
    RetryNow(OrderArgs),
    /// Give events up. They become dead letters with the reason cancelled.
    #[command(after_help = "Example: comeback waiting cancel --function orders --error BadRequest")]
    Cancel(OrderArgs),
}

/// Filters on events. All filters must match. A repeatable filter matches if one of its values does.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters")]
pub struct Filter {
    #[command(flatten)]
    pub selection: Selection,
    /// Due before this time, such as 2026-05-01T12:00:00Z, or within this duration, such as 15m.
    #[arg(long, value_name = "TIME|DURATION", value_parser = DueBefore::parse)]
    pub due_before: Option<DueBefore>,
}

impl Filter {
    /// The selection, with durations counted from `now`.
    pub fn selection(&self, now: Timestamp) -> Selection {
        let due_before = self.due_before.map(|when| when.at(now));
        Selection { due_before, ..self.selection.clone() }
    }
}

/// A point in time, absolute or relative to now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DueBefore {
    At(Timestamp),
    In(Duration),
}

impl DueBefore {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let duration = duration::parse(text).map(Self::In);
        duration.or_else(|| time::parse(text).map(Self::At)).ok_or(
            "expected a time such as 2026-05-01T12:00:00Z, or a duration such as 90s, 15m or 24h",
        )
    }

    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::In(duration) => time::later(now, duration),
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Count the events that have these in common, separated by commas: function, error, attempt.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = |text: &str| one_of(&GroupBy::ALL, text))]
    pub group_by: Vec<Named<GroupBy>>,
    /// The maximum number of events to list, the soonest due first.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub system: SystemOptions,
}

#[derive(Debug, clap::Args)]
pub struct OrderArgs {
    /// The most events a second [default: as many as possible].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    #[command(flatten)]
    pub options: OrderOptions,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub system: SystemOptions,
}

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

async fn order(order: Order, args: &OrderArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let OrderOptions { yes, dry_run, json: is_json } = args.options;
    if order == Order::Cancel {
        args.filter.selection.failures.refuse_everything()?;
    }
    let register = open(&args.system, shell.now).await?;
    let goes_on = uninterrupted()?;
    let selection = args.filter.selection((shell.now)());
    let parts = register.parts(&selection.failures.functions).await?;
    let mut plan = None;
    if !yes || dry_run {
        let mut planned = Plan::default();
        let spinner = spinner("events read");
        visit(&parts, &register, |event| {
            spinner.inc(1);
            if selection.matches(&event) {
                planned.count(event);
            }
            goes_on()
        })
        .await?;
        spinner.finish_and_clear();
        if !goes_on() {
            return Ok(Outcome::Interrupted);
        }
        plan = Some(planned);
    }
    let planned = plan.as_ref().map_or(0, Plan::all);
    let mut document =
        json!({ "handler": register.handler(), "interrupted": false, "error": null });
    if let Some(plan) = &plan {
        document["plan"] = json!(plan);
        if !is_json {
            shell.print(&[Line::of(Style::Strong, register.place())]).await?;
            shell.print_notices(&plan.notices(order)).await?;
        }
        if dry_run || planned == 0 {
            if is_json {
                shell.print_json(&document).await?;
            }
            return Ok(Outcome::Success);
        }
        confirm(&match order {
            Order::Retry => format!("Retry {} now?", events(planned)),
            Order::Cancel => format!("Give up {}?", events(planned)),
        })?;
    }
    let bar = if planned > 0 { progress(planned, "ordered") } else { spinner("ordered") };
    let (tally, ended) = carry_out(order, &selection, &parts, args.rate, &register, |tally| {
        bar.set_position(tally.ordered());
        goes_on()
    })
    .await;
    bar.finish_and_clear();
    document["interrupted"] = json!(!goes_on());
    document["error"] = json!(ended.as_ref().err().map(ToString::to_string));
    document["done"] = json!(tally);
    if is_json {
        shell.print_json(&document).await?;
    } else {
        shell.print_notices(&tally.notices(order)).await?;
    }
    ended?;
    Ok(match () {
        () if !goes_on() => Outcome::Interrupted,
        () if tally.failed + tally.not_shown > 0 => Outcome::Unsuccessful,
        () => Outcome::Success,
    })
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

/// In a terminal of less than 80 columns, a list has only the event, its function and its due time.
const NARROW: (usize, &[usize]) = (80, &[0, 1, 3]);

/// Without a register, this much of the log is read, and only the lines that match `DECISIONS`.
const LOG_SPAN: Duration = Duration::from_hours(24);
const DECISIONS: &str = "{ $.decision EXISTS }";

#[derive(Default)]
struct Found {
    looked_at: u64,
    selected: u64,
    /// Whether there may be more.
    is_partial: bool,
    groups: Groups,
    /// The selected events that are due first, by due time and id. At most `--limit`.
    first: BTreeMap<(Timestamp, String), Entry>,
}

impl Found {
    fn add(&mut self, event: Entry, args: &ListArgs, selection: &Selection) {
        self.looked_at += 1;
        if !selection.matches(&event) {
            return;
        }
        self.selected += 1;
        if args.group_by.is_empty() {
            self.first.insert((event.due, event.key.clone()), event);
            if self.first.len() > args.limit as usize {
                self.first.pop_last();
            }
        } else {
            let key = args.group_by.iter().map(|(_, by)| by.key(&event)).collect();
            self.groups.count(key, Some(event.due));
        }
    }
}

async fn list(args: &ListArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let (aws, handler) = find(&args.system, shell.now).await?;
    let goes_on = uninterrupted()?;
    let now = (shell.now)();
    let selection = args.filter.selection(now);
    let mut found = Found::default();
    let name = handler.name().to_owned();
    let place = format!("{name} ({})", aws.region);
    let log_group = handler.log_group.clone();
    let read = if handler.register().is_some() {
        let register = DynamoRegister::of(handler, aws.clone())?;
        Some(of_register(&register, &mut found, (args, &selection), &goes_on).await)
    } else {
        None
    };
    let (source, unknown) = if let Some(Ok(())) = read {
        ("register", None)
    } else {
        // What was read of the register, if it could not be read to the end, is forgotten.
        found = Found::default();
        let from = earlier(now, LOG_SPAN);
        let lines = collected_lines(&aws, &log_group, DECISIONS, from, "lines read", &goes_on);
        let lines = lines.await?;
        // The events whose last decision is a wait.
        let events = lives(lines.iter().map(String::as_str)).into_iter().filter_map(of_life);
        events.for_each(|event| found.add(event, args, &selection));
        ("log", read.and_then(Result::err))
    };
    found.is_partial |= !goes_on();
    let is_grouped = !args.group_by.is_empty();
    let names: Vec<_> = args.group_by.iter().map(|(name, _)| *name).collect();
    let listed: Vec<_> = found.first.values().map(|event| Listed::of(event, now)).collect();
    if args.json {
        let mut document = json!({
            "handler": name, "source": source, "looked_at": found.looked_at,
            "selected": found.selected, "complete": !found.is_partial,
        });
        if is_grouped {
            document["groups"] = group_json(&names, &found.groups, |group| {
                json!({
                    "events": group.count,
                    "first_due_at": group.first_at.map(rfc3339),
                    "last_due_at": group.last_at.map(rfc3339),
                })
            });
        } else {
            document["events"] = json!(listed);
        }
        shell.print_json(&document).await?;
    } else {
        let mut lines = summary(&found, &place, source, unknown.as_ref());
        if is_grouped && found.selected > 0 {
            let when = |at: Option<Timestamp>| at.map_or(String::new(), |at| due(at, now));
            let times = |group: &Group| [when(group.first_at), when(group.last_at)];
            let columns = ["events", "next due", "last due"];
            lines.extend(group_lines(&names, columns, &found.groups, times, shell.width()));
        } else if !listed.is_empty() {
            lines.extend(rows(&listed, now, shell.width()));
            if found.selected > listed.len() as u64 {
                let text = "… and more: pass --limit N, a filter or --group-by";
                lines.push(Line::of(Style::Faint, text));
            }
        }
        shell.print(&lines).await?;
    }
    Ok(if goes_on() { Outcome::Success } else { Outcome::Interrupted })
}

async fn of_register(
    register: &DynamoRegister,
    found: &mut Found,
    (args, selection): (&ListArgs, &Selection),
    goes_on: impl Fn() -> bool,
) -> Answer<()> {
    let parts = register.parts(&selection.failures.functions).await?;
    // The events of a single function are sorted by due time, so reading can stop after the first ones.
    let are_sorted = matches!(&*parts, [Partition::Target(_)]) && args.group_by.is_empty();
    let limit = u64::from(args.limit);
    let spinner = spinner("events read");
    let read = visit(&parts, register, |event| {
        found.add(event, args, selection);
        spinner.set_position(found.looked_at);
        found.is_partial = are_sorted && found.selected > limit;
        !found.is_partial && goes_on()
    });
    let read = read.await;
    spinner.finish_and_clear();
    read
}

fn summary(found: &Found, place: &str, source: &str, unknown: Option<&Fault>) -> Vec<Line> {
    let number = if found.is_partial {
        format!("more than {}", events(found.selected.saturating_sub(1)))
    } else {
        events(found.selected)
    };
    let mut lines = vec![Line::of(Style::Strong, format!("{number} wait for {place}"))];
    if let Some(fault) = unknown {
        lines.push(Line::of(Style::Bad, format!("The register can't be read: {fault}")));
        lines.push(Line::of(Style::Faint, "This is read from the last day of the handler's log."));
    } else if source == "log" {
        let text = "There is no register (REGISTER=true), so this is read from the last day of the handler's log.";
        lines.push(Line::of(Style::Faint, text));
    }
    lines
}

fn rows(events: &[Listed], now: Timestamp, width: Option<usize>) -> Vec<Line> {
    let header = ["event", "function", "attempt", "due", "waits", "error"];
    let row = |event: &Listed| {
        let waits = match (event.order, event.overdue) {
            (Some(order), _) => format!("{order} ordered"),
            (None, true) => "overdue".to_owned(),
            (None, false) => event.kept.unwrap_or("unknown").replace('_', " "),
        };
        [
            event.event_id.chars().take(8).collect(),
            target_name(&event.function).into_owned(),
            event.attempt.to_string(),
            due(event.due_at, now),
            waits,
            error(event.error_type.as_deref(), event.error_message.as_deref()),
        ]
    };
    narrowed(header, events.iter().map(row), width, NARROW)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;
    use crate::operate::waiting::rules::stand_in::{event, second};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: Filter,
    }

    #[test]
    fn every_filter_must_match_and_of_a_repeated_one_a_value() {
        let event = event("failed", 100);
        for (options, expected) in [
            ("", true),
            ("--id fai", true),
            ("--id event-fai", true),
            ("--id other", false),
            ("--function payments", false),
            ("--function payments --function orders", true),
            ("--error Down --message ROUTE", true),
            ("--due-before 101s", true),
            ("--due-before 100s", false),
            ("--due-before 1970-01-01T00:01:41Z", true),
            ("--due-before 1970-01-01T00:01:40Z", false),
            ("--id fai --error Up", false),
        ] {
            let line = Line::parse_from(["waiting"].into_iter().chain(options.split_whitespace()));
            let selection = line.filter.selection(second(0));
            assert_eq!(selection.matches(&event), expected, "{options}");
        }
        assert!(Line::try_parse_from(["waiting", "--due-before", "soon"]).is_err());
        for filter in Line::command().get_arguments().filter_map(|it| it.get_long()) {
            let refused = Line::try_parse_from(["waiting", &format!("--{filter}"), ""]);
            assert!(refused.is_err(), "--{filter} is empty");
        }
    }
}
