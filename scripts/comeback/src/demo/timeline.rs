//! An event's life as a row of marks over time.
//!
//! A column is a stretch of time, and what happens within one must not hide something else: failures
//! that share a column are counted in it, and the end of a life has a column of its own behind them.

use std::time::Duration;

use comeback_core::{
    Timestamp, duration,
    time::{between, later},
};

use super::story::{Life, Turn};
use crate::paint::{Line, Style};

/// Distances, in seconds, at which an axis may have its labels.
const LABEL_STEPS: [u64; 11] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800];

/// Columns that a label takes at least, so that two never touch.
const LABEL_WIDTH: usize = 6;

/// Which moments the columns stand for.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// What the first column begins with.
    pub began: Timestamp,
    /// What the last column ends with, after the beginning.
    pub horizon: Duration,
    /// How many columns there are.
    pub width: usize,
}

impl Scale {
    /// The column of a moment; the last one for what lies beyond.
    pub fn column(&self, at: Timestamp) -> usize {
        let part = between(self.began, at).as_secs_f64() / self.horizon.as_secs_f64();
        // The product is never negative, and what is too large for a column is beyond the last.
        let column = (part * self.width as f64) as usize;
        column.min(self.width.saturating_sub(1))
    }

    /// The labels under which rows are read.
    pub fn axis(&self) -> Line {
        let columns = |seconds| self.column(later(self.began, Duration::from_secs(seconds)));
        let step = LABEL_STEPS.into_iter().find(|&step| columns(step) >= LABEL_WIDTH);
        let step = step.unwrap_or(self.horizon.as_secs().max(1));
        let mut line = Line::default();
        for seconds in (0..self.horizon.as_secs()).step_by(usize::try_from(step).unwrap_or(1)) {
            let label = duration::format(Duration::from_secs(seconds));
            let column = columns(seconds);
            if column + label.len() <= self.width {
                line = line.padded(column).and(Style::Faint, label);
            }
        }
        line
    }

    /// When the upstream was down and up, and for how long it will still be down.
    pub fn upstream(&self, back: Timestamp, now: Timestamp) -> Line {
        let (back, now) = (self.column(back), self.column(now));
        let columns = (0..self.width).map(|column| match (column < back, column <= now) {
            (true, true) => (Style::Bad, "▓"),
            (true, false) => (Style::Faint, "░"),
            (false, true) => (Style::Good, "▁"),
            (false, false) => (Style::Plain, " "),
        });
        columns.fold(Line::default(), |line, (style, mark)| line.and(style, mark))
    }

    /// The life of an event up to now, and what is known of its future.
    pub fn row(&self, life: &Life, now: Timestamp) -> Line {
        let mut cells = vec![Cell::Blank; self.width];
        if !cells.is_empty() {
            self.stretches(life, now, &mut cells);
            self.marks(life, &mut cells);
        }
        let drawn = cells.into_iter().map(Cell::drawn);
        drawn.fold(Line::default(), |line, (style, mark)| line.and(style, mark.to_string()))
    }

    /// What lasts: runs and waits.
    fn stretches(&self, life: &Life, now: Timestamp, cells: &mut [Cell]) {
        for (nth, step) in life.steps.iter().enumerate() {
            let cell = match step.what {
                Turn::Started { .. } => Cell::Runs,
                Turn::Sent | Turn::Failed { .. } | Turn::TurnedAway | Turn::Waits { .. } => {
                    Cell::Waits
                }
                Turn::Succeeded { .. } | Turn::GivenUp { .. } => continue,
            };
            let until = life.steps.get(nth + 1).map_or(now, |next| next.at);
            cells[self.column(step.at)..=self.column(until.max(step.at))].fill(cell);
        }
        if let Some(Turn::Waits { due, .. }) = life.steps.last().map(|step| &step.what) {
            let (now, due) = (self.column(now), self.column(*due));
            if now < due {
                cells[now + 1..due].fill(Cell::WillWait);
                cells[due] = Cell::Due;
            }
        }
    }

