//! What the demo shows: the history of each event, collected from the journal, in a terminal as a table with a row for
//! each event, and at the end the outcome of the events, and commands to try next.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::Arc,
    time::Duration,
};

use comeback_core::{Timestamp, time::between};
use serde_json::Value;

use super::events::PlannedEvent;
use crate::{
    activity::{Activity, Kind, failure, run_name, seconds},
    dead_letters::DeadLetter,
    deploy::HANDLER,
    operate::rules::life::StepKind,
    paint::{Line, Style},
    quantiles::quantile,
};

const NAME_WIDTH: usize = 14;

#[derive(Debug, Default)]
pub struct History {
    pub began: Timestamp,
    /// The events, in the order of the rows.
    events: Vec<EventHistory>,
    /// The lateness of each re-invocation, less the delay that SQS adds by rounding to whole seconds.
    latenesses: Vec<Duration>,
    troubles: Vec<String>,
    new_lines: Vec<Line>,
    /// The index of each event, by the request id of its first invocation.
    by_event: HashMap<Arc<str>, usize>,
}

#[derive(Clone, Debug, Default)]
struct EventHistory {
    name: String,
    steps: Vec<Step>,
    /// Whether its function has run since it last started to wait.
    has_run: bool,
    waited: Duration,
}

/// The states of an event, as the table counts them.
const STATES: [&str; 5] = [UNSENT, RUNNING, WAITING, SUCCEEDED, GIVEN_UP];
const UNSENT: &str = "not sent yet";
const RUNNING: &str = "running";
const WAITING: &str = "waiting";
const SUCCEEDED: &str = "succeeded";
const GIVEN_UP: &str = "given up";

#[derive(Clone, Debug, PartialEq)]
struct Step {
    /// The state of the event after it, one of [`STATES`].
    state: &'static str,
    attempt: u32,
    style: Style,
    /// What it adds to the row.
    marks: String,
    /// The state in more detail. If there is a due time, the time that is left comes after it.
    says: String,
    due: Option<Timestamp>,
}

impl EventHistory {
    fn state(&self) -> &'static str {
        self.steps.last().map_or(UNSENT, |step| step.state)
    }

    fn success(&self) -> Option<u32> {
        self.steps.last().filter(|step| step.state == SUCCEEDED).map(|step| step.attempt)
    }
}

impl History {
    pub fn begin(began: Timestamp, names: impl IntoIterator<Item = String>) -> Self {
        let event = |name| EventHistory { name, ..EventHistory::default() };
        Self { began, events: names.into_iter().map(event).collect(), ..Self::default() }
    }

    /// Records that Lambda accepted an event with this request id.
    pub fn sent(&mut self, event: usize, request_id: &str, at: Timestamp) {
        self.by_event.insert(request_id.into(), event);
        self.add_step(event, 0, (RUNNING, Style::Busy, "", "sent".to_owned()));
        self.say(event, at, Style::Plain, "is sent");
    }

    pub fn add_line(&mut self, at: Timestamp, name: &str, style: Style, words: impl AsRef<str>) {
        let seconds = between(self.began, at).as_secs_f64();
        let line = Line::of(Style::Faint, format!("{seconds:7.3} s  "));
        self.new_lines.push(line.and(Style::Plain, name).and(style, words));
    }

    pub fn take_lines(&mut self) -> Vec<Line> {
        mem::take(&mut self.new_lines)
    }

