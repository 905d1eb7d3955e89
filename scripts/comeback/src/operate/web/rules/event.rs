//! An event on the live page: its state, and the page's filter.

use std::sync::Arc;

use comeback_core::{Timestamp, pattern};

use crate::{
    filter::{contains, is_error_of},
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
    /// It was not delivered at first, and its target has accepted it since.
    Delivered,
    GivenUp,
    /// No result of the run has been reported.
    Unknown,
}

impl State {
    pub const ALL: [(Self, &str); 9] = [
        (Self::AtLambda, "queued at Lambda"),
        (Self::Running, "running"),
        (Self::Queued, "failed"),
        (Self::Waiting, "waiting"),
        (Self::Retried, "retried"),
        (Self::Succeeded, "succeeded"),
        (Self::Delivered, "delivered"),
        (Self::GivenUp, "given up"),
        (Self::Unknown, "unknown"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(it, _)| *it == self).map_or("", |(_, name)| name)
    }
}

/// Whether an event has failed at least once, and its state.
pub type Place = (bool, State);

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
    /// When each run has started, by its request id. Only the local cloud reports this.
    pub started: Vec<(Arc<str>, Timestamp)>,
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
        if self.last_step().is_some_and(|step| step.what.is_failure()) {
            return State::Queued;
        }
        match self.next() {
            Next::Waits { .. } => State::Waiting,
            Next::Retried => State::Retried,
            Next::Succeeded => State::Succeeded,
            Next::Delivered => State::Delivered,
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
        (self.has_failed(), self.state())
    }

    /// What has kept the handler from acting on the last failure, the latest first.
    pub fn obstacles(&self) -> impl Iterator<Item = (Timestamp, &str, Option<&str>)> {
        let is_handled = |step: &&Step| match step.what {
            StepKind::Failed { .. }
            | StepKind::NotRun { .. }
            | StepKind::Undelivered { .. }
            | StepKind::Succeeded
            | StepKind::Retried { .. }
            | StepKind::Delivered { .. }
            | StepKind::GivenUp { .. } => true,
            StepKind::Waits { .. } | StepKind::Dropped | StepKind::Trouble { .. } => false,
        };
        let since = self.steps.iter().rev().take_while(move |step| !is_handled(step));
        since.filter_map(|step| match &step.what {
            StepKind::Trouble { said, error, blocks: true } => {
                Some((step.at, said.as_str(), error.as_deref()))
            }
            StepKind::Failed { .. }
            | StepKind::NotRun { .. }
            | StepKind::Undelivered { .. }
            | StepKind::Succeeded
            | StepKind::Waits { .. }
            | StepKind::Retried { .. }
            | StepKind::Delivered { .. }
            | StepKind::GivenUp { .. }
            | StepKind::Dropped
            | StepKind::Trouble { .. } => None,
        })
    }

    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        let Next::Waits { until } = self.next() else { return None };
        (self.state() == State::Waiting).then_some(until)
    }

    fn last_failure(&self) -> Option<&Step> {
        self.steps.iter().rfind(|step| step.what.is_failure())
    }

    /// The type and the message of the last error. What was not run has none.
    pub fn error(&self) -> (Option<&str>, Option<&str>) {
        match self.last_failure().map(|step| &step.what) {
            Some(StepKind::Failed { error_type, error_message }) => {
                (error_type.as_deref(), error_message.as_deref())
            }
            Some(what) => (what.error_type(), None),
            None => (None, None),
        }
    }

    /// The ARN of the rule or the schedule that could not deliver it.
    pub fn undelivered_by(&self) -> Option<&str> {
        let StepKind::Undelivered { source, .. } = &self.last_failure()?.what else { return None };
        Some(source)
    }

    /// Why Lambda did not run it, if that is the last that is known of its runs.
    pub fn not_run(&self) -> Option<&str> {
        let StepKind::NotRun { condition } = &self.last_failure()?.what else { return None };
        Some(condition)
    }

    /// When it first failed, or was not run.
    pub fn failed_at(&self) -> Option<Timestamp> {
        self.steps.iter().find(|step| step.what.is_failure()).map(|step| step.at)
    }

    /// Whether the handler has been told of it: a run has failed, or was not made.
    pub fn has_failed(&self) -> bool {
        self.failed_at().is_some()
    }

    /// How many of its runs failed.
    pub fn failures(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, StepKind::Failed { .. })).count()
    }

    /// How often Lambda did not run it.
    pub fn refusals(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, StepKind::NotRun { .. })).count()
    }

    /// The attempt that the last failure has led to; 0 if none is known. One that was not run is made again.
    pub fn attempt(&self) -> usize {
        let is_retry = |step: &&Step| matches!(step.what, StepKind::Retried { .. });
        let Some(nth) = self.steps.iter().rposition(|step| step.what.is_failure()) else {
            return 0;
        };
        let by_count = || self.steps[..nth].iter().filter(is_retry).count() + 1;
        self.steps[nth].attempt.map_or_else(by_count, |attempt| attempt as usize)
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
}