    /// What happens at a moment.
    fn marks(&self, life: &Life, cells: &mut [Cell]) {
        let mut free = 0;
        for step in &life.steps {
            let column = self.column(step.at);
            let end = column.max(free).min(cells.len() - 1);
            match step.what {
                Turn::Sent | Turn::Started { .. } | Turn::Waits { .. } => continue,
                Turn::Failed { .. } => cells[column] = cells[column].with_failure(),
                Turn::TurnedAway => cells[column] = cells[column].with_refusal(),
                Turn::Succeeded { .. } => cells[end] = Cell::Succeeded,
                Turn::GivenUp { .. } => cells[end] = Cell::GivenUp,
            }
            free = column + 1;
        }
    }
}

/// The meaning of the marks, as many as there is room for.
pub fn legend(width: usize) -> Line {
    let cells = [
        (Cell::Fails(1), "failed"),
        (Cell::Runs, "runs"),
        (Cell::Waits, "waits"),
        (Cell::Due, "due"),
        (Cell::TurnedAway, "turned away"),
        (Cell::Succeeded, "succeeded"),
        (Cell::GivenUp, "dead letter"),
        (Cell::Fails(2), "failed twice"),
    ];
    cells.into_iter().fold(Line::default(), |line, (cell, meaning)| {
        let (style, mark) = cell.drawn();
        let gap = if line.width() == 0 { "" } else { "  " };
        let entry = Line::of(Style::Plain, gap)
            .and(style, mark.to_string())
            .and(Style::Faint, format!(" {meaning}"));
        if line.width() + entry.width() > width { line } else { line.then(entry) }
    })
}

/// What a column shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cell {
    Blank,
    Runs,
    Waits,
    WillWait,
    Due,
    Fails(u32),
    TurnedAway,
    Succeeded,
    GivenUp,
}

impl Cell {
    fn with_failure(self) -> Self {
        if let Self::Fails(times) = self { Self::Fails(times + 1) } else { Self::Fails(1) }
    }

    fn with_refusal(self) -> Self {
        if let Self::Fails(_) = self { self } else { Self::TurnedAway }
    }

