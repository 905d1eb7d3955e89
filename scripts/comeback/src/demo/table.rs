//! The table of the demo in a terminal, with a row for each event.

use std::time::Duration;

use comeback_core::{Timestamp, time::between};

use super::history::{EventHistory, History, NAME_WIDTH, STATES};
use crate::paint::{Line, Style};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        activity::tests::{at, ends, fails, gives_up, starts, waits},
        demo::history::tests::history,
        paint::tests::texts,
    };

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
