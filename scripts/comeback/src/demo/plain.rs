//! The story as plain lines, one for each thing that happens, for where there is no terminal.

use comeback_core::{Timestamp, time::between};

use super::story::{Story, Turn};
use crate::{
    paint::{Line, Style},
    words::{failure, run, seconds},
};

/// Columns for the name of an event.
const NAME_WIDTH: usize = 14;

/// Tells each step once.
#[derive(Debug)]
pub struct Teller {
    /// How many steps of each life are told.
    told: Vec<usize>,
    troubles: usize,
    /// When the upstream is back, until that is told.
    upstream_back: Option<Timestamp>,
}

impl Teller {
    /// One that has told nothing yet.
    pub fn new(upstream_back: Timestamp) -> Self {
        Self { told: Vec::new(), troubles: 0, upstream_back: Some(upstream_back) }
    }

    /// What has happened since this was last asked.
    pub fn news(&mut self, story: &Story, now: Timestamp) -> Vec<Line> {
        self.told.resize(story.lives.len(), 0);
        let mut lines = Vec::new();
        if let Some(at) = self.upstream_back.take_if(|at| *at <= now) {
            lines.push(stamp(story.began, at).and(Style::Good, "the upstream is back"));
        }
        for (life, told) in story.lives.iter().zip(&mut self.told) {
            let steps = life.steps.iter().skip(*told);
            lines.extend(steps.filter_map(|step| {
                let (style, words) = words(&step.what)?;
                let name = format!("{:<NAME_WIDTH$} ", life.name);
                Some(stamp(story.began, step.at).and(Style::Plain, name).and(style, words))
            }));
            *told = life.steps.len();
        }
        let troubles = story.troubles.iter().skip(self.troubles);
        lines.extend(troubles.map(|trouble| Line::of(Style::Bad, trouble)));
        self.troubles = story.troubles.len();
        lines
    }
}

fn stamp(began: Timestamp, at: Timestamp) -> Line {
    Line::of(Style::Faint, format!("{:7.3} s  ", between(began, at).as_secs_f64()))
}

/// The start of a run is not worth a line: its end follows, and says more.
fn words(turn: &Turn) -> Option<(Style, String)> {
    Some(match turn {
        Turn::Started { .. } => return None,
        Turn::Sent => (Style::Plain, "is sent".to_owned()),
        Turn::Failed { attempt, ending, error } => {
            (Style::Bad, format!("{} {}", run(*attempt), failure(*ending, error)))
        }
        Turn::TurnedAway => (Style::Busy, "is turned away by its function".to_owned()),
        Turn::Waits { attempt, delay, .. } => {
            (Style::Faint, format!("waits {} for {}", seconds(*delay), run(*attempt)))
        }
        Turn::Succeeded { attempt } => (Style::Good, format!("{} succeeds", run(*attempt))),
        Turn::GivenUp { reason } => (Style::GivenUp, format!("is dead-lettered: {reason}")),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        demo::testing::{at, decides, ends, fails, starts, story},
        happening::Decision,
    };

    #[test]
    fn each_thing_that_happens_is_told_once_in_a_line_of_its_own() {
        let mut story = story(2, &["order-1", "invalid-1"]);
        let mut teller = Teller::new(at(2.0));
        let mut news = |story: &Story, now| {
            let lines = teller.news(story, at(now));
            lines.iter().map(|line| line.paint(false)).collect::<Vec<_>>()
        };
        assert_eq!(
            news(&story, 0.0),
            ["  0.000 s  order-1        is sent", "  0.000 s  invalid-1      is sent"]
        );
        assert!(news(&story, 0.0).is_empty());
        let delay = Duration::from_millis(1700);
        let give_up = Decision::DeadLetter { reason: "not_retryable".to_owned() };
        for happening in [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            decides(0.3, "r0", Decision::Wait { attempt: 1, due: at(2.0), delay }),
            starts(2.3, "x", "r0", 1),
            ends(2.4, "x"),
            decides(2.5, "r1", give_up),
        ] {
            story.observe(&happening);
        }
        story.troubles.push("retry-handler: access denied".to_owned());
        assert_eq!(
            news(&story, 2.5),
            [
                "  2.000 s  the upstream is back",
                "  0.200 s  order-1        the first run fails: UpstreamUnavailable: 503",
                "  0.300 s  order-1        waits 1.7 s for attempt 1",
                "  2.400 s  order-1        attempt 1 succeeds",
                "  2.500 s  invalid-1      is dead-lettered: not_retryable",
                "retry-handler: access denied",
            ]
        );
        assert!(news(&story, 3.0).is_empty());
    }
}