    fn drawn(self) -> (Style, char) {
        match self {
            Self::Blank => (Style::Plain, ' '),
            Self::Runs => (Style::Busy, '━'),
            Self::Waits => (Style::Faint, '─'),
            Self::WillWait => (Style::Faint, '·'),
            Self::Due => (Style::Faint, '○'),
            Self::Fails(1) => (Style::Bad, '✗'),
            Self::Fails(times) => (Style::Bad, char::from_digit(times, 10).unwrap_or('+')),
            Self::TurnedAway => (Style::Busy, '‖'),
            Self::Succeeded => (Style::Good, '✓'),
            Self::GivenUp => (Style::GivenUp, '†'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        demo::{
            story::Story,
            testing::{at, decides, ends, fails, starts, story},
        },
        happening::Decision,
    };

    fn scale(seconds: u64, width: usize) -> Scale {
        Scale { began: at(0.0), horizon: Duration::from_secs(seconds), width }
    }

    fn wait(attempt: u32, due: f64, delay: f64) -> Decision {
        Decision::Wait { attempt, due: at(due), delay: Duration::from_secs_f64(delay) }
    }

    /// An order that fails at 0 s and 3 s, and has come to its end, or to `now`.
    fn order(now: f64) -> Story {
        let mut story = story(1, &["order-1"]);
        let happenings = [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            decides(0.3, "r0", wait(1, 2.9, 2.6)),
            starts(3.0, "r1", "r0", 1),
            fails(3.1, "r1"),
            decides(3.2, "r0", wait(2, 6.5, 3.3)),
            starts(7.0, "r2", "r0", 2),
            ends(8.2, "r2"),
        ];
        for happening in happenings.iter().filter(|happening| happening.at <= at(now)) {
            story.observe(happening);
        }
        story
    }

    #[test]
    fn a_row_shows_failures_waits_runs_and_the_end() {
        for (now, expected) in [
            (0.0, "─         "),
            (0.25, "✗         "),
            (1.0, "✗─○       "),
            (2.5, "✗──       "),
            (3.15, "✗──✗      "),
            (4.0, "✗──✗─·○   "),
            (6.9, "✗──✗───   "),
            (7.5, "✗──✗───━  "),
            (8.2, "✗──✗───━✓ "),
            (9.9, "✗──✗───━✓ "),
        ] {
            let row = scale(10, 10).row(&order(now).lives[0], at(now)).paint(false);
            assert_eq!(row.trim_end(), expected.trim_end(), "at {now} s");
        }
    }

    #[test]
    fn failures_that_share_a_column_are_counted_and_the_end_stands_behind_them() {
        let row = |width| scale(10, width).row(&order(9.0).lives[0], at(9.0)).paint(false);
        assert_eq!(row(2), "2✓");
        assert_eq!(row(5), "✗✗─━✓");
        let mut story = story(1, &["invalid-1"]);
        for happening in [
            starts(4.1, "r0", "r0", 0),
            fails(4.2, "r0"),
            decides(4.3, "r0", Decision::DeadLetter { reason: "not_retryable".to_owned() }),
        ] {
            story.observe(&happening);
        }
        let row = scale(10, 10).row(&story.lives[0], at(9.0)).paint(false);
        assert_eq!(row, "────✗†    ");
    }

    #[test]
    fn an_event_that_is_turned_away_is_told_from_one_that_fails() {
        let mut story = story(1, &["paused-1"]);
        story.observe(&decides(0.3, "r0", wait(1, 3.0, 2.7)));
        story.observe(&decides(4.2, "r0", wait(1, 7.0, 2.8)));
        let row = scale(10, 10).row(&story.lives[0], at(5.0)).paint(false);
        assert_eq!(row, "‖───‖─·○  ");
    }

    #[test]
    fn nothing_is_drawn_of_an_event_that_is_not_sent_or_where_there_is_no_room() {
        assert_eq!(
            scale(10, 4).row(&story(0, &["order-1"]).lives[0], at(5.0)).paint(false),
            "    "
        );
        assert_eq!(scale(10, 0).row(&order(9.0).lives[0], at(9.0)).width(), 0);
        assert_eq!(scale(10, 1).row(&order(9.0).lives[0], at(9.0)).paint(false), "✓");
    }

    #[test]
    fn labels_of_the_axis_keep_their_distance() {
        for (seconds, width, expected) in [
            (10, 60, "0s    1s    2s    3s    4s    5s    6s    7s    8s    9s"),
            (16, 48, "0s    2s    4s    6s    8s    10s   12s   14s"),
            (80, 24, "0s       30s      1m"),
            (10, 3, "0s"),
            (10, 0, ""),
        ] {
            assert_eq!(scale(seconds, width).axis().paint(false), expected, "{seconds} s");
        }
    }

    #[test]
    fn the_legend_is_as_long_as_there_is_room() {
        let all = "✗ failed  ━ runs  ─ waits  ○ due  ‖ turned away  ✓ succeeded  † dead letter";
        assert_eq!(legend(80).paint(false), all);
        assert_eq!(legend(120).paint(false), format!("{all}  2 failed twice"));
        assert_eq!(legend(20).paint(false), "✗ failed  ━ runs");
        assert_eq!(legend(0), Line::default());
    }

    #[test]
    fn the_upstream_is_down_until_it_is_back() {
        let row = |now| scale(10, 10).upstream(at(6.0), at(now)).paint(false);
        assert_eq!(row(2.0), "▓▓▓░░░    ");
        assert_eq!(row(8.0), "▓▓▓▓▓▓▁▁▁ ");
    }
}
