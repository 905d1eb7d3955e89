//! The whole picture of a demo: the upstream, a row for each event, and the counts.

use std::{fmt::Write, time::Duration};

use comeback_core::{Timestamp, time::between};

use super::{
    story::{Life, Standing, Story, Turn},
    timeline::{Scale, legend},
};
use crate::paint::{Line, Style};

/// What is left blank between the name, the row and the words behind it.
const GAP: &str = "  ";

/// Columns for the words behind a row.
const WORDS_WIDTH: usize = 23;

/// With fewer columns than this for the rows, the words are left out.
const ROW_WIDTH_MIN: usize = 24;

/// How many lines there are beside those of the events, where there is no trouble.
const OTHER_LINES: usize = 8;

/// How much further the time axis reaches each time that the present has come to its end.
const HORIZON_GROWTH: f64 = 1.25;

/// How a picture is to be.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The moment that is shown.
    pub now: Timestamp,
    /// When the upstream is back.
    pub upstream_back: Timestamp,
    /// How long the whole is expected to take.
    pub expected: Duration,
    /// The columns there are.
    pub width: usize,
    /// The lines there are; nothing where there is no limit.
    pub height: Option<usize>,
}

/// Draws the picture.
pub fn draw(story: &Story, title: &str, view: &View) -> Vec<Line> {
    let names = story.lives.iter().map(|life| life.name.chars().count());
    let upstream = "upstream";
    let name_width = names.chain([upstream.len()]).max().unwrap_or_default();
    let between_gaps = view.width.saturating_sub(name_width + GAP.len());
    let with_words = between_gaps.checked_sub(GAP.len() + WORDS_WIDTH);
    let scale = Scale {
        began: story.began,
        horizon: horizon(view.expected, between(story.began, view.now)),
        width: with_words.filter(|&width| width >= ROW_WIDTH_MIN).unwrap_or(between_gaps),
    };
    let row = |name: Line, row: Line, words: Line| {
        let row = name.padded(name_width).and(Style::Plain, GAP).then(row);
        let row = row.padded(name_width + GAP.len() + scale.width).and(Style::Plain, GAP);
        row.then(words).cut(view.width)
    };
    let other_lines = OTHER_LINES + usize::from(!story.troubles.is_empty());
    let (shown, hidden) =
        shown(story, view.height.map(|height| height.saturating_sub(other_lines)));
    let mut lines = vec![heading(story, title, view)];
    let introduction = introduction("row is an event's life from left to right");
    lines.extend(introduction.map(|line| line.cut(view.width)));
    lines.extend([
        row(
            Line::of(Style::Plain, upstream),
            scale.upstream(view.upstream_back, view.now),
            upstream_words(view),
        ),
        row(Line::default(), scale.axis(), Line::default()),
    ]);
    lines.extend(shown.iter().map(|life| {
        let name = Line::of(Style::Plain, &life.name);
        row(name, scale.row(life, view.now), words(life, view.now))
    }));
    if !hidden.is_empty() {
        let more = format!(
            "… and {} more: {}; a taller terminal shows them",
            hidden.len(),
            counts(hidden.iter().copied())
        );
        lines.push(Line::of(Style::Faint, more).cut(view.width));
    }
    lines.push(Line::default());
    lines.push(Line::of(Style::Plain, counts(story.lives.iter())).cut(view.width));
    lines.push(legend(view.width));
    if let Some(trouble) = story.troubles.last() {
        lines.push(Line::of(Style::Bad, trouble).cut(view.width));
    }
    lines.truncate(view.height.unwrap_or(usize::MAX));
    lines
}

/// What there is to see, and how to read it.
pub fn introduction(what_a_line_is: &str) -> [Line; 2] {
    [
        "Lambda events fail, wait and come back until they succeed or are given up.".to_owned(),
        format!("A {what_a_line_is}; the event's name says how it fails."),
    ]
    .map(|text| Line::of(Style::Plain, text))
}