    pub fn observe(&mut self, Activity { at, function, kind }: &Activity) {
        match kind {
            Kind::Started(run) => {
                if let Some(&event) = self.by_event.get(&run.event_id) {
                    self.events[event].has_run = true;
                    let says = format!("{} runs", short_name(run.attempt));
                    // It has no line, because one about its end follows.
                    self.add_step(event, run.attempt, (RUNNING, Style::Busy, "", says));
                }
            }
            Kind::Ended { run, ending, error } => match (self.by_event.get(&run.event_id), error) {
                (Some(&event), None) => {
                    let says = format!("{} succeeded", short_name(run.attempt));
                    self.add_step(event, run.attempt, (SUCCEEDED, Style::Good, "✓", says));
                    let words = format!("{} succeeds", run_name(run.attempt));
                    self.say(event, *at, Style::Good, words);
                }
                (Some(&event), Some(error)) => {
                    let says = format!("{} failed", short_name(run.attempt));
                    self.add_step(event, run.attempt, (WAITING, Style::Bad, "✗", says));
                    let words = format!("{} {}", run_name(run.attempt), failure(*ending, error));
                    self.say(event, *at, Style::Bad, words);
                }
                // A run of the handler.
                (None, Some(error)) => self.trouble(HANDLER, &error.message),
                (None, None) => {}
            },
            Kind::Decided { event_id, attempt, what } => {
                if let Some(&event) = self.by_event.get(event_id) {
                    self.decided(event, *at, *attempt, what);
                }
            }
            Kind::Trouble { text, .. } => self.trouble(function, text),
            // The handler receives the event that Lambda gives up, and logs a decision.
            Kind::Accepted(_) | Kind::GivenUpByLambda { .. } | Kind::Logged(_) => {}
        }
    }

    pub fn is_over(&self) -> bool {
        self.events.iter().all(|event| [SUCCEEDED, GIVEN_UP].contains(&event.state()))
    }

    fn decided(&mut self, event: usize, at: Timestamp, attempt: u32, what: &StepKind) {
        match what {
            StepKind::Waits { due_at, until, .. } => {
                if !mem::take(&mut self.events[event].has_run) {
                    self.add_step(event, attempt, (WAITING, Style::Busy, "‖", "paused".to_owned()));
                    self.say(event, at, Style::Busy, "does not run: its function is paused");
                }
                let wait = between(at, *until);
                self.events[event].waited = wait;
                let marks = "─".repeat(usize::try_from(wait.as_secs()).unwrap_or(1).max(1));
                let says = short_name(attempt);
                self.add_step(event, attempt, (WAITING, Style::Faint, &marks, says));
                let due = Some(due_at.unwrap_or(*until));
                self.events[event].steps.last_mut().into_iter().for_each(|step| step.due = due);
                let words = format!("waits {} for {}", seconds(wait), run_name(attempt));
                self.say(event, at, Style::Faint, words);
            }
            StepKind::Retried { late_ms } => {
                let rounding = rounding(self.events[event].waited);
                self.latenesses.push(Duration::from_millis(*late_ms).saturating_sub(rounding));
            }
            StepKind::GivenUp { reason } => {
                self.add_step(event, attempt, (GIVEN_UP, Style::GivenUp, "†", reason.clone()));
                self.say(event, at, Style::GivenUp, format!("is dead-lettered: {reason}"));
            }
            StepKind::Failed { .. }
            | StepKind::Succeeded
            | StepKind::Dropped
            | StepKind::Trouble { .. } => {}
        }
    }

    fn add_step(
        &mut self,
        event: usize,
        attempt: u32,
        (state, style, marks, says): (&'static str, Style, &str, String),
    ) {
        let marks = marks.to_owned();
        self.events[event].steps.push(Step { state, attempt, style, marks, says, due: None });
    }

    fn say(&mut self, event: usize, at: Timestamp, style: Style, words: impl AsRef<str>) {
        let name = format!("{:<NAME_WIDTH$} ", self.events[event].name);
        self.add_line(at, &name, style, words);
    }

    fn trouble(&mut self, function: &str, trouble: &str) {
        let trouble = format!("{function}: {trouble}");
        self.new_lines.push(Line::of(Style::Bad, &trouble));
        self.troubles.push(trouble);
    }
}

fn short_name(attempt: u32) -> String {
    run_name(attempt).trim_start_matches("the ").to_owned()
}

/// The delay that SQS adds to a wait by rounding it up to whole seconds.
fn rounding(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)) - wait
}

const STATE_WIDTH: usize = 24;

/// The number of lines of the table that are not rows.
const OTHER_LINES: usize = 9;

