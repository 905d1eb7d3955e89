//! An event on the live page, its state, and the page's filter.

use std::sync::Arc;

use comeback_core::Timestamp;

use crate::operate::{
    rules::filter::{NO_ERROR, contains},
    rules::life::{Next, Step, StepKind, next},
};

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum State {
    Running,
    Waiting,
    /// The event was retried, and the result is not known.
    Retried,
    Succeeded,
    GivenUp,
    /// It is not known what happens next.
    Unknown,
}

impl State {
    /// All states, with their names.
    pub const ALL: [(Self, &str); 6] = [
        (Self::Running, "running"),
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
        match next(&self.steps) {
            Next::Waits { .. } => State::Waiting,
            Next::Retried => State::Retried,
            Next::Succeeded => State::Succeeded,
            Next::GivenUp { .. } => State::GivenUp,
            Next::Unknown => State::Unknown,
        }
    }

    pub fn next(&self) -> Next {
        next(&self.steps)
    }

    /// When the event comes back, if it waits.
    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        let Next::Waits { until } = self.next() else { return None };
        self.running.is_none().then_some(until)
    }

    /// The type and the message of the last error.
    pub fn error(&self) -> (Option<&str>, Option<&str>) {
        let failed = self.steps.iter().rev().find_map(|step| {
            let StepKind::Failed { error_type, error_message } = &step.what else { return None };
            Some((error_type.as_deref(), error_message.as_deref()))
        });
        failed.unwrap_or_default()
    }

    pub fn retries(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, StepKind::Retried { .. })).count()
    }
}

/// A filter for events. All conditions that are set must be met.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EventFilter {
    pub function: Option<String>,
    pub state: Option<State>,
    /// The type of the last error, or `none`.
    pub error: Option<String>,
    /// A part of the id, the function, or the last error, ignoring case.
    pub text: Option<String>,
}

impl EventFilter {
    /// Whether this event meets all conditions.
    pub fn matches(&self, event: &Event) -> bool {
        let (error_type, message) = event.error();
        self.function.as_ref().is_none_or(|function| *function == event.function)
            && self.state.is_none_or(|state| state == event.state())
            && self.error.as_deref().is_none_or(|error| error == error_type.unwrap_or(NO_ERROR))
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
