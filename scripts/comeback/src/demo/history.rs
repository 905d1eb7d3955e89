//! The history of each event of a demo, collected from the journal.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use comeback_core::{Timestamp, time::between};

use crate::{
    activity::{Activity, Decision, Error, Kind},
    deploy::HANDLER,
    journal::Ending,
    paint::{Line, Style},
    phrases::{failure, run, seconds},
};

/// The width of the column with an event's name.
pub const NAME_WIDTH: usize = 14;

#[derive(Debug)]
pub struct History {
    pub began: Timestamp,
    /// The events, in the order of the rows.
    pub events: Vec<EventHistory>,
    /// The lateness of each re-invocation, less the delay that SQS adds by rounding to whole seconds.
    pub latenesses: Vec<Duration>,
    /// The warnings and errors of the functions.
    pub troubles: Vec<String>,
    /// Lines that have not been printed yet.
    new_lines: Vec<Line>,
    /// The index of each event, by the request id of its first invocation.
    by_event: HashMap<Arc<str>, usize>,
    /// The index of the event and the attempt of each current run, by its request id.
    by_run: HashMap<Arc<str>, (usize, u32)>,
}

#[derive(Clone, Debug, Default)]
pub struct EventHistory {
    pub name: String,
    /// Its steps so far, in order.
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Sent,
    /// A run of the function started. Attempt 0 is Lambda's own invocation.
    Started {
        attempt: u32,
    },
    Failed {
        attempt: u32,
        ending: Ending,
        error: Error,
    },
    Succeeded {
        attempt: u32,
    },
    /// Lambda did not run the function, because it is paused.
    FunctionPaused,
    Waits {
        attempt: u32,
        due: Timestamp,
        delay: Duration,
    },
    /// The event was sent to the dead-letter queue.
    GivenUp {
        reason: String,
    },
}

impl EventHistory {
    /// The current state, in words.
    pub fn state(&self) -> &'static str {
        match self.steps.last() {
            None => "not sent yet",
            Some(Step::Sent | Step::Started { .. }) => "running",
            Some(Step::Failed { .. } | Step::FunctionPaused | Step::Waits { .. }) => "waiting",
            Some(Step::Succeeded { .. }) => "succeeded",
            Some(Step::GivenUp { .. }) => "given up",
        }
    }

    /// Whether the function has run since the event last started to wait.
    fn ran_since_it_waited(&self) -> bool {
        let mut steps = self.steps.iter().rev();
        let last = steps.find(|step| matches!(step, Step::Started { .. } | Step::Waits { .. }));
        matches!(last, Some(Step::Started { .. }))
    }
}

impl History {
    /// Empty histories of events with these names.
    pub fn begin(began: Timestamp, names: impl IntoIterator<Item = String>) -> Self {
        Self {
            began,
            events: names
                .into_iter()
                .map(|name| EventHistory { name, steps: Vec::new() })
                .collect(),
            latenesses: Vec::new(),
            troubles: Vec::new(),
            new_lines: Vec::new(),
            by_event: HashMap::new(),
            by_run: HashMap::new(),
        }
    }

    /// Records that Lambda accepted an event with this request id.
    pub fn sent(&mut self, event: usize, request_id: &str, at: Timestamp) {
        self.by_event.insert(request_id.into(), event);
        self.add_step(event, at, Step::Sent);
    }

    pub fn add_line(&mut self, at: Timestamp, name: &str, style: Style, words: impl AsRef<str>) {
        let seconds = between(self.began, at).as_secs_f64();
        let line = Line::of(Style::Faint, format!("{seconds:7.3} s  "));
        self.new_lines.push(line.and(Style::Plain, name).and(style, words));
    }

    /// Returns the lines since the last call.
    pub fn take_lines(&mut self) -> Vec<Line> {
        mem::take(&mut self.new_lines)
    }

    pub fn observe(&mut self, activity: &Activity) {
        let Activity { at, function, kind } = activity;
        match kind {
            Kind::Started(run) => {
                if let Some(&event) = self.by_event.get(&run.event_id) {
                    self.by_run.insert(Arc::clone(&run.request_id), (event, run.attempt));
                    self.add_step(event, *at, Step::Started { attempt: run.attempt });
                }
            }
            Kind::Ended { request_id, ending, error } => {
                let error = error.clone();
                match (self.by_run.remove(request_id), error) {
                    (Some((event, attempt)), None) => {
                        self.add_step(event, *at, Step::Succeeded { attempt });
                    }
                    (Some((event, attempt)), Some(error)) => {
                        self.add_step(event, *at, Step::Failed { attempt, ending: *ending, error });
                    }
                    // A run of the handler.
                    (None, Some(error)) => self.trouble(HANDLER, &error.message),
                    (None, None) => {}
                }
            }
            Kind::Decided { event_id, decision } => {
                if let Some(&event) = self.by_event.get(event_id) {
                    self.decided(event, *at, decision);
                }
            }
            Kind::Trouble(trouble) => self.trouble(function, trouble),
            // The handler receives the event that Lambda gives up, and logs a decision.
            Kind::GivenUpByLambda { .. } | Kind::Logged(_) => {}
        }
    }

