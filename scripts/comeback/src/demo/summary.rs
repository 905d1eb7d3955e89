//! The end of the demo: the outcome of the events, and commands to try next.

use std::{collections::BTreeMap, time::Duration};

use comeback_local_client::dead_letters::DeadLetter;
use serde_json::Value;

use super::{
    events::PlannedEvent,
    history::{EventHistory, History},
};

use crate::{
    paint::{Line, Style},
    quantiles::quantile,
};

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
    lines.extend(lambda_alone(lost));
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
        let command = Line::of(Style::Plain, format!("  {}", command(program, arguments)));
        [command, Line::of(Style::Faint, format!("      {what}"))]
    }));
    lines
}

/// How a command of the whole program is typed here. A build without it has the scripts that build it.
fn command(program: &str, arguments: &str) -> String {
    if cfg!(feature = "operate") {
        return format!("{program} {arguments}");
    }
    let folder = program.strip_suffix("target/local/comeback").unwrap_or_default();
    if arguments.starts_with("attach") {
        return format!(
            "cargo install --locked --path {folder}scripts/comeback, then comeback {arguments}"
        );
    }
    format!("{folder}scripts/{arguments}")
}

fn lambda_alone(lost: &[&str]) -> Vec<Line> {
    let mut parts = Vec::new();
    if !lost.is_empty() {
        let names = counted(lost.iter().copied()).join(", ");
        parts.push(format!("would have lost {} that came back here ({names})", lost.len()));
    }
    // Lambda makes its first retry after a minute, and its last one two minutes later.
    parts.push("retries after a minute at the earliest".to_owned());
    parts.push("and loses what fails for three minutes".to_owned());
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
        activity::tests::{ends, fails, gives_up, retries, starts, waits},
        args::Args,
        demo::{events::Scenario, history::tests::history},
        paint::tests::texts,
    };

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
        assert_eq!(lines[8..10], expected);
        assert_eq!(lines[10..], ["  ! retry-handler: access denied"; TROUBLES_MAX]);
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
}
