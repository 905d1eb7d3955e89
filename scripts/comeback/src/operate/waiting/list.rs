//! `comeback waiting`: what waits, and when it is due.

use std::{collections::BinaryHeap, sync::atomic::Ordering};

use comeback_core::{Timestamp, time::rfc3339};
use comeback_operate::{
    groups::{Group, Groups},
    systems::function_name,
    waiting::{Event, GroupBy, Listed, Part, visit},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{args::ListArgs, events, register::open};
use crate::{
    operate::{
        console::{Ended, interrupted, spinner},
        text::{count, due, shortened, table},
    },
    paint::{Line, Style},
    shell::{Failure, Shell},
};

/// How much of an error message a row shows.
const MESSAGE_MAX: usize = 60;

/// In a terminal with fewer columns, a list has only some of its columns: the event, its function, and when it is due.
const NARROW: usize = 80;
const NARROW_COLUMNS: [usize; 3] = [0, 1, 3];

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    handler: String,
    /// How many were looked at, and how many of those are selected. Not all were looked at if `complete` is false.
    looked_at: u64,
    selected: u64,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<Listed>>,
}

/// An event in the order of its due time.
struct ByDue(Event);

impl ByDue {
    fn key(&self) -> (Timestamp, &str) {
        (self.0.due, &self.0.id)
    }
}

impl PartialEq for ByDue {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ByDue {}

impl PartialOrd for ByDue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByDue {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Runs the command.
pub async fn run(args: &ListArgs, shell: &Shell) -> Result<Ended, Failure> {
    let register = open(&args.connection, &args.which, shell.now).await?;
    let interrupted = interrupted()?;
    let now = (shell.now)();
    let selection = args.filter.selection(now);
    let parts = register.parts(&selection.functions).await?;
    let limit = args.limit as usize;
    let is_grouped = !args.group_by.is_empty();
    // The events of one function come by their due times, so the first ones are those that are due first.
    let are_sorted = matches!(&*parts, [Part::Target(_)]);
    let (mut looked_at, mut selected, mut complete) = (0, 0, true);
    let mut groups = Groups::default();
    let mut first: BinaryHeap<ByDue> = BinaryHeap::new();
    let spinner = spinner("events read");
    visit(&parts, &register, |event| {
        looked_at += 1;
        spinner.set_position(looked_at);
        if selection.means(&event) {
            selected += 1;
            if is_grouped {
                let key = args.group_by.iter().map(|by| by.key(&event)).collect();
                groups.count(key, Some(event.due));
            } else {
                first.push(ByDue(event));
                if first.len() > limit {
                    first.pop();
                    complete = !are_sorted;
                }
            }
        }
        complete &= !interrupted.load(Ordering::Relaxed);
        complete
    })
    .await?;
    spinner.finish_and_clear();
    let listed: Vec<_> =
        first.into_sorted_vec().into_iter().map(|ByDue(event)| event.listed(now)).collect();
    if args.json {
        let document = Document {
            handler: register.handler().to_owned(),
            looked_at,
            selected,
            complete,
            groups: is_grouped.then(|| groups_json(&args.group_by, &groups)),
            events: (!is_grouped).then_some(listed),
        };
        shell.print_json(&document).await?;
    } else {
        let more = if complete { "" } else { "more than " };
        let known = selected - u64::from(!complete && selected > 0);
        let title = format!("{more}{} wait for {}", events(known), register.place());
        let mut lines = vec![Line::of(Style::Strong, title)];
        if is_grouped && selected > 0 {
            lines.extend(grouped(&args.group_by, &groups, now, shell.width()));
        } else if !listed.is_empty() {
            lines.extend(rows(&listed, now, shell.width()));
            if selected > listed.len() as u64 {
                let text = "… and more: pass --limit N, a filter or --group-by";
                lines.push(Line::of(Style::Faint, text));
            }
        }
        shell.print(&lines).await?;
    }
    Ok(if interrupted.load(Ordering::Relaxed) { Ended::Interrupted } else { Ended::Well })
}

fn rows(events: &[Listed], now: Timestamp, width: Option<usize>) -> Vec<Line> {
    let is_narrow = width.is_some_and(|width| width < NARROW);
    let columns = if is_narrow { NARROW_COLUMNS.as_slice() } else { &[0, 1, 2, 3, 4, 5] };
    let chosen =
        |cells: &[String]| columns.iter().map(|nth| cells[*nth].clone()).collect::<Vec<_>>();
    let header = ["event", "function", "attempt", "due", "waits", "error"].map(str::to_owned);
    let row = |event: &Listed| {
        let message = event.error_message.as_deref().unwrap_or_default();
        let error = [event.error_type.clone().unwrap_or_default(), shortened(message, MESSAGE_MAX)];
        let error: Vec<_> = error.into_iter().filter(|text| !text.is_empty()).collect();
        let waits = match (event.order, event.overdue) {
            (Some(order), _) => format!("{order} ordered"),
            (None, true) => "overdue".to_owned(),
            (None, false) => event.kept.replace('_', " "),
        };
        chosen(&[
            event.event_id.chars().take(8).collect(),
            function_name(&event.function).to_owned(),
            event.attempt.to_string(),
            due(event.due_at, now),
            waits,
            error.join(": "),
        ])
    };
    table(&chosen(&header), &events.iter().map(row).collect::<Vec<_>>(), width)
}

fn grouped(by: &[GroupBy], groups: &Groups, now: Timestamp, width: Option<usize>) -> Vec<Line> {
    let names = by.iter().map(|by| by.name().to_owned());
    let header: Vec<_> =
        names.chain(["events", "next due", "last due"].map(str::to_owned)).collect();
    let row = |(key, group): &(&[String], Group)| {
        let mut row = key.to_vec();
        let when = |at: Option<Timestamp>| at.map_or(String::new(), |at| due(at, now));
        row.extend([count(group.count), when(group.first_at), when(group.last_at)]);
        row
    };
    table(&header, &groups.largest_first().iter().map(row).collect::<Vec<_>>(), width)
}

fn groups_json(by: &[GroupBy], groups: &Groups) -> Vec<Value> {
    let json = |(key, group): (&[String], Group)| {
        let names = by.iter().map(|by| by.name().to_owned());
        let by: Map<_, _> = names.zip(key.iter().map(|key| key.as_str().into())).collect();
        let due = |at: Option<Timestamp>| at.map(rfc3339);
        json!({
            "by": by,
            "group": {
                "events": group.count,
                "first_due_at": due(group.first_at),
                "last_due_at": due(group.last_at),
            },
        })
    };
    groups.largest_first().into_iter().map(json).collect()
}
