//! The history of each event, collected from the journal.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use comeback_core::{Timestamp, time::between};
use comeback_local_client::deploy::HANDLER;

use crate::{
    activity::{Activity, Kind, failure, run_name, seconds},
    life::StepKind,
    paint::{Line, Style},
};

pub(super) const NAME_WIDTH: usize = 14;

#[derive(Debug, Default)]
pub struct History {
    pub began: Timestamp,
    /// The events, in the order of the rows.
    pub(super) events: Vec<EventHistory>,
    /// The lateness of each re-invocation, less the delay that SQS adds by rounding to whole seconds.
    pub(super) latenesses: Vec<Duration>,
    pub(super) troubles: Vec<String>,
    new_lines: Vec<Line>,
    /// The index of each event, by the request id of its first invocation.
    by_event: HashMap<Arc<str>, usize>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct EventHistory {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    /// Whether its function has run since it last started to wait.
    has_run: bool,
    waited: Duration,
}

/// The states of an event, as the table counts them.
pub(super) const STATES: [&str; 5] = [UNSENT, RUNNING, WAITING, SUCCEEDED, GIVEN_UP];
const UNSENT: &str = "not sent yet";
const RUNNING: &str = "running";
const WAITING: &str = "waiting";
const SUCCEEDED: &str = "succeeded";
const GIVEN_UP: &str = "given up";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The state of the event after the step, one of [`STATES`].
    pub(super) state: &'static str,
    pub(super) attempt: u32,
    pub(super) style: Style,
    /// The marks that the step adds to the event's row.
    pub(super) marks: String,
    /// The state in more detail. If there is a due time, the time that is left comes after it.
    pub(super) says: String,
    pub(super) due: Option<Timestamp>,
}

impl EventHistory {
    pub(super) fn state(&self) -> &'static str {
        self.steps.last().map_or(UNSENT, |step| step.state)
    }

    pub(super) fn success(&self) -> Option<u32> {
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

    fn decided(&mut self, event: usize, at: Timestamp, attempt: Option<u32>, what: &StepKind) {
        let is_known = attempt.is_some();
        let attempt = attempt.unwrap_or_default();
        match what {
            StepKind::Waits { until, .. } if !is_known => {
                let words =
                    format!("waits {}: its attempt is not known yet", seconds(between(at, *until)));
                self.say(event, at, Style::Faint, words);
            }
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
            StepKind::Retried { late_ms, .. } => {
                let rounding = rounding(self.events[event].waited);
                self.latenesses.push(Duration::from_millis(*late_ms).saturating_sub(rounding));
            }
            StepKind::GivenUp { reason } => {
                self.add_step(event, attempt, (GIVEN_UP, Style::GivenUp, "†", reason.clone()));
                self.say(event, at, Style::GivenUp, format!("is dead-lettered: {reason}"));
            }
            StepKind::Failed { .. }
            | StepKind::NotRun { .. }
            | StepKind::Undelivered { .. }
            | StepKind::Delivered { .. }
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

#[cfg(test)]
pub mod tests {
    use comeback_local_client::journal::Entry;

    use super::*;

    use crate::{
        activity::tests::{at, entry, fails, read, retries, starts, waits},
        paint::tests::texts,
    };

    /// A history of these events, after these entries of the journal. The first `sent` of them were sent at 0 s, with
    /// the request ids `r0`, `r1` and so on.
    pub(in crate::demo) fn history(names: &[&str], sent: usize, entries: &[Entry]) -> History {
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
    fn a_wait_until_it_is_known_which_attempt_has_failed_is_no_pause_and_no_step() {
        let mut unknown = waits(0.3, "r0", 1, 0.3, 1.0);
        unknown.line = unknown.line.map(|line| line.replace("\"attempt\":1,", ""));
        let run = [starts(0.1, "r0", "r0", 0), fails(0.2, "r0"), unknown];
        let wait = waits(1.4, "r0", 1, 3.0, 1.6);
        let mut history = history(&["order-1"], 1, &[run.as_slice(), &[wait]].concat());
        let steps: Vec<_> = history.events[0].steps.iter().map(|step| &*step.says).collect();
        assert_eq!(steps, ["sent", "first run runs", "first run failed", "attempt 1"]);
        let said = texts(&history.take_lines());
        assert!(said[2].ends_with("waits 1.0 s: its attempt is not known yet"), "{said:?}");
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
}