const LEGEND: [(Style, char, &str); 5] = [
    (Style::Bad, '✗', "failed"),
    (Style::Faint, '─', "waits a second"),
    (Style::Busy, '‖', "paused"),
    (Style::Good, '✓', "succeeded"),
    (Style::GivenUp, '†', "dead letter"),
];

/// Draws the table so that it fits into the given width and height.
pub fn draw(
    history: &History,
    title: &str,
    upstream_back: Timestamp,
    now: Timestamp,
    (width, height): (usize, usize),
) -> Vec<Line> {
    let (style, upstream) = match between(now, upstream_back) {
        Duration::ZERO => (Style::Good, "up".to_owned()),
        left => (Style::Bad, format!("down, back in {:.1} s", left.as_secs_f64())),
    };
    let elapsed = format!("  {:.1} s", between(history.began, now).as_secs_f64());
    let mut lines = vec![Line::of(Style::Strong, title).and(Style::Plain, elapsed)];
    lines.extend(introduction("row is an event's life from left to right"));
    lines.push(Line::of(Style::Plain, "upstream").padded(NAME_WIDTH + 1).and(style, upstream));
    lines.push(Line::default());
    let fits = history.events.len() + OTHER_LINES <= height;
    let shown = if fits { history.events.len() } else { height.saturating_sub(OTHER_LINES + 1) };
    let rows = history.events.iter().take(shown);
    lines.extend(rows.map(|event| row(event, now, width)));
    if !fits {
        let hidden = history.events.len() - shown;
        lines.push(Line::of(Style::Faint, format!("… and {hidden} more in a taller terminal")));
    }
    lines.push(Line::default());
    lines.push(Line::of(Style::Plain, counts(&history.events)));
    lines.push(LEGEND.into_iter().fold(Line::default(), |line, (style, mark, meaning)| {
        line.and(style, mark.to_string()).and(Style::Faint, format!(" {meaning}  "))
    }));
    // The line is empty if there is no trouble, so that the table keeps its height.
    lines.push(Line::of(Style::Bad, history.troubles.last().map_or("", String::as_str)));
    lines.truncate(height);
    lines.into_iter().map(|line| line.cut(width)).collect()
}

/// Two lines that explain the output. `what_a_line_is` is the start of the second one, after its article.
pub fn introduction(what_a_line_is: &str) -> [Line; 2] {
    [
        "Lambda events fail, wait and come back until they succeed or are given up.".to_owned(),
        format!("A {what_a_line_is}; the event's name says how it fails."),
    ]
    .map(|text| Line::of(Style::Plain, text))
}

fn counts(events: &[EventHistory]) -> String {
    let count = |state| (events.iter().filter(|event| event.state() == state).count(), state);
    let counts = STATES.map(count).into_iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, state)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
}

fn row(event: &EventHistory, now: Timestamp, width: usize) -> Line {
    let (style, state) = state(event, now);
    let head = Line::of(Style::Plain, format!("{:<NAME_WIDTH$} ", event.name));
    let head = head.and(style, format!("{state:<STATE_WIDTH$} "));
    let marks =
        event.steps.iter().flat_map(|step| step.marks.chars().map(|mark| (step.style, mark)));
    let marks: Vec<_> = marks.collect();
    // If not all marks fit, the newest are shown.
    let skipped = marks.len().saturating_sub(width.saturating_sub(head.width()));
    marks[skipped..].iter().fold(head, |line, (style, mark)| line.and(*style, mark.to_string()))
}

fn state(event: &EventHistory, now: Timestamp) -> (Style, String) {
    let Some(step) = event.steps.last() else { return (Style::Plain, String::new()) };
    let says = match step.due.map(|due| between(now, due)) {
        None => step.says.clone(),
        Some(Duration::ZERO) => format!("{} is due", step.says),
        Some(left) => format!("{} in {:.1} s", step.says, left.as_secs_f64()),
    };
    (step.style, says)
}

const FACT_WIDTH: usize = 12;

/// The most columns of a line: the width of the narrowest common terminal.
const WIDTH_MAX: usize = 80;

