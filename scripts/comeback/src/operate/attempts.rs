//! The attempts of an event, from its steps: when each ran, how it ended, and the wait after it.

use comeback_core::{Timestamp, time::between};

use crate::life::{Step, StepKind};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempted {
    /// The attempt; 0 is Lambda's own invocation.
    pub attempt: u32,
    pub request_id: Option<String>,
    pub began: Timestamp,
    pub late_ms: Option<u64>,
    /// When it ended, or `None` if it runs or nothing is known of its end.
    pub ended: Option<Timestamp>,
    pub error: Option<(Option<String>, Option<String>)>,
    /// Why Lambda did not run it. With a reserved concurrency of 0 the same attempt is made again.
    pub not_run: Option<String>,
    /// The ARN of the rule or the schedule that could not deliver the event. This was no run.
    pub undelivered_by: Option<String>,
    /// Whether the target has accepted an event that it had missed, which ends the event. How it ran is not known.
    pub is_delivered: bool,
    pub wait: Option<Wait>,
    pub given_up: Option<(Timestamp, String)>,
    /// Faults that the handler had, and duplicates.
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub at: Timestamp,
    pub text: String,
    pub error: Option<String>,
    /// Whether the handler could not act on the failure because of it.
    pub blocks: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wait {
    pub from: Timestamp,
    pub due_at: Option<Timestamp>,
    pub until: Timestamp,
    /// How often it came back and was made to wait again.
    pub again: u32,
}

impl Attempted {
    /// The handler logs an attempt after Lambda has accepted it, which may be after its end.
    fn end(&mut self, at: Timestamp) {
        self.ended = Some(at);
        self.began = self.began.min(at);
    }
}

/// The attempts of an event that began at this time, by its steps.
pub fn attempts(began: Timestamp, steps: &[Step]) -> Vec<Attempted> {
    let begun = |attempt, began| Attempted { attempt, began, ..Attempted::default() };
    let mut all = vec![begun(0, began)];
    for step in steps {
        let Some(last) = all.last_mut() else { continue };
        match &step.what {
            StepKind::Failed { error_type, error_message } => {
                last.end(step.at);
                last.error = Some((error_type.clone(), error_message.clone()));
                last.request_id = Some(step.request_id.clone());
                // The register may have the first report of an event.
                last.attempt = step.attempt.map_or(last.attempt, |next| next.saturating_sub(1));
            }
            StepKind::NotRun { condition } => {
                last.end(step.at);
                last.not_run = Some(condition.clone());
                last.request_id = Some(step.request_id.clone());
            }
            StepKind::Undelivered { source, error_type } => {
                last.end(step.at);
                last.undelivered_by = Some(source.clone());
                last.error = Some((error_type.clone(), None));
                last.request_id = Some(step.request_id.clone());
            }
            StepKind::Succeeded => {
                last.end(step.at);
                last.request_id = Some(step.request_id.clone());
            }
            StepKind::Waits { due_at, until, again } => {
                let from = last.wait.map_or(step.at, |wait| wait.from);
                last.wait = Some(Wait { from, due_at: *due_at, until: *until, again: *again });
            }
            StepKind::Retried { late_ms, retry_request_id }
            | StepKind::Delivered { late_ms, retry_request_id } => {
                // It was due when the handler read it, or the log has no line about its wait.
                let from = last.ended.unwrap_or(last.began);
                let wait = Wait { from, due_at: None, until: step.at, again: 0 };
                last.wait = Some(Wait { until: step.at, ..last.wait.unwrap_or(wait) });
                let next = last.attempt + 1;
                let (late_ms, request_id) = (Some(*late_ms), retry_request_id.clone());
                let is_delivered = matches!(step.what, StepKind::Delivered { .. });
                all.push(Attempted {
                    late_ms,
                    request_id,
                    is_delivered,
                    ended: is_delivered.then_some(step.at),
                    ..begun(step.attempt.unwrap_or(next), step.at)
                });
            }
            StepKind::GivenUp { reason } => last.given_up = Some((step.at, reason.clone())),
            StepKind::Dropped => {
                let text = "a duplicate message was dropped".to_owned();
                last.notes.push(Note { at: step.at, text, error: None, blocks: false });
            }
            StepKind::Trouble { said, error, blocks } => {
                let (text, error) = (said.clone(), error.clone());
                last.notes.push(Note { at: step.at, text, error, blocks: *blocks });
            }
        }
    }
    all
}

/// The part of a linear axis below which the row of an attempt is too short to read.
const SLIVER: f64 = 0.03;

/// Whether most attempts would be slivers on a linear axis of this length. The backoff doubles, so the first attempts
/// of a long life are.
pub fn are_slivers(attempts: &[Attempted], seconds: f64) -> bool {
    let is_sliver = |it: &&Attempted| {
        let end = it.wait.map(|wait| wait.until).or(it.ended).unwrap_or(it.began);
        between(it.began, end).as_secs_f64() < SLIVER * seconds
    };
    2 * attempts.iter().filter(is_sliver).count() > attempts.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_was_not_run_is_made_again() {
        let at = |seconds: i64| Timestamp::from_timestamp(seconds, 0).unwrap();
        let step = |second, attempt, what| Step {
            at: at(second),
            attempt: Some(attempt),
            request_id: format!("r{second}"),
            policy: None,
            what,
        };
        let not_run = || StepKind::NotRun { condition: "ZeroReservedConcurrency".to_owned() };
        let retried = || StepKind::Retried { late_ms: 0, retry_request_id: None };
        let failed = || StepKind::Failed { error_type: None, error_message: None };
        let steps = [
            step(1, 1, not_run()),
            step(2, 1, retried()),
            step(3, 1, not_run()),
            step(4, 1, retried()),
            step(5, 2, failed()),
            step(6, 2, retried()),
        ];
        let all = attempts(at(0), &steps);
        let told: Vec<_> =
            all.iter().map(|it| (it.attempt, it.not_run.is_some(), it.error.is_some())).collect();
        let expected = [(0, true, false), (1, true, false), (1, false, true), (2, false, false)];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_life_is_shown_on_a_logarithmic_axis_if_most_of_its_attempts_would_be_slivers() {
        let at = |seconds: i64| Timestamp::from_timestamp(seconds, 0).unwrap();
        // Each attempt begins at a time, fails at once, and waits until the next one begins.
        let life = |times: &[i64]| -> Vec<Attempted> {
            let wait = |from, until| Some(Wait { from, due_at: None, until, again: 0 });
            let attempt = |pair: &[i64]| {
                let (began, until) = (at(pair[0]), at(pair[1]));
                let (ended, wait) = (Some(began), wait(began, until));
                Attempted { began, ended, wait, ..Attempted::default() }
            };
            times.windows(2).map(attempt).collect()
        };
        for (times, seconds, expected) in [
            (&[0, 1, 3, 7, 15][..], 15.0, false),
            (&[0, 1, 3, 7, 15, 31, 4000], 4000.0, true),
            (&[0, 1, 3, 2000, 4000], 4000.0, false),
            (&[0, 3600], 3600.0, false),
        ] {
            assert_eq!(are_slivers(&life(times), seconds), expected, "{times:?}");
        }
    }
}
