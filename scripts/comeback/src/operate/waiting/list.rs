//! Lists the waiting events: those of the register or, without one, of the handler's log.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{
    Timestamp,
    circuit::Circuit,
    register::Entry,
    time::{earlier, rfc3339},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{
        fault::{Answer, Fault},
        names::target_name,
    },
    failure::Failure,
    groups::{Group, Groups},
    life::lives,
    operate::{
        handler_log::collected_lines,
        options::{Named, SystemOptions, find, one_of, refuse_unknown},
        waiting::{
            filter::Filter,
            queues::not_received,
            register::DynamoRegister,
            rules::{GroupBy, Listed, Partition, Selection, of_life, visit},
        },
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, spinner, uninterrupted},
    tables::{GroupJson, group_json, group_lines, narrowed},
    text::{by, counted, due, error, events, events_that},
    untrusted,
};

/// In a terminal of less than 80 columns, a list has only the event, its function and its due time.
const NARROW: (usize, &[usize]) = (80, &[0, 1, 3]);

/// Without a register, this much of the log is read, and only the lines that match `DECISIONS`.
const LOG_SPAN: Duration = Duration::from_hours(24);
const DECISIONS: &str = "{ $.decision EXISTS }";

const REGISTER: &str = "The register";

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

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct WaitingJson {
    handler: String,
    /// `register` or `log`.
    source: &'static str,
    looked_at: u64,
    selected: u64,
    /// How many messages of the retry queues no handler has received: failures that nothing has decided about yet,
    /// which are not among the events, and events that have come back. Null if SQS doesn't say.
    not_received: Option<u64>,
    /// Whether these are all events: everything was read, and `not_received` is 0.
    complete: bool,
    /// Why some of this is not known.
    #[schemars(with = "Vec<untrusted::Text>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<Listed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<GroupJson<WaitingGroup>>>,
}

#[derive(JsonSchema, Serialize)]
struct WaitingGroup {
    events: u64,
    first_due_at: Option<String>,
    last_due_at: Option<String>,
}

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
            self.first.insert((event.due, event.key.to_string()), event);
            if self.first.len() > args.limit as usize {
                self.first.pop_last();
            }
        } else {
            let key = args.group_by.iter().map(|(_, by)| by.key(&event)).collect();
            self.groups.count(key, Some(event.due));
        }
    }
}

