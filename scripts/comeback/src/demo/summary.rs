//! The last words of a demo.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::time::between;

use super::{
    evidence::Evidence,
    story::{Lateness, Life, Story, Turn},
};
use crate::{
    paint::{Line, Style},
    words::seconds,
};

/// How the demo went, and what was wrong.
pub fn summary(story: &Story, evidence: &Evidence, faults: &[String]) -> Vec<Line> {
    let mut lines = vec![recovered(story)];
    lines.extend(longest(story));
    lines.push(dead_letters(evidence));
    lines.extend(lateness(&story.latenesses));
    lines.push(Line::default());
    if faults.is_empty() {
        lines.push(Line::of(Style::Good, "Every event ended as it should."));
    } else {
        lines.push(Line::of(Style::Bad, "Not every event ended as it should:"));
        let fault = |fault| Line::of(Style::Bad, "  ✗ ").and(Style::Plain, fault);
        lines.extend(faults.iter().map(fault));
        let trouble = |trouble| Line::of(Style::Bad, "  ! ").and(Style::Plain, trouble);
        lines.extend(story.troubles.iter().map(trouble));
    }
    lines
}

fn fact(name: &str, text: impl AsRef<str>) -> Line {
    Line::of(Style::Strong, format!("{name:<13}")).and(Style::Plain, text)
}

fn recovered(story: &Story) -> Line {
    let mut by_attempt: BTreeMap<u32, usize> = BTreeMap::new();
    for (attempt, _) in story.lives.iter().filter_map(success) {
        *by_attempt.entry(attempt).or_default() += 1;
    }
    let all: usize = by_attempt.values().sum();
    let parts = by_attempt.iter().map(|(attempt, count)| match attempt {
        0 => format!("{count} in the first run"),
        attempt => format!("{count} at attempt {attempt}"),
    });
    let parts: Vec<_> = parts.collect();
    let colon = if parts.is_empty() { "" } else { ": " };
    let text = format!("{all} of {} events{colon}{}", story.lives.len(), parts.join(", "));
    fact("succeeded", text)
}

/// The longest time from a first failure to a success.
fn longest(story: &Story) -> Option<Line> {
    let waits = story.lives.iter().filter_map(|life| {
        let (attempt, waited) = success(life)?;
        Some((waited?, attempt, &life.name))
    });
    let (waited, attempt, name) = waits.max()?;
    let text = format!("{name}, {} until attempt {attempt} succeeded", seconds(waited));
    Some(fact("longest wait", text))
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

fn dead_letters(evidence: &Evidence) -> Line {
    let mut by_reason: BTreeMap<&str, usize> = BTreeMap::new();
    for letter in &evidence.dead_letters {
        *by_reason.entry(letter.reason()).or_default() += 1;
    }
    let parts: Vec<_> =
        by_reason.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    fact("dead letters", if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })
}

fn lateness(latenesses: &[Lateness]) -> Option<Line> {
    let mut own: Vec<_> = latenesses.iter().map(|lateness| lateness.own()).collect();
    own.sort();
    let (median, p99, max) = (quantile(&own, 0.5)?, quantile(&own, 0.99)?, own.last()?);
    let count = u32::try_from(own.len()).ok()?;
    let rounding: Duration = latenesses.iter().map(|lateness| lateness.rounding).sum();
    let text = format!(
        "{count} re-invocations, {} ms late at the median, {} ms at p99, {} ms at most;",
        median.as_millis(),
        p99.as_millis(),
        max.as_millis(),
    );
    let text = format!(
        "{text} beyond SQS's whole seconds, which added {} ms on average",
        (rounding / count).as_millis()
    );
    Some(fact("lateness", text))
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
        demo::{
            evidence::DeadLetter,
            testing::{at, decides, ends, fails, starts, story},
        },
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
        let mut story = story(3, &["order-1", "order-2", "poison-1"]);
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
            "succeeded    2 of 3 events: 1 in the first run, 1 at attempt 1",
            "longest wait order-1, 2.2 s until attempt 1 succeeded",
            "dead letters 1 not_retryable",
            "lateness     1 re-invocations, 20 ms late at the median, 20 ms at p99, 20 ms at most; beyond SQS's whole seconds, which added 600 ms on average",
            "",
        ];
        let lines = painted(&summary(&story, &evidence, &[]));
        assert_eq!(lines[..5], facts);
        assert_eq!(lines[5..], ["Every event ended as it should."]);

        story.troubles.push("retry-handler: access denied".to_owned());
        let lines = painted(&summary(&story, &evidence, &["order-1: expected that".to_owned()]));
        let expected = [
            "Not every event ended as it should:",
            "  ✗ order-1: expected that",
            "  ! retry-handler: access denied",
        ];
        assert_eq!(lines[5..], expected);
    }

    #[test]
    fn a_summary_of_nothing_says_so() {
        let lines = painted(&summary(&story(1, &["order-1"]), &Evidence::default(), &[]));
        assert_eq!(lines[..2], ["succeeded    0 of 1 events", "dead letters none"]);
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
