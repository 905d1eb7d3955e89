//! The last words of a demo.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::time::between;

use super::{
    evidence::{DeadLetter, Evidence},
    story::{Lateness, Life, Story, Turn},
};
use crate::{
    paint::{Line, Style},
    words::seconds,
};

/// Columns for the name of a fact.
const NAME_WIDTH: usize = 12;

/// A line that a person reads at a glance, on any terminal.
const WIDTH_MAX: usize = 80;

/// What keeps going wrong is told as often as it takes to see that.
const TROUBLES_MAX: usize = 5;

/// What there is to do after a demo.
const NEXT: [(&str, &str); 4] = [
    (
        "scripts/demo --events 100 --outage 5m",
        "more events, and an outage in which Lambda alone loses them",
    ),
    ("scripts/local", "keep it running, and send events of your own"),
    ("scripts/local --function NAME=CODE", "the same with a function of your own"),
    ("scripts/deploy", "a function with its retries in your AWS account"),
];

/// How the demo went, and what was wrong. `lost` has the part of each event that Lambda alone would have
/// lost.
pub fn summary(story: &Story, evidence: &Evidence, lost: &[&str], faults: &[String]) -> Vec<Line> {
    let mut lines = recovered(story);
    lines.extend(longest(story).into_iter().flatten());
    lines.extend(dead_letters(evidence));
    lines.extend(lateness(&story.latenesses).into_iter().flatten());
    lines.extend(lambda_alone(story.lives.len(), lost));
    lines.push(Line::default());
    if faults.is_empty() {
        lines.push(Line::of(Style::Good, "Every event ended as it should."));
    } else {
        lines.push(Line::of(Style::Bad, "Not every event ended as it should:"));
        let fault = |fault| Line::of(Style::Bad, "  ✗ ").and(Style::Plain, fault);
        lines.extend(faults.iter().map(fault));
        let trouble = |trouble| Line::of(Style::Bad, "  ! ").and(Style::Plain, trouble);
        lines.extend(story.troubles.iter().take(TROUBLES_MAX).map(trouble));
        let more = story.troubles.len().saturating_sub(TROUBLES_MAX);
        if more > 0 {
            lines.push(Line::of(Style::Faint, format!("  … and {more} more of that kind")));
        }
    }
    lines
}

/// A fact of one or more parts, in as many lines as they need.
fn fact(name: &str, parts: &[String]) -> Vec<Line> {
    let mut lines = vec![Line::of(Style::Strong, name)];
    for (nth, part) in parts.iter().enumerate() {
        let comma = if nth + 1 < parts.len() { "," } else { "" };
        let part = format!(" {part}{comma}");
        match lines.last_mut() {
            Some(line) if line.width().max(NAME_WIDTH) + part.chars().count() <= WIDTH_MAX => {
                *line = std::mem::take(line).padded(NAME_WIDTH).and(Style::Plain, part);
            }
            _ => lines.push(Line::default().padded(NAME_WIDTH).and(Style::Plain, part)),
        }
    }
    lines
}

fn recovered(story: &Story) -> Vec<Line> {
    let mut by_attempt: BTreeMap<u32, usize> = BTreeMap::new();
    for (attempt, _) in story.lives.iter().filter_map(success) {
        *by_attempt.entry(attempt).or_default() += 1;
    }
    let all: usize = by_attempt.values().sum();
    let mut parts = vec![format!("{all} of {} events", story.lives.len())];
    parts.extend(by_attempt.iter().map(|(attempt, count)| match attempt {
        0 => format!("{count} in the first run"),
        attempt => format!("{count} at attempt {attempt}"),
    }));
    fact("succeeded", &parts)
}

/// The longest time from a first failure to a success.
fn longest(story: &Story) -> Option<Vec<Line>> {
    let waits = story.lives.iter().filter_map(|life| {
        let (attempt, waited) = success(life)?;
        Some((waited?, attempt, &life.name))
    });
    let (waited, attempt, name) = waits.max()?;
    let text = format!("{name}, {} until attempt {attempt} succeeded", seconds(waited));
    Some(fact("longest wait", &[text]))
}

