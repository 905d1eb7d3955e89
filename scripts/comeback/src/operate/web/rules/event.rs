//! An event on the live page: its state, its attempts, and the page's filter.

use std::sync::Arc;

use comeback_core::{Timestamp, pattern, time::between};

use super::standing::Place;
use crate::operate::rules::{
    contains, is_error_of,
    life::{Next, Step, StepKind, next},
};

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum State {
    /// Lambda has accepted the event, or an attempt, and does not run it yet. Only the local cloud reports this.
    AtLambda,
    Running,
    /// The run failed, and the failure record is on its way to the retry handler.
    Queued,
    Waiting,
    /// The event was retried, and the result is not known.
    Retried,
    Succeeded,
    GivenUp,
    /// No result of the run has been reported.
    Unknown,
}

impl State {
    pub const ALL: [(Self, &str); 8] = [
        (Self::AtLambda, "queued at Lambda"),
        (Self::Running, "running"),
        (Self::Queued, "failed"),
        (Self::Waiting, "waiting"),
        (Self::Retried, "retried"),
        (Self::Succeeded, "succeeded"),
        (Self::GivenUp, "given up"),
        (Self::Unknown, "unknown"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(it, _)| *it == self).map_or("", |(_, name)| name)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: Arc<str>,
    /// The name of the function, with a qualifier unless that is `$LATEST`.
    pub function: String,
    pub steps: Vec<Step>,
    /// The request id of the latest run that Lambda has accepted, if it has not started.
    pub queued: Option<Arc<str>>,
    /// The request id of the latest run that has started, if it has not ended.
    pub running: Option<Arc<str>>,
    /// The time of the first report about the event.
    pub began: Timestamp,
}

impl Event {
    pub fn state(&self) -> State {
        if self.running.is_some() {
            return State::Running;
        }
        if self.queued.is_some() {
            return State::AtLambda;
        }
        // The last decision is older than a failure after it.
        if self.last_step().is_some_and(|step| matches!(step.what, StepKind::Failed { .. })) {
            return State::Queued;
        }
        match self.next() {
            Next::Waits { .. } => State::Waiting,
            Next::Retried => State::Retried,
            Next::Succeeded => State::Succeeded,
            Next::GivenUp { .. } => State::GivenUp,
            Next::Unknown => State::Unknown,
        }
    }

    /// The last step, except for duplicates and for trouble that the handler had.
    fn last_step(&self) -> Option<&Step> {
        let is_aside =
            |step: &&Step| matches!(step.what, StepKind::Dropped | StepKind::Trouble { .. });
        self.steps.iter().rev().find(|step| !is_aside(step))
    }

    pub fn next(&self) -> Next {
        next(&self.steps)
    }

    pub(super) fn place(&self) -> Place {
        let has_failed = |step: &Step| matches!(step.what, StepKind::Failed { .. });
        (self.steps.iter().any(has_failed), self.state())
    }

    /// What has kept the handler from acting on the last failure, the latest first.
    pub fn obstacles(&self) -> impl Iterator<Item = (Timestamp, &str, Option<&str>)> {
        let is_handled = |step: &&Step| match step.what {
            StepKind::Failed { .. }
            | StepKind::Succeeded
            | StepKind::Retried { .. }
            | StepKind::GivenUp { .. } => true,
            StepKind::Waits { .. } | StepKind::Dropped | StepKind::Trouble { .. } => false,
        };
        let since = self.steps.iter().rev().take_while(move |step| !is_handled(step));
        since.filter_map(|step| match &step.what {
            StepKind::Trouble { said, error, blocks: true } => {
                Some((step.at, said.as_str(), error.as_deref()))
            }
            StepKind::Failed { .. }
            | StepKind::Succeeded
            | StepKind::Waits { .. }
            | StepKind::Retried { .. }
            | StepKind::GivenUp { .. }
            | StepKind::Dropped
            | StepKind::Trouble { .. } => None,
        })
    }

    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        let Next::Waits { until } = self.next() else { return None };
        (self.state() == State::Waiting).then_some(until)
    }

    pub fn error(&self) -> (Option<&str>, Option<&str>) {
        let failed = self.steps.iter().rev().find_map(|step| {
            let StepKind::Failed { error_type, error_message } = &step.what else { return None };
            Some((error_type.as_deref(), error_message.as_deref()))
        });
        failed.unwrap_or_default()
    }

    /// When it failed first.
    pub fn failed_at(&self) -> Option<Timestamp> {
        let failed = self.steps.iter().find(|it| matches!(it.what, StepKind::Failed { .. }));
        failed.map(|step| step.at)
    }

