//! An event on the live page, its state, and the page's filter.

use std::sync::Arc;

use comeback_core::{Timestamp, pattern};

use crate::operate::{
    rules::life::{Next, Step, StepKind, next},
    rules::{contains, is_error_of},
};

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum State {
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
    /// All states, with their names.
    pub const ALL: [(Self, &str); 7] = [
        (Self::Running, "running"),
        (Self::Queued, "queued"),
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
    /// The request id of the first invocation.
    pub id: Arc<str>,
    /// The name of the function, with a qualifier unless that is `$LATEST`.
    pub function: String,
    /// The steps so far, in order.
    pub steps: Vec<Step>,
    /// The request id of the latest run, if it has not ended.
    pub running: Option<Arc<str>>,
    /// The time of the first report about the event.
    pub began: Timestamp,
}

impl Event {
    pub fn state(&self) -> State {
        if self.running.is_some() {
            return State::Running;
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

    /// When the event comes back, if it waits.
    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        let Next::Waits { until } = self.next() else { return None };
        (self.state() == State::Waiting).then_some(until)
    }

    /// The type and the message of the last error.
    pub fn error(&self) -> (Option<&str>, Option<&str>) {
        let failed = self.steps.iter().rev().find_map(|step| {
            let StepKind::Failed { error_type, error_message } = &step.what else { return None };
            Some((error_type.as_deref(), error_message.as_deref()))
        });
        failed.unwrap_or_default()
    }

    /// The number of failed runs.
    pub fn failures(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, StepKind::Failed { .. })).count()
    }

    pub fn retries(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, StepKind::Retried { .. })).count()
    }
}

/// A filter for events. All conditions that are set must be met.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EventFilter {
    /// The name of the function; `*` matches any characters.
    pub function: Option<String>,
    pub state: Option<State>,
    /// Whether only events match that have failed at least once.
    pub has_failed: bool,
    /// The type of the last error or its last segment, or `none`; `*` matches any characters.
    pub error: Option<String>,
    /// A part of the id, the function, or the last error, ignoring case.
    pub text: Option<String>,
}

impl EventFilter {
    /// Whether this event meets all conditions.
    pub fn matches(&self, event: &Event) -> bool {
        let (error_type, message) = event.error();
        self.function.as_ref().is_none_or(|wanted| pattern::matches(wanted, &event.function))
            && (!self.has_failed || event.failures() > 0)
            && self.state.is_none_or(|state| state == event.state())
            && self.error.as_deref().is_none_or(|wanted| is_error_of(error_type, wanted))
            && self.text.as_ref().is_none_or(|text| {
                let texts = [Some(&*event.id), Some(&event.function), error_type, message];
                texts.into_iter().flatten().any(|it| contains(it, text))
            })
    }

    /// Whether no condition is set.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}