    /// Whether every event has either succeeded or been given up.
    pub fn is_over(&self) -> bool {
        self.events.iter().all(|event| {
            matches!(event.steps.last(), Some(Step::Succeeded { .. } | Step::GivenUp { .. }))
        })
    }

    fn decided(&mut self, event: usize, at: Timestamp, decision: &Decision) {
        match decision {
            Decision::Wait { attempt, due, delay } => {
                if !self.events[event].ran_since_it_waited() {
                    self.add_step(event, at, Step::FunctionPaused);
                }
                let (attempt, due, delay) = (*attempt, *due, *delay);
                self.add_step(event, at, Step::Waits { attempt, due, delay });
            }
            Decision::Invoke { lateness, .. } => {
                let waited = self.events[event].steps.iter().rev().find_map(|step| {
                    let Step::Waits { delay, .. } = step else { return None };
                    Some(*delay)
                });
                let rounding = waited.map_or(Duration::ZERO, rounding);
                self.latenesses.push(lateness.saturating_sub(rounding));
            }
            Decision::DeadLetter { reason } => {
                self.add_step(event, at, Step::GivenUp { reason: reason.clone() });
            }
        }
    }

    fn add_step(&mut self, event: usize, at: Timestamp, step: Step) {
        if let Some((style, words)) = description(&step) {
            let name = format!("{:<NAME_WIDTH$} ", self.events[event].name);
            self.add_line(at, &name, style, words);
        }
        self.events[event].steps.push(step);
    }

    fn trouble(&mut self, function: &str, trouble: &str) {
        let trouble = format!("{function}: {trouble}");
        self.new_lines.push(Line::of(Style::Bad, &trouble));
        self.troubles.push(trouble);
    }
}

/// The delay that SQS adds to a wait by rounding it up to whole seconds.
fn rounding(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)) - wait
}

/// The style and the text of a step's line. The start of a run has none, because a line about its end follows.
fn description(step: &Step) -> Option<(Style, String)> {
    Some(match step {
        Step::Started { .. } => return None,
        Step::Sent => (Style::Plain, "is sent".to_owned()),
        Step::Failed { attempt, ending, error } => {
            (Style::Bad, format!("{} {}", run(*attempt), failure(*ending, error)))
        }
        Step::FunctionPaused => (Style::Busy, "does not run: its function is paused".to_owned()),
        Step::Waits { attempt, delay, .. } => {
            (Style::Faint, format!("waits {} for {}", seconds(*delay), run(*attempt)))
        }
        Step::Succeeded { attempt } => (Style::Good, format!("{} succeeds", run(*attempt))),
        Step::GivenUp { reason } => (Style::GivenUp, format!("is dead-lettered: {reason}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::testing::{at, decides, ends, fails, history, starts, wait};

    fn new_lines(history: &mut History) -> Vec<String> {
        history.take_lines().iter().map(|line| line.paint(false)).collect()
    }

    #[test]
    fn an_event_is_followed_through_all_its_runs_with_a_line_for_each_step() {
        let mut history = history(&["order-1"], 1);
        for activity in [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            decides(0.3, "r0", wait(1, 2.0, 1.7)),
            starts(1.6, "other", "other", 0),
            starts(2.3, "r9", "r0", 1),
            ends(2.4, "r9"),
        ] {
            assert!(!history.is_over());
            history.observe(&activity);
        }
        assert!(history.is_over());
        let expected = [
            "  0.000 s  order-1        is sent",
            "  0.200 s  order-1        the first run fails: UpstreamUnavailable: 503",
            "  0.300 s  order-1        waits 1.7 s for attempt 1",
            "  2.400 s  order-1        attempt 1 succeeds",
        ];
        assert_eq!(new_lines(&mut history), expected);
        assert_eq!(new_lines(&mut history), [""; 0]);
    }

    #[test]
    fn a_wait_without_a_run_before_it_means_that_the_function_is_paused() {
        let mut history = history(&["paused-1"], 1);
        history.observe(&decides(0.3, "r0", wait(1, 3.0, 2.7)));
        history.observe(&decides(3.4, "r0", wait(1, 6.0, 2.6)));
        let paused = history.events[0].steps.iter().filter(|step| **step == Step::FunctionPaused);
        assert_eq!(paused.count(), 2);
    }

    #[test]
    fn lateness_does_not_count_the_rounding_of_sqs() {
        let mut history = history(&["order-1"], 1);
        history.observe(&decides(0.3, "r0", wait(1, 1.7, 1.4)));
        let lateness = Duration::from_millis(620);
        history.observe(&decides(2.32, "r0", Decision::Invoke { attempt: 1, lateness }));
        assert_eq!(history.latenesses, [Duration::from_millis(20)]);
        assert_eq!(rounding(Duration::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn warnings_and_errors_of_functions_are_kept() {
        let mut history = history(&["order-1"], 0);
        let kind = Kind::Trouble("no such queue".to_owned());
        history.observe(&Activity { at: at(0.1), function: "example-target".into(), kind });
        history.observe(&Activity { function: HANDLER.into(), ..fails(0.2, "h") });
        let troubles = ["example-target: no such queue", "retry-handler: 503"];
        assert_eq!(history.troubles, troubles);
        assert_eq!(new_lines(&mut history), troubles);
    }
}