/// The most attempts to count one by one. After a long outage there are dozens.
const ATTEMPTS_MAX: usize = 10;

/// The most troubles to print. A few show a recurring one.
const TROUBLES_MAX: usize = 5;

/// The arguments of the program, and what it then does.
const NEXT: [(&str, &str); 4] = [
    (
        "demo --events 100 --outage 5m",
        "more events, and an outage in which Lambda alone loses them",
    ),
    ("local", "keep it running, and send events of your own"),
    ("local --function NAME=CODE", "the same with a function of your own"),
    ("attach FUNCTION", "retry a function of your AWS account, where a handler is deployed"),
];

/// One line for each event with an unexpected outcome. An event must either succeed, or have exactly one dead letter
/// with the reason that its scenario expects.
pub fn faults(schedule: &[PlannedEvent], history: &History, letters: &[DeadLetter]) -> Vec<String> {
    let id =
        |letter: &DeadLetter| Some(serde_json::from_str::<Value>(&letter.body).ok()?["id"].clone());
    let fault = |(planned, event): (&PlannedEvent, &EventHistory)| {
        let own = letters.iter().filter(|letter| id(letter).is_some_and(|id| id == *planned.name));
        let reasons: Vec<_> = own.map(DeadLetter::reason).collect();
        let succeeded = event.success().is_some();
        let expected = planned.scenario.expected_reason().map(|reason| reason.as_str());
        if succeeded == expected.is_none() && reasons.iter().copied().eq(expected) {
            return None;
        }
        let expected =
            expected.map_or("success".to_owned(), |reason| format!("one dead letter, {reason}"));
        let (state, reasons) = (event.state(), reasons.join(", "));
        Some(format!(
            "{}: expected {expected}; it is {state}, dead letters: [{reasons}]",
            planned.name
        ))
    };
    schedule.iter().zip(&history.events).filter_map(fault).collect()
}

/// A dead letter in full.
pub fn one_letter(letters: &[DeadLetter]) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    // The letter with the most attempts is the most interesting one.
    if let Some(letter) = letters.iter().max_by_key(|letter| letter.attributes.get("Attempts")) {
        lines.push(Line::of(Style::Strong, "One dead letter in full:"));
        let body = ("the body", letter.body.as_str());
        let attributes =
            letter.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        lines.extend([body].into_iter().chain(attributes).map(|(name, value)| {
            Line::of(Style::Faint, format!("  {name:<15} ")).and(Style::Plain, value)
        }));
        lines.push(Line::default());
    }
    lines
}

/// The outcome of the events. `lost` has the scenario's name for each event that Lambda alone would have lost.
pub fn summary(
    history: &History,
    letters: &[DeadLetter],
    lost: &[&str],
    faults: &[String],
) -> Vec<Line> {
    let mut lines = succeeded(history);
    let reasons = counted(letters.iter().map(DeadLetter::reason));
    lines.extend(fact(
        "dead letters",
        &if reasons.is_empty() { vec!["none".to_owned()] } else { reasons },
    ));
    lines.extend(lateness(&history.latenesses).into_iter().flatten());
    lines.extend(lambda_alone(history.events.len(), lost));
    lines.push(Line::default());
    if faults.is_empty() {
        lines.push(Line::of(Style::Good, "Every event ended as it should."));
        return lines;
    }
    lines.push(Line::of(Style::Bad, "Not every event ended as it should:"));
    let fault = |fault| Line::of(Style::Bad, "  ✗ ").and(Style::Plain, fault);
    lines.extend(faults.iter().map(fault));
    let trouble = |trouble| Line::of(Style::Bad, "  ! ").and(Style::Plain, trouble);
    lines.extend(history.troubles.iter().take(TROUBLES_MAX).map(trouble));
    lines
}