/// The events that were found, and where.
struct Read {
    found: Found,
    handler: String,
    region: String,
    source: &'static str,
    not_received: Option<u64>,
    /// The circuits of functions whose events should have come back.
    circuits: BTreeMap<String, Circuit>,
    /// What could not be read, and why.
    unknown: Vec<(&'static str, Fault)>,
    at: Timestamp,
}

pub async fn document(
    args: &ListArgs,
    now: fn() -> Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<WaitingJson, Failure> {
    Ok(read(args, now, goes_on).await?.document(args))
}

async fn read(
    args: &ListArgs,
    now: fn() -> Timestamp,
    goes_on: impl Fn() -> bool,
) -> Result<Read, Failure> {
    let (aws, handler) = find(&args.system, now).await?;
    let at = now();
    let selection = args.filter.selection(at);
    let mut found = Found::default();
    let name = handler.name().to_owned();
    let log_group = handler.log_group.clone();
    let mut unknown = Vec::new();
    // First, because the events of a message that is received meanwhile are among those that are read.
    let not_received = not_received(&aws, &handler, &selection.failures.functions).await;
    let not_received = known(not_received, "The retry queues", &mut unknown);
    let mut circuits = None;
    let handler_registers = handler.register().is_some();
    let read = if handler_registers {
        let register = DynamoRegister::of(handler, aws.clone())?;
        let read = of_register(&register, &mut found, (args, &selection), &goes_on).await;
        let late = found.first.values().filter(|event| event.due <= at);
        circuits = Some(register.circuits(late.map(|event| event.target.as_str()).collect()).await);
        known(read, REGISTER, &mut unknown)
    } else {
        None
    };
    let source = if read.is_some() {
        "register"
    } else {
        // If the register could not be read to the end, its events are forgotten.
        found = Found::default();
        let from = earlier(at, LOG_SPAN);
        let lines = collected_lines(&aws, &log_group, DECISIONS, from, "lines read", &goes_on);
        let lines = lines.await?;
        // The events whose last decision is a wait.
        let events = lives(lines.iter().map(String::as_str)).into_iter().filter_map(of_life);
        events.for_each(|event| found.add(event, args, &selection));
        // The log has no more than what was decided in the last day.
        found.is_partial |= handler_registers;
        "log"
    };
    let circuits = circuits.and_then(|circuits| known(circuits, "The circuits", &mut unknown));
    found.is_partial |= !goes_on();
    if found.selected == 0 {
        refuse_unknown(&aws, &selection.failures.functions).await?;
    }
    let region = aws.region;
    let circuits = circuits.unwrap_or_default();
    Ok(Read { found, handler: name, region, source, not_received, circuits, unknown, at })
}

/// The answer, or None and the reason.
fn known<T>(
    answer: Answer<T>,
    what: &'static str,
    unknown: &mut Vec<(&'static str, Fault)>,
) -> Option<T> {
    answer.map_err(|fault| unknown.push((what, fault))).ok()
}

impl Read {
    fn listed(&self) -> Vec<Listed> {
        let listed = |event: &Entry| {
            Listed::of(event, self.at).under(self.circuits.get(&event.target), self.at)
        };
        self.found.first.values().map(listed).collect()
    }

    fn document(&self, args: &ListArgs) -> WaitingJson {
        let found = &self.found;
        let is_grouped = !args.group_by.is_empty();
        let groups = group_json(&names(args), &found.groups, |group| WaitingGroup {
            events: group.count,
            first_due_at: group.first_at.map(rfc3339),
            last_due_at: group.last_at.map(rfc3339),
        });
        WaitingJson {
            handler: self.handler.clone(),
            source: self.source,
            looked_at: found.looked_at,
            selected: found.selected,
            not_received: self.not_received,
            complete: !found.is_partial && self.not_received == Some(0),
            unknown: self.unknown.iter().map(unread).collect(),
            events: (!is_grouped).then(|| self.listed()),
            groups: is_grouped.then_some(groups),
        }
    }
}

fn names(args: &ListArgs) -> Vec<&'static str> {
    args.group_by.iter().map(|(name, _)| *name).collect()
}

pub async fn list(args: &ListArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let goes_on = uninterrupted()?;
    let read = read(args, shell.now, &goes_on).await?;
    if args.json {
        shell.print_json(&read.document(args)).await?;
    } else {
        let (found, now, listed) = (&read.found, read.at, read.listed());
        let place = format!("{} ({})", read.handler, read.region);
        let mut lines = summary(&read, &place);
        if !args.group_by.is_empty() && found.selected > 0 {
            let when = |at: Option<Timestamp>| at.map_or(String::new(), |at| due(at, now));
            let times = |group: &Group| [when(group.first_at), when(group.last_at)];
            let columns = ["events", "next due", "last due"];
            lines.extend(group_lines(&names(args), columns, &found.groups, times, shell.width()));
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

fn unread((what, fault): &(&'static str, Fault)) -> String {
    format!("{what} can't be read: {fault}")
}

fn summary(read: &Read, place: &str) -> Vec<Line> {
    let Read { found, source, not_received, unknown, .. } = read;
    let wait = if found.is_partial {
        format!("more than {} wait", events(found.selected.saturating_sub(1)))
    } else {
        events_that(found.selected, "waits", "wait")
    };
    let mut lines = vec![Line::of(Style::Strong, format!("{wait} for {place}"))];
    if let Some(count) = not_received.filter(|count| *count > 0) {
        let text = "in the retry queues: new failures, which are not among these, and events that have come back.";
        let is = if count == 1 { "is" } else { "are" };
        lines.push(Line::of(Style::Bad, format!("{} {is} {text}", counted(count, "message"))));
    }
    lines.extend(unknown.iter().map(|it| Line::of(Style::Bad, unread(it))));
    if *source == "log" {
        let text = match unknown.iter().any(|(what, _)| *what == REGISTER) {
            true => "This is read from the last day of the handler's log.",
            false => {
                "There is no register (REGISTER=true), so this is read from the last day of the handler's log."
            }
        };
        lines.push(Line::of(Style::Faint, text));
    }
    lines
}

fn rows(events: &[Listed], now: Timestamp, width: Option<usize>) -> Vec<Line> {
    let header = ["event", "function", "attempt", "due", "waits", "error"];
    let row = |event: &Listed| {
        let waits = match (event.order, event.overdue, &event.held) {
            (Some(order), ..) => format!("{order} ordered"),
            (None, true, _) => "overdue".to_owned(),
            (None, false, Some(held)) => held.says(now),
            (None, false, None) => event.kept.unwrap_or("unknown").replace('_', " "),
        };
        let due = if event.held.is_some() { "held".to_owned() } else { due(event.due_at, now) };
        [
            event.event_id.chars().take(8).collect(),
            target_name(&event.function).into_owned(),
            event.attempt.to_string(),
            due,
            waits,
            error(event.error_type.as_deref(), event.error_message.as_deref())
                + &by(event.policy.as_deref()),
        ]
    };
    narrowed(header, events.iter().map(row), width, NARROW)
}
