//! `comeback waiting`: lists or counts waiting events.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{
    Timestamp,
    register::Entry,
    time::{earlier, rfc3339},
};
use serde_json::json;

use crate::{
    operate::{
        attached::find,
        aws::Aws,
        rules::{Answer, Fault, Group, Groups, events, life::lives, target_name},
        text::{due, error, group_json, group_lines, narrowed},
        trace::collected_lines,
        waiting::{
            ListArgs,
            register::DynamoRegister,
            rules::{Listed, Partition, Selection, of_life, visit},
        },
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell, spinner, uninterrupted},
};

/// In a terminal of less than 80 columns, a list has only the event, its function and its due time.
const NARROW: (usize, &[usize]) = (80, &[0, 1, 3]);

/// Without a register, this much of the log is read, and only the lines that match `DECISIONS`.
const LOG_SPAN: Duration = Duration::from_hours(24);
const DECISIONS: &str = "{ $.decision EXISTS }";

struct Found<'a> {
    args: &'a ListArgs,
    selection: Selection,
    looked_at: u64,
    selected: u64,
    complete: bool,
    groups: Groups,
    /// The selected events that are due first, by due time and id. At most `--limit`.
    first: BTreeMap<(Timestamp, String), Entry>,
}

impl Found<'_> {
    fn add(&mut self, event: Entry) {
        self.looked_at += 1;
        if !self.selection.matches(&event) {
            return;
        }
        self.selected += 1;
        if self.is_grouped() {
            let key = self.args.group_by.iter().map(|(_, by)| by.key(&event)).collect();
            self.groups.count(key, Some(event.due));
        } else {
            self.first.insert((event.due, event.key.clone()), event);
            if self.first.len() > self.args.limit as usize {
                self.first.pop_last();
            }
        }
    }

    /// Forgets what was read, because it could not be read to the end.
    fn forget(&mut self) {
        (self.looked_at, self.selected, self.complete) = (0, 0, true);
        (self.groups, self.first) = Default::default();
    }

    fn is_grouped(&self) -> bool {
        !self.args.group_by.is_empty()
    }
}

pub async fn run(args: &ListArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let (aws, handler) = find(&args.system, shell.now).await?;
    let goes_on = uninterrupted()?;
    let now = (shell.now)();
    let mut found = Found {
        args,
        selection: args.filter.selection(now),
        looked_at: 0,
        selected: 0,
        complete: true,
        groups: Groups::default(),
        first: BTreeMap::new(),
    };
    let name = handler.name().to_owned();
    let place = format!("{name} ({})", aws.region);
    let log_group = handler.log_group.clone();
    let read = if handler.register().is_some() {
        let register = DynamoRegister::of(handler, aws.clone())?;
        Some(of_register(&register, &mut found, &goes_on).await)
    } else {
        None
    };
    let (source, unknown) = if let Some(Ok(())) = read {
        ("register", None)
    } else {
        found.forget();
        of_log(&aws, &log_group, &mut found, now, &goes_on).await?;
        ("log", read.and_then(Result::err))
    };
    found.complete &= goes_on();
    let names: Vec<_> = args.group_by.iter().map(|(name, _)| *name).collect();
    let listed: Vec<_> = found.first.values().map(|event| Listed::of(event, now)).collect();
    if args.json {
        let mut document = json!({
            "handler": name, "source": source, "looked_at": found.looked_at,
            "selected": found.selected, "complete": found.complete,
        });
        if found.is_grouped() {
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
        if found.is_grouped() && found.selected > 0 {
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
    found: &mut Found<'_>,
    goes_on: impl Fn() -> bool,
) -> Answer<()> {
    let parts = register.parts(&found.selection.failures.functions).await?;
    // The events of a single function are sorted by due time, so reading can stop after the first ones.
    let are_sorted = matches!(&*parts, [Partition::Target(_)]) && !found.is_grouped();
    let limit = u64::from(found.args.limit);
    let spinner = spinner("events read");
    let read = visit(&parts, register, |event| {
        found.add(event);
        spinner.set_position(found.looked_at);
        found.complete = !(are_sorted && found.selected > limit);
        found.complete && goes_on()
    });
    let read = read.await;
    spinner.finish_and_clear();
    read
}

/// Without a register, reads the events whose last decision in the handler's log is a wait.
async fn of_log(
    aws: &Aws,
    group: &str,
    found: &mut Found<'_>,
    now: Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<(), Failure> {
    let from = earlier(now, LOG_SPAN);
    let lines = collected_lines(aws, group, DECISIONS, from, "lines read", goes_on).await?;
    let events = lives(lines.iter().map(String::as_str)).into_iter().filter_map(of_life);
    events.for_each(|event| found.add(event));
    Ok(())
}

fn summary(found: &Found<'_>, place: &str, source: &str, unknown: Option<&Fault>) -> Vec<Line> {
    let number = if found.complete {
        events(found.selected)
    } else {
        format!("more than {}", events(found.selected.saturating_sub(1)))
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