/// The attempt at which an event succeeded, and how long after its first failure that was.
fn success(life: &Life) -> Option<(u32, Option<Duration>)> {
    let first_failure =
        life.steps.iter().find(|step| matches!(step.what, Turn::Failed { .. } | Turn::TurnedAway));
    life.steps.iter().find_map(|step| {
        let Turn::Succeeded { attempt } = step.what else { return None };
        Some((attempt, first_failure.map(|failure| between(failure.at, step.at))))
    })
}

/// A dead letter in full, and what to try next.
pub fn next(evidence: &Evidence) -> Vec<Line> {
    let heading = |text| [Line::default(), Line::of(Style::Strong, text)];
    let mut lines = Vec::new();
    // One that was retried has the most to say.
    if let Some(letter) = evidence.dead_letters.iter().max_by_key(|letter| letter.attempts()) {
        lines.extend(heading("One dead letter in full:"));
        let body = ("the body", letter.body.as_str());
        let attributes =
            letter.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        lines.extend([body].into_iter().chain(attributes).map(|(name, value)| {
            Line::of(Style::Faint, format!("  {name:<15} ")).and(Style::Plain, value)
        }));
    }
    lines.extend(heading("What to try next:"));
    lines.extend(NEXT.map(|(command, what)| {
        Line::of(Style::Plain, format!("  {command:<37}  ")).and(Style::Faint, what)
    }));
    lines
}

fn dead_letters(evidence: &Evidence) -> Vec<Line> {
    let reasons = counts(evidence.dead_letters.iter().map(DeadLetter::reason));
    fact("dead letters", &if reasons.is_empty() { vec!["none".to_owned()] } else { reasons })
}

/// What would have become of the same events without Comeback.
fn lambda_alone(events: usize, lost: &[&str]) -> Vec<Line> {
    let mut parts = vec![format!("would have lost {} of {events} events", lost.len())];
    parts.extend(counts(lost.iter().copied()));
    // Its first retry is made then.
    parts.push("and not retried the others for a minute".to_owned());
    fact("Lambda alone", &parts)
}

/// How many there are of each.
fn counts<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect()
}

fn lateness(latenesses: &[Lateness]) -> Option<Vec<Line>> {
    let mut own: Vec<_> = latenesses.iter().map(|lateness| lateness.own()).collect();
    own.sort();
    let (median, p99, max) = (quantile(&own, 0.5)?, quantile(&own, 0.99)?, own.last()?);
    let count = u32::try_from(own.len()).ok()?;
    let rounding: Duration = latenesses.iter().map(|lateness| lateness.rounding).sum();
    let added = (rounding / count).as_millis();
    let parts = [
        format!("median {} ms", median.as_millis()),
        format!("p99 {} ms", p99.as_millis()),
        format!("at most {} ms", max.as_millis()),
        format!("of {count} re-invocations"),
        format!("beside what SQS's whole seconds added: {added} ms on average"),
    ];
    Some(fact("lateness", &parts))
}