/// How many of these events stand where.
pub fn counts<'a>(lives: impl Iterator<Item = &'a Life>) -> String {
    let standings: Vec<_> = lives.map(Life::standing).collect();
    let mut text = String::new();
    for (standing, name) in [
        (Standing::Unsent, "not sent yet"),
        (Standing::Running, "running"),
        (Standing::Waiting, "waiting"),
        (Standing::Succeeded, "succeeded"),
        (Standing::GivenUp, "given up"),
    ] {
        let count = standings.iter().filter(|&&other| other == standing).count();
        if count > 0 {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a string can't fail.
            let _ = write!(text, "{separator}{count} {name}");
        }
    }
    text
}

/// The end of the time axis. It moves in leaps, so that the picture doesn't creep.
fn horizon(expected: Duration, elapsed: Duration) -> Duration {
    let mut horizon = expected.max(Duration::from_secs(1));
    while horizon < elapsed {
        horizon = horizon.mul_f64(HORIZON_GROWTH);
    }
    horizon
}

/// The events that are drawn, and those for which there are not enough lines. The choice must not
/// change from one picture to the next: those that show something of their own come first.
fn shown(story: &Story, lines_max: Option<usize>) -> (Vec<&Life>, Vec<&Life>) {
    let lines_max = lines_max.unwrap_or(usize::MAX);
    if story.lives.len() <= lines_max {
        return (story.lives.iter().collect(), Vec::new());
    }
    // One line says how many there are beside those drawn.
    let drawn_max = lines_max.saturating_sub(1);
    let notable = story.lives.iter().filter(|life| life.notable).count();
    let mut notable_left = notable.min(drawn_max);
    let mut others_left = drawn_max - notable_left;
    story.lives.iter().partition(|life| {
        let left = if life.notable { &mut notable_left } else { &mut others_left };
        let drawn = *left > 0;
        *left -= usize::from(drawn);
        drawn
    })
}

fn heading(story: &Story, title: &str, view: &View) -> Line {
    let elapsed = format!("{:.1} s", between(story.began, view.now).as_secs_f64());
    let room = view.width.saturating_sub(elapsed.chars().count() + 1);
    let title = Line::of(Style::Strong, title).cut(room).padded(room + 1);
    title.and(Style::Strong, elapsed).cut(view.width)
}

fn upstream_words(view: &View) -> Line {
    let left = between(view.now, view.upstream_back);
    if left.is_zero() {
        Line::of(Style::Good, "up")
    } else {
        Line::of(Style::Bad, format!("down, back in {:.1} s", left.as_secs_f64()))
    }
}