/// A named fact, with its parts wrapped over as many lines as needed.
fn fact(name: &str, parts: &[String]) -> Vec<Line> {
    let mut lines = vec![Line::of(Style::Strong, name)];
    for (nth, part) in parts.iter().enumerate() {
        let comma = if nth + 1 < parts.len() { "," } else { "" };
        let part = format!(" {part}{comma}");
        match lines.last_mut() {
            Some(line) if line.width().max(FACT_WIDTH) + part.chars().count() <= WIDTH_MAX => {
                *line = std::mem::take(line).padded(FACT_WIDTH).and(Style::Plain, part);
            }
            _ => lines.push(Line::default().padded(FACT_WIDTH).and(Style::Plain, part)),
        }
    }
    lines
}

fn succeeded(history: &History) -> Vec<Line> {
    let mut by_attempt: BTreeMap<u32, usize> = BTreeMap::new();
    for attempt in history.events.iter().filter_map(EventHistory::success) {
        *by_attempt.entry(attempt).or_default() += 1;
    }
    let all: usize = by_attempt.values().sum();
    let mut parts = vec![format!("{all} of {} events", history.events.len())];
    if let Some(first) = by_attempt.remove(&0) {
        parts.push(format!("{first} in the first run"));
    }
    match (by_attempt.keys().min(), by_attempt.keys().max()) {
        (Some(first), Some(last)) if by_attempt.len() > ATTEMPTS_MAX => {
            let count: usize = by_attempt.values().sum();
            parts.push(format!("{count} at attempts {first} to {last}"));
        }
        _ => parts.extend(
            by_attempt.iter().map(|(attempt, count)| format!("{count} at attempt {attempt}")),
        ),
    }
    fact("succeeded", &parts)
}

/// Commands to try, which start the program as this person can.
pub fn next_steps(program: &str) -> Vec<Line> {
    let mut lines = vec![Line::default(), Line::of(Style::Strong, "What to try next:")];
    lines.extend(NEXT.iter().flat_map(|(arguments, what)| {
        let command = Line::of(Style::Plain, format!("  {program} {arguments}"));
        [command, Line::of(Style::Faint, format!("      {what}"))]
    }));
    lines
}

fn lambda_alone(events: usize, lost: &[&str]) -> Vec<Line> {
    let mut parts = vec![format!("would have lost {} of {events} events", lost.len())];
    parts.extend(counted(lost.iter().copied()));
    // Lambda makes its first retry after a minute.
    parts.push("and retried the others after a minute at the earliest".to_owned());
    fact("Lambda alone", &parts)
}

/// Counts equal names, as texts such as "2 invalid".
fn counted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect()
}