    pub fn failures(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, StepKind::Failed { .. })).count()
    }

    pub fn retries(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, StepKind::Retried { .. })).count()
    }
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EventFilter {
    /// The name of the function; `*` matches any characters.
    pub function: Option<String>,
    pub state: Option<State>,
    /// The type of the last error or its last segment, or `none`; `*` matches any characters.
    pub error: Option<String>,
    /// A part of the id, the function, or the last error, ignoring case.
    pub text: Option<String>,
}

impl EventFilter {
    pub fn matches(&self, event: &Event) -> bool {
        let (error_type, message) = event.error();
        self.function.as_ref().is_none_or(|wanted| pattern::matches(wanted, &event.function))
            && self.state.is_none_or(|state| state == event.state())
            && self.error.as_deref().is_none_or(|wanted| is_error_of(error_type, wanted))
            && self.text.as_ref().is_none_or(|text| {
                let texts = [Some(&*event.id), Some(&event.function), error_type, message];
                texts.into_iter().flatten().any(|it| contains(it, text))
            })
    }

    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

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
            StepKind::Succeeded => {
                last.end(step.at);
                last.request_id = Some(step.request_id.clone());
            }
            StepKind::Waits { due_at, until, again } => {
                let from = last.wait.map_or(step.at, |wait| wait.from);
                last.wait = Some(Wait { from, due_at: *due_at, until: *until, again: *again });
            }
            StepKind::Retried { late_ms } => {
                // It was due when the handler read it, or the log has no line about its wait.
                let from = last.ended.unwrap_or(last.began);
                let wait = Wait { from, due_at: None, until: step.at, again: 0 };
                last.wait = Some(Wait { until: step.at, ..last.wait.unwrap_or(wait) });
                let next = last.attempt + 1;
                let late_ms = Some(*late_ms);
                all.push(Attempted { late_ms, ..begun(step.attempt.unwrap_or(next), step.at) });
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

/// The distance of the ticks of an axis of time, so that there are at most this many, at round times.
pub fn round_step(seconds: f64, most: f64) -> f64 {
    const STEPS: [f64; 21] = [
        0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0,
        3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0,
    ];
    let step = STEPS.into_iter().find(|step| seconds / step <= most);
    step.unwrap_or_else(|| (seconds / most / 86_400.0).ceil() * 86_400.0)
}

/// What a person can do about an error that the handler met, by AWS's answer or the handler's own.
pub fn remedy(error: &str) -> &'static str {
    let has = |texts: &[&str]| texts.iter().any(|text| error.contains(text));
    if has(&["TENANT_ID", "tenant ID"]) {
        "The function has tenant isolation. Set TENANT_ID in its policy (POLICIES) to the place of the tenant id in its payloads. If this payload has none, cancel the event, and redrive its dead letter with one."
    } else if has(&["AccessDenied", "not authorized"]) {
        "Let the handler's role do it: `comeback doctor` names what is denied."
    } else if has(&["ResourceNotFound", "NonExistentQueue", "QueueDoesNotExist"]) {
        "Create what is missing again, or cancel the event and redrive its dead letter later."
    } else if has(&["KMS"]) {
        "Enable the function's key, and let its role use it."
    } else if has(&["unqualified ARN"]) {
        "Let DLQ_TARGET name a version, an alias or $LATEST of the durable function."
    } else if has(&["TooManyRequests", "Throttl", "LimitExceeded"]) {
        "It passes by itself, when there is room again."
    } else {
        "If it does not pass by itself, `comeback doctor` checks what the handler needs."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn trouble_of_the_handler_has_a_remedy_by_its_cause() {
        for (error, expected) in [
            ("TENANT_ID is /tenant, and the payload has nothing there", "tenant isolation"),
            ("AccessDeniedException: User is not authorized to perform", "the handler's role"),
            ("ResourceNotFoundException: Function not found", "cancel the event"),
            ("KMSDisabledException: Lambda was unable to decrypt", "the function's key"),
            ("TooManyRequestsException: Rate exceeded", "passes by itself"),
            ("connection reset", "comeback doctor"),
        ] {
            assert!(remedy(error).contains(expected), "{error}");
        }
    }

    #[test]
    fn an_axis_has_ticks_at_round_times() {
        for (seconds, expected) in [(3.0, 0.5), (100.0, 30.0), (1000.0, 300.0), (2.6e6, 518_400.0)]
        {
            assert_eq!(round_step(seconds, 6.0), expected, "{seconds}");
        }
    }
}