/// What there is to say of an event at this moment.
fn words(life: &Life, now: Timestamp) -> Line {
    let attempt = |attempt: u32| match attempt {
        0 => "first run".to_owned(),
        attempt => format!("attempt {attempt}"),
    };
    let Some(step) = life.steps.last() else { return Line::default() };
    match &step.what {
        Turn::Sent => Line::of(Style::Busy, "sent"),
        Turn::Started { attempt: nth, .. } => {
            Line::of(Style::Busy, format!("{} runs", attempt(*nth)))
        }
        Turn::Failed { attempt: nth, .. } => {
            Line::of(Style::Bad, format!("{} failed", attempt(*nth)))
        }
        Turn::TurnedAway => Line::of(Style::Busy, "turned away"),
        Turn::Waits { attempt: nth, due, .. } => {
            let left = between(now, *due);
            let when = if left.is_zero() {
                "is due".to_owned()
            } else {
                format!("in {:.1} s", left.as_secs_f64())
            };
            Line::of(Style::Faint, format!("{} {when}", attempt(*nth)))
        }
        Turn::Succeeded { attempt: nth } => Line::of(Style::Good, format!("✓ {}", attempt(*nth))),
        Turn::GivenUp { reason } => Line::of(Style::GivenUp, format!("† {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        demo::testing::{at, decides, ends, fails, starts, story},
        happening::Decision,
    };

    const NAMES: [&str; 5] = ["order-1", "invalid-1", "order-2", "paused-1", "order-3"];

    /// Five events, of which four are sent; the first two have ended, the third waits, the fourth is
    /// turned away.
    fn scene() -> Story {
        let mut story = story(4, &NAMES);
        let wait = |due: f64, delay: f64| Decision::Wait {
            attempt: 1,
            due: at(due),
            delay: Duration::from_secs_f64(delay),
        };
        for happening in [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            decides(0.3, "r0", wait(2.0, 1.7)),
            starts(2.1, "x", "r0", 1),
            ends(2.2, "x"),
            starts(0.1, "r1", "r1", 0),
            fails(0.2, "r1"),
            decides(0.3, "r1", Decision::DeadLetter { reason: "not_retryable".to_owned() }),
            starts(0.1, "r2", "r2", 0),
            fails(1.2, "r2"),
            decides(1.3, "r2", wait(5.5, 4.2)),
            decides(0.4, "r3", wait(2.5, 2.1)),
        ] {
            story.observe(&happening);
        }
        story
    }

    fn picture(width: usize, height: Option<usize>) -> Vec<String> {
        let view = View {
            now: at(3.0),
            upstream_back: at(6.0),
            expected: Duration::from_secs(12),
            width,
            height,
        };
        let lines = draw(&scene(), "demo", &view);
        lines.iter().map(|line| line.paint(false).trim_end().to_owned()).collect()
    }

    #[test]
    fn the_picture_has_a_row_for_each_event_and_says_where_it_stands() {
        assert_eq!(
            picture(60, None),
            [
                "demo                                                   3.0 s",
                "Lambda events fail, wait and come back until they succeed or",
                "A row is an event's life from left to right; the event's nam",
                "upstream   ▓▓▓▓▓▓▓░░░░░              down, back in 3.0 s",
                "           0s        5s        10s",
                "order-1    ✗───✓                     ✓ attempt 1",
                "invalid-1  ✗†                        † not_retryable",
                "order-2    ━━✗────····○              attempt 1 in 2.5 s",
                "paused-1   ‖──────                   attempt 1 is due",
                "order-3",
                "",
                "1 not sent yet, 2 waiting, 1 succeeded, 1 given up",
                "✗ failed  ━ runs  ─ waits  ○ due  ‖ turned away  ✓ succeeded",
            ]
        );
    }

    #[test]
    fn events_without_a_line_are_counted_and_those_that_show_something_are_drawn() {
        let picture = picture(60, Some(12));
        assert_eq!(picture.len(), 12);
        let names = picture.iter().filter_map(|line| line.split_whitespace().next());
        let names: Vec<_> = names.filter(|name| name.contains('-')).collect();
        assert_eq!(names, ["order-1", "invalid-1", "paused-1"]);
        assert_eq!(picture[8], "… and 2 more: 1 not sent yet, 1 waiting; a taller terminal s");
    }

    #[test]
    fn a_picture_never_exceeds_its_terminal() {
        for (width, height) in [(0, 0), (1, 1), (12, 3), (30, 10), (40, 11), (80, 24), (300, 100)] {
            let picture = picture(width, Some(height));
            assert!(picture.len() <= height, "{} lines of {height}", picture.len());
            let widest = picture.iter().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(widest <= width, "{widest} columns of {width}");
        }
    }

    #[test]
    fn a_narrow_picture_leaves_out_the_words() {
        let picture = picture(40, None);
        assert_eq!(picture[5], "order-1    ✗────✓");
        assert_eq!(picture[8], "paused-1   ‖───────");
    }

    #[test]
    fn the_time_axis_grows_in_leaps() {
        let seconds = Duration::from_secs;
        for (elapsed, expected) in [(0, 16), (16, 16), (17, 20), (20, 20), (21, 25)] {
            assert_eq!(horizon(seconds(16), seconds(elapsed)), seconds(expected), "{elapsed} s");
        }
        assert_eq!(horizon(Duration::ZERO, Duration::ZERO), seconds(1));
    }
}