fn lateness(latenesses: &[Duration]) -> Option<Vec<Line>> {
    let mut sorted = latenesses.to_vec();
    sorted.sort();
    let parts = [
        format!("median {} ms", quantile(&sorted, 0.5)?.as_millis()),
        format!("p99 {} ms", quantile(&sorted, 0.99)?.as_millis()),
        format!("at most {} ms", sorted.last()?.as_millis()),
        format!("of {} re-invocations", sorted.len()),
        "not counting SQS's rounding to whole seconds".to_owned(),
    ];
    Some(fact("lateness", &parts))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{
        activity::tests::{at, ends, entry, fails, gives_up, read, retries, starts, waits},
        args::Args,
        demo::events::Scenario,
        journal::Entry,
        paint::tests::texts,
    };

    /// A history of these events, after these entries of the journal. The first `sent` of them were sent at 0 s, with
    /// the request ids `r0`, `r1` and so on.
    fn history(names: &[&str], sent: usize, entries: &[Entry]) -> History {
        let mut history = History::begin(at(0.0), names.iter().map(|&name| name.to_owned()));
        for event in 0..sent {
            history.sent(event, &format!("r{event}"), at(0.0));
        }
        for activity in read(entries) {
            history.observe(&activity);
        }
        history
    }

    #[test]
    fn a_wait_without_a_run_before_it_means_that_the_function_is_paused() {
        let entries = [waits(0.3, "r0", 1, 3.0, 2.7), waits(3.4, "r0", 1, 6.0, 2.6)];
        let history = history(&["paused-1"], 1, &entries);
        assert_eq!(history.events[0].steps.iter().filter(|step| step.says == "paused").count(), 2);
    }

    #[test]
    fn lateness_does_not_count_the_rounding_of_sqs() {
        let entries = [waits(0.3, "r0", 1, 1.7, 1.4), retries(2.32, "r0", 1, 620)];
        let history = history(&["order-1"], 1, &entries);
        assert_eq!(history.latenesses, [Duration::from_millis(20)]);
        assert_eq!(rounding(Duration::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn warnings_and_errors_of_functions_are_kept() {
        let handler = |entry: Entry| Entry { function: HANDLER.into(), ..entry };
        let stopped = entry(0.1, "example-target", "RecursionStopped", serde_json::json!({}));
        let entries = [stopped, handler(starts(0.1, "h", "h", 0)), handler(fails(0.2, "h"))];
        let mut history = history(&["order-1"], 0, &entries);
        let troubles =
            ["example-target: recursive-loop detection stopped it", "retry-handler: 503"];
        assert_eq!(history.troubles, troubles);
        assert_eq!(texts(&history.take_lines()), troubles);
    }

    fn letter(id: &str, attributes: &[(&str, &str)]) -> DeadLetter {
        DeadLetter {
            body: format!(r#"{{"id":"{id}"}}"#),
            attributes: attributes.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        }
    }

    /// Two orders that succeed, one of them at attempt 1, and an event that is given up.
    fn three_events() -> History {
        let entries = [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            waits(0.3, "r0", 1, 1.7, 1.7),
            retries(2.3, "r0", 1, 320),
            starts(2.3, "x", "r0", 1),
            ends(2.4, "x"),
            starts(0.1, "r1", "r1", 0),
            ends(0.2, "r1"),
            gives_up(3.0, "r2", "not_retryable"),
        ];
        history(&["order-1", "order-2", "invalid-1"], 3, &entries)
    }

    #[test]
    fn a_summary_tells_what_did_not_end_as_it_should() {
        let mut history = three_events();
        let (letters, lost) =
            ([letter("invalid-1", &[("Reason", "not_retryable")])], ["invalid"; 2]);
        history.troubles = vec!["retry-handler: access denied".to_owned(); TROUBLES_MAX + 2];
        let lines = texts(&summary(&history, &letters, &lost, &["order-1: lost".to_owned()]));
        let expected = ["Not every event ended as it should:", "  ✗ order-1: lost"];
        assert_eq!(lines[7..9], expected);
        assert_eq!(lines[9..], ["  ! retry-handler: access denied"; TROUBLES_MAX]);
        let none = texts(&summary(&self::history(&["order-1"], 0, &[]), &[], &[], &[]));
        assert_eq!(none[..2], ["succeeded    0 of 1 events", "dead letters none"]);
    }

    #[test]
    fn an_event_that_neither_succeeds_nor_has_its_dead_letter_is_a_fault() {
        let event = |name: &str, scenario| PlannedEvent {
            name: name.to_owned(),
            scenario,
            function: "example-target",
            payload: String::new(),
            sent_after: Duration::ZERO,
        };
        let schedule = [
            event("order-1", Scenario::Order),
            event("order-2", Scenario::Order),
            event("invalid-1", Scenario::Invalid),
        ];
        let history = three_events();
        let good = letter("invalid-1", &[("Reason", "not_retryable")]);
        assert_eq!(faults(&schedule, &history, std::slice::from_ref(&good)), [""; 0]);
        for letters in [
            vec![],
            vec![good.clone(), good.clone()],
            vec![letter("invalid-1", &[("Reason", "unreadable")])],
            vec![good, letter("order-1", &[("Reason", "max_age_exceeded")])],
        ] {
            assert_eq!(faults(&schedule, &history, &letters).len(), 1, "{letters:?}");
        }
        let lost = self::history(&["order-1"], 1, &[]);
        let expected = "order-1: expected success; it is running, dead letters: []";
        assert_eq!(faults(&schedule[..1], &lost, &[]), [expected]);
    }

    #[test]
    fn commands_to_try_next_are_commands_of_the_program() {
        for (arguments, _) in NEXT {
            let command = format!("comeback {arguments}");
            assert!(Args::try_parse_from(command.split(' ')).is_ok(), "{command}");
        }
        let lines = texts(&next_steps("target/release/comeback"));
        assert_eq!(lines[2], "  target/release/comeback demo --events 100 --outage 5m");
    }

    #[test]
    fn the_counts_and_the_next_steps_fit_into_a_small_terminal_with_its_prompt() {
        let names: Vec<_> = (0..500).map(|event| format!("order-{event}")).collect();
        let mut entries = Vec::new();
        for event in 0..500 {
            let (id, run) = (format!("r{event}"), format!("x{event}"));
            let attempt = event % 70;
            entries.push(retries(2.3, &id, attempt, 320));
            entries.push(starts(2.3, &run, &id, attempt));
            entries.push(ends(2.4, &run));
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let history = history(&names, 500, &entries);
        let reasons = ["max_attempts_exceeded", "not_retryable", "max_age_exceeded"];
        let letters = reasons.map(|reason| letter("invalid-1", &[("Reason", reason)]));
        let lost = ["order", "invalid", "always-fails", "paused"].repeat(125);
        let mut lines = summary(&history, &letters, &lost, &[]);
        lines.extend(next_steps("/home/somebody/projects/comeback/target/release/comeback"));
        let wrapped: Vec<_> = lines.iter().flat_map(|line| line.wrapped(80)).collect();
        assert!(wrapped.len() < 24, "{}", texts(&wrapped).join("\n"));
    }

    /// Five events: the first two have ended, the third waits, the fourth waits for a paused function, and the last has
    /// not been sent.
    fn table(width: usize, height: usize) -> Vec<String> {
        let entries = [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            waits(0.3, "r0", 1, 2.0, 1.7),
            starts(2.1, "x", "r0", 1),
            ends(2.2, "x"),
            starts(0.1, "r1", "r1", 0),
            fails(0.2, "r1"),
            gives_up(0.3, "r1", "not_retryable"),
            starts(0.1, "r2", "r2", 0),
            fails(1.2, "r2"),
            waits(1.3, "r2", 1, 5.5, 4.2),
            waits(0.4, "r3", 1, 2.5, 2.1),
        ];
        let events = ["order-1", "invalid-1", "order-2", "paused-1", "order-3"];
        let history = history(&events, 4, &entries);
        let lines = draw(&history, "demo", at(6.0), at(3.0), (width, height));
        texts(&lines).iter().map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn the_table_has_a_row_for_each_event_with_its_state_and_its_newest_marks() {
        let expected = [
            "demo  3.0 s",
            "Lambda events fail, wait and come back until they succeed or are given up.",
            "A row is an event's life from left to right; the event's name says how it fail",
            "upstream       down, back in 3.0 s",
            "",
            "order-1        attempt 1 succeeded      ✗─✓",
            "invalid-1      not_retryable            ✗†",
            "order-2        attempt 1 in 2.5 s       ✗────",
            "paused-1       attempt 1 is due         ‖──",
            "order-3",
            "",
            "1 not sent yet, 2 waiting, 1 succeeded, 1 given up",
            "✗ failed  ─ waits a second  ‖ paused  ✓ succeeded  † dead letter",
            "",
        ];
        assert_eq!(table(78, 99), expected);
        assert_eq!(table(42, 99)[5], "order-1        attempt 1 succeeded      ─✓");
    }

    #[test]
    fn the_table_never_exceeds_its_terminal_and_counts_the_rows_that_do_not_fit() {
        for (width, height) in [(0, 0), (1, 1), (12, 3), (30, 10), (40, 13), (80, 24), (300, 100)] {
            let table = table(width, height);
            assert!(table.len() <= height, "{} lines of {height}", table.len());
            let widest = table.iter().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(widest <= width, "{widest} columns of {width}");
        }
        assert_eq!(table(60, 13)[8], "… and 2 more in a taller terminal");
    }
}
