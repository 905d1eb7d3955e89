//! What has happened to each event of a demo, as the journal tells it.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use comeback_core::{Timestamp, time::between};

use crate::{
    deploy::HANDLER,
    happening::{Decision, Error, Happening, What},
    journal::Ending,
    paint::{Line, Style},
    words::{failure, run, seconds},
};

/// Columns for the name of an event.
pub const NAME_WIDTH: usize = 14;

/// Everything that happened to the events of a demo.
#[derive(Debug)]
pub struct Story {
    /// When the demo began.
    pub began: Timestamp,
    /// The events, in the order in which they are sent.
    pub lives: Vec<Life>,
    /// How late each re-invocation was, without the part that SQS adds by counting in whole seconds.
    pub latenesses: Vec<Duration>,
    /// Warnings and errors of the functions.
    pub troubles: Vec<String>,
    /// Lines that were not printed yet.
    news: Vec<Line>,
    /// The events by the request ids of their first invocations.
    by_event: HashMap<Arc<str>, usize>,
    /// The events and attempts by the request ids of their runs.
    by_run: HashMap<Arc<str>, (usize, u32)>,
}

/// What happened to one event.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// The event's name.
    pub name: String,
    /// What happened to it, in order.
    pub turns: Vec<Turn>,
}

/// Something that happens to an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// Lambda accepted it.
    Sent,
    /// Its function began to run. Attempt 0 is Lambda's own invocation.
    Started { attempt: u32 },
    /// The run failed.
    Failed { attempt: u32, ending: Ending, error: Error },
    /// The run succeeded.
    Succeeded { attempt: u32 },
    /// Lambda did not run its function, which is paused.
    TurnedAway,
    /// It waits for its next attempt.
    Waits { attempt: u32, due: Timestamp, delay: Duration },
    /// It was sent to the dead-letter queue.
    GivenUp { reason: String },
}

impl Life {
    /// The state of the event.
    pub fn state(&self) -> &'static str {
        match self.turns.last() {
            None => "not sent yet",
            Some(Turn::Sent | Turn::Started { .. }) => "running",
            Some(Turn::Failed { .. } | Turn::TurnedAway | Turn::Waits { .. }) => "waiting",
            Some(Turn::Succeeded { .. }) => "succeeded",
            Some(Turn::GivenUp { .. }) => "given up",
        }
    }

    /// Whether its function has run since it last began to wait.
    fn ran_since_it_waited(&self) -> bool {
        let mut turns = self.turns.iter().rev();
        let last = turns.find(|turn| matches!(turn, Turn::Started { .. } | Turn::Waits { .. }));
        matches!(last, Some(Turn::Started { .. }))
    }
}

impl Story {
    /// A story of events with these names.
    pub fn begin(began: Timestamp, names: impl IntoIterator<Item = String>) -> Self {
        Self {
            began,
            lives: names.into_iter().map(|name| Life { name, turns: Vec::new() }).collect(),
            latenesses: Vec::new(),
            troubles: Vec::new(),
            news: Vec::new(),
            by_event: HashMap::new(),
            by_run: HashMap::new(),
        }
    }

    /// Notes that Lambda accepted an event under this request id.
    pub fn sent(&mut self, event: usize, request_id: &str, at: Timestamp) {
        self.by_event.insert(request_id.into(), event);
        self.turn(event, at, Turn::Sent);
    }

    /// Adds a line to the news.
    pub fn tell(&mut self, at: Timestamp, name: &str, style: Style, words: impl AsRef<str>) {
        let seconds = between(self.began, at).as_secs_f64();
        let line = Line::of(Style::Faint, format!("{seconds:7.3} s  "));
        self.news.push(line.and(Style::Plain, name).and(style, words));
    }

    /// The lines since the last call.
    pub fn news(&mut self) -> Vec<Line> {
        mem::take(&mut self.news)
    }

    /// Takes in what happened.
    pub fn observe(&mut self, happening: &Happening) {
        let Happening { at, function, what } = happening;
        match what {
            What::Started(run) => {
                if let Some(&event) = self.by_event.get(&run.event_id) {
                    self.by_run.insert(Arc::clone(&run.request_id), (event, run.attempt));
                    self.turn(event, *at, Turn::Started { attempt: run.attempt });
                }
            }
            What::Ended { request_id, ending, error } => {
                let error = error.clone();
                match (self.by_run.remove(request_id), error) {
                    (Some((event, attempt)), None) => {
                        self.turn(event, *at, Turn::Succeeded { attempt });
                    }
                    (Some((event, attempt)), Some(error)) => {
                        self.turn(event, *at, Turn::Failed { attempt, ending: *ending, error });
                    }
                    // The run was one of the handler.
                    (None, Some(error)) => self.trouble(HANDLER, &error.message),
                    (None, None) => {}
                }
            }
            What::Decided { event_id, decision } => {
                if let Some(&event) = self.by_event.get(event_id) {
                    self.decided(event, *at, decision);
                }
            }
            What::Trouble(trouble) => self.trouble(function, trouble),
            // The handler receives what Lambda gives up, and its decision follows.
            What::GivenUpByLambda { .. } | What::Said(_) => {}
        }
    }