/// The smallest value that at least this part of all values don't exceed.
fn quantile(sorted: &[Duration], part: f64) -> Option<Duration> {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        demo::testing::{at, decides, ends, fails, starts, story},
        happening::Decision,
    };

    fn millis(millis: &[u64]) -> Vec<Duration> {
        millis.iter().map(|&millis| Duration::from_millis(millis)).collect()
    }

    fn painted(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.paint(false)).collect()
    }

    #[test]
    fn a_summary_tells_recoveries_waits_reasons_and_lateness() {
        let mut story = story(3, &["order-1", "order-2", "invalid-1"]);
        let delay = Duration::from_millis(1400);
        let wait = Decision::Wait { attempt: 1, due: at(1.7), delay };
        let invoke = Decision::Invoke { attempt: 1, lateness: Duration::from_millis(620) };
        for happening in [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            decides(0.3, "r0", wait),
            decides(2.3, "r0", invoke),
            starts(2.3, "x", "r0", 1),
            ends(2.4, "x"),
            starts(0.1, "r1", "r1", 0),
            ends(0.2, "r1"),
        ] {
            story.observe(&happening);
        }
        let letter = DeadLetter {
            attributes: [("Reason".to_owned(), "not_retryable".to_owned())].into(),
            ..DeadLetter::default()
        };
        let evidence = Evidence { retry_queue: 0, dead_letters: vec![letter] };
        let facts = [
            "succeeded    2 of 3 events, 1 in the first run, 1 at attempt 1",
            "longest wait order-1, 2.2 s until attempt 1 succeeded",
            "dead letters 1 not_retryable",
            "lateness     median 20 ms, p99 20 ms, at most 20 ms, of 1 re-invocations,",
            "             beside what SQS's whole seconds added: 600 ms on average",
            "Lambda alone would have lost 2 of 3 events, 2 invalid,",
            "             and not retried the others for a minute",
            "",
        ];
        let lost = ["invalid", "invalid"];
        let lines = painted(&summary(&story, &evidence, &lost, &[]));
        assert_eq!(lines[..8], facts);
        assert_eq!(lines[8..], ["Every event ended as it should."]);

        story.troubles = vec!["retry-handler: access denied".to_owned(); TROUBLES_MAX + 2];
        let faults = ["order-1: expected that".to_owned()];
        let lines = painted(&summary(&story, &evidence, &lost, &faults));
        let expected = [
            "Not every event ended as it should:",
            "  ✗ order-1: expected that",
            "  ! retry-handler: access denied",
        ];
        assert_eq!(lines[8..11], expected);
        assert_eq!(lines[10 + TROUBLES_MAX..], ["  … and 2 more of that kind"]);
    }

    #[test]
    fn the_dead_letter_that_has_most_to_say_is_shown_in_full() {
        let letter = |attributes: &[(&str, &str)]| DeadLetter {
            body: r#"{"id":1}"#.to_owned(),
            attributes: attributes.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        };
        let retried = letter(&[("Attempts", "3"), ("Reason", "max_attempts_exceeded")]);
        let dead_letters = vec![letter(&[("Attempts", "0")]), retried, letter(&[])];
        let lines = painted(&next(&Evidence { retry_queue: 0, dead_letters }));
        let expected = [
            "",
            "One dead letter in full:",
            "  the body        {\"id\":1}",
            "  Attempts        3",
            "  Reason          max_attempts_exceeded",
            "",
            "What to try next:",
        ];
        assert_eq!(lines[..7], expected);
        let none = painted(&next(&Evidence::default()));
        assert_eq!(none[..2], ["", "What to try next:"]);
    }

    #[test]
    fn a_summary_of_nothing_says_so() {
        let lines = painted(&summary(&story(1, &["order-1"]), &Evidence::default(), &[], &[]));
        assert_eq!(lines[..2], ["succeeded    0 of 1 events", "dead letters none"]);
    }

    #[test]
    fn a_fact_of_many_parts_is_broken_between_them() {
        let parts: Vec<_> = (1..=8).map(|nth| format!("{nth} at attempt {nth}")).collect();
        assert_eq!(
            painted(&fact("succeeded", &parts)),
            [
                "succeeded    1 at attempt 1, 2 at attempt 2, 3 at attempt 3, 4 at attempt 4,",
                "             5 at attempt 5, 6 at attempt 6, 7 at attempt 7, 8 at attempt 8",
            ]
        );
        let long = "x".repeat(100);
        assert_eq!(
            painted(&fact("longest wait", std::slice::from_ref(&long))),
            ["longest wait".to_owned(), format!("             {long}")]
        );
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values = millis(&[1, 2, 3, 4]);
        for (part, expected) in [(0.5, 2), (0.51, 3), (0.99, 4), (1.0, 4)] {
            assert_eq!(quantile(&values, part), Some(Duration::from_millis(expected)), "{part}");
        }
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&millis(&[7]), 0.5), Some(Duration::from_millis(7)));
    }
}
