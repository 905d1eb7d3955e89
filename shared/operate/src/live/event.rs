//! An event, how it is, and which events are meant.

use std::sync::Arc;

use comeback_core::Timestamp;

use crate::{
    filter::{NO_ERROR, contains},
    life::{Next, Step, StepKind, next},
};

/// How an event is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum State {
    /// Its function runs.
    Running,
    /// It waits for an attempt.
    Waiting,
    /// It was retried, and nothing says how that ended.
    Retried,
    /// It has succeeded.
    Succeeded,
    /// It was given up.
    GivenUp,
    /// Nothing says what happens next.
    Unknown,
}

impl State {
    /// All of them, by their names.
    pub const ALL: [(Self, &str); 6] = [
        (Self::Running, "running"),
        (Self::Waiting, "waiting"),
        (Self::Retried, "retried"),
        (Self::Succeeded, "succeeded"),
        (Self::GivenUp, "given up"),
        (Self::Unknown, "unknown"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(it, _)| *it == self).map_or("", |(_, name)| name)
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The request id of its first invocation.
    pub id: Arc<str>,
    /// The name of its function, with a qualifier unless that is `$LATEST`.
    pub function: String,
    /// What has happened, in order.
    pub steps: Vec<Step>,
    /// The request id of its latest run, if that has not ended.
    pub running: Option<Arc<str>>,
    /// When it happened for the first time.
    pub began: Timestamp,
}

impl Event {
    /// How it is.
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

    /// What happens next.
    pub fn next(&self) -> Next {
        next(&self.steps)
    }

    /// When it comes back, if it waits.
    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        let Next::Waits { until } = self.next() else { return None };
        self.running.is_none().then_some(until)
    }

    /// The type and the message of its last error.
    pub fn error(&self) -> (Option<&str>, Option<&str>) {
        let failed = self.steps.iter().rev().find_map(|step| {
            let StepKind::Failed { error_type, error_message } = &step.what else { return None };
            Some((error_type.as_deref(), error_message.as_deref()))
        });
        failed.unwrap_or_default()
    }

    /// How often it was retried.
    pub fn retries(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, StepKind::Retried { .. })).count()
    }
}

/// Which events: those that meet every condition that is set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EventFilter {
    /// The name of the function.
    pub function: Option<String>,
    /// The state.
    pub state: Option<State>,
    /// The type of the last error, or `none`.
    pub error: Option<String>,
    /// A part of the id, the function, or the last error.
    pub text: Option<String>,
}

impl EventFilter {
    /// Whether it means this event.
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

    /// Whether it means every event.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}