    /// Whether every event has succeeded or was given up.
    pub fn is_over(&self) -> bool {
        self.lives.iter().all(|life| {
            matches!(life.turns.last(), Some(Turn::Succeeded { .. } | Turn::GivenUp { .. }))
        })
    }

    fn decided(&mut self, event: usize, at: Timestamp, decision: &Decision) {
        match decision {
            Decision::Wait { attempt, due, delay } => {
                if !self.lives[event].ran_since_it_waited() {
                    self.turn(event, at, Turn::TurnedAway);
                }
                let (attempt, due, delay) = (*attempt, *due, *delay);
                self.turn(event, at, Turn::Waits { attempt, due, delay });
            }
            Decision::Invoke { lateness, .. } => {
                let waited = self.lives[event].turns.iter().rev().find_map(|turn| {
                    let Turn::Waits { delay, .. } = turn else { return None };
                    Some(*delay)
                });
                let rounding = waited.map_or(Duration::ZERO, rounding);
                self.latenesses.push(lateness.saturating_sub(rounding));
            }
            Decision::DeadLetter { reason } => {
                self.turn(event, at, Turn::GivenUp { reason: reason.clone() });
            }
        }
    }

    fn turn(&mut self, event: usize, at: Timestamp, turn: Turn) {
        if let Some((style, words)) = words(&turn) {
            let name = format!("{:<NAME_WIDTH$} ", self.lives[event].name);
            self.tell(at, &name, style, words);
        }
        self.lives[event].turns.push(turn);
    }

    fn trouble(&mut self, function: &str, trouble: &str) {
        let trouble = format!("{function}: {trouble}");
        self.news.push(Line::of(Style::Bad, &trouble));
        self.troubles.push(trouble);
    }
}

/// How much longer SQS, which counts in whole seconds, makes a wait.
fn rounding(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)) - wait
}

/// The words of a line. The start of a run has none: a line about its end follows.
fn words(turn: &Turn) -> Option<(Style, String)> {
    Some(match turn {
        Turn::Started { .. } => return None,
        Turn::Sent => (Style::Plain, "is sent".to_owned()),
        Turn::Failed { attempt, ending, error } => {
            (Style::Bad, format!("{} {}", run(*attempt), failure(*ending, error)))
        }
        Turn::TurnedAway => (Style::Busy, "does not run: its function is paused".to_owned()),
        Turn::Waits { attempt, delay, .. } => {
            (Style::Faint, format!("waits {} for {}", seconds(*delay), run(*attempt)))
        }
        Turn::Succeeded { attempt } => (Style::Good, format!("{} succeeds", run(*attempt))),
        Turn::GivenUp { reason } => (Style::GivenUp, format!("is dead-lettered: {reason}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::testing::{at, decides, ends, fails, starts, story, wait};

    fn news(story: &mut Story) -> Vec<String> {
        story.news().iter().map(|line| line.paint(false)).collect()
    }

    #[test]
    fn an_event_is_followed_through_all_its_runs_with_a_line_for_each_step() {
        let mut story = story(&["order-1"], 1);
        for happening in [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            decides(0.3, "r0", wait(1, 2.0, 1.7)),
            starts(1.6, "other", "other", 0),
            starts(2.3, "r9", "r0", 1),
            ends(2.4, "r9"),
        ] {
            assert!(!story.is_over());
            story.observe(&happening);
        }
        assert!(story.is_over());
        let expected = [
            "  0.000 s  order-1        is sent",
            "  0.200 s  order-1        the first run fails: UpstreamUnavailable: 503",
            "  0.300 s  order-1        waits 1.7 s for attempt 1",
            "  2.400 s  order-1        attempt 1 succeeds",
        ];
        assert_eq!(news(&mut story), expected);
        assert_eq!(news(&mut story), [""; 0]);
    }

    #[test]
    fn a_wait_without_a_run_before_it_means_that_the_function_is_paused() {
        let mut story = story(&["paused-1"], 1);
        story.observe(&decides(0.3, "r0", wait(1, 3.0, 2.7)));
        story.observe(&decides(3.4, "r0", wait(1, 6.0, 2.6)));
        let turned_away = story.lives[0].turns.iter().filter(|turn| **turn == Turn::TurnedAway);
        assert_eq!(turned_away.count(), 2);
    }

    #[test]
    fn lateness_does_not_count_the_rounding_of_sqs() {
        let mut story = story(&["order-1"], 1);
        story.observe(&decides(0.3, "r0", wait(1, 1.7, 1.4)));
        let lateness = Duration::from_millis(620);
        story.observe(&decides(2.32, "r0", Decision::Invoke { attempt: 1, lateness }));
        assert_eq!(story.latenesses, [Duration::from_millis(20)]);
        assert_eq!(rounding(Duration::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn warnings_and_errors_of_functions_are_kept() {
        let mut story = story(&["order-1"], 0);
        let what = What::Trouble("no such queue".to_owned());
        story.observe(&Happening { at: at(0.1), function: "example-target".into(), what });
        story.observe(&Happening { function: HANDLER.into(), ..fails(0.2, "h") });
        let troubles = ["example-target: no such queue", "retry-handler: 503"];
        assert_eq!(story.troubles, troubles);
        assert_eq!(news(&mut story), troubles);
    }
}
