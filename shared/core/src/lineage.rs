//! The runs of an event, as the ledger knows them: which event does a failure continue?
//!
//! With `TRANSPARENT`, a function is re-invoked with its original payload, so the record of its next failure says
//! nothing of earlier attempts. What an envelope would say stands in the ledger, which has an item for each run, under
//! the function, a digest of the payload, and the run's request id:
//!
//! ```text
//!   item of the run that failed                                item of the run that the call starts
//!   noted ──▶ held, with the call ──▶ Invoke ──▶ 202 ─────────▶ noted: its metadata, and the call as its parent
//! ```
//!
//! The second write notes what the new run is, and marks the failure as retried, in one. So nothing has to be written
//! in one transaction. A failure whose own item is noted continues what the note says. One without a note has failed
//! for the first time, unless a call with its payload is open: a call that is neither answered nor taken. As long as
//! its sender may write the note, the failure waits. After that the sender has died, or has lost the answer, and the
//! failure takes the call for its own.
//!
//! Two events with the same payload are told apart by their traces: a retry carries on the trace of its event, and
//! Lambda passes it on to the record. Only where a trace is missing, or both have the same, a
//! failure may take another event's call.

use std::time::Duration;

use chrono::serde::ts_milliseconds as millis;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use crate::key::Key;
use crate::{
    Timestamp,
    claim::{CLOCK_SKEW_MAX, Claim, LEASE_MAX, LIFE_MAX, RETENTION_MAX, State, Token},
    envelope::RetryMetadata,
    register::Waiting,
    time::{between, later},
};

/// Lambda keeps an asynchronous event for at most six hours, and then its function runs.
const FAILS_WITHIN: Duration = Duration::from_hours(6).saturating_add(LIFE_MAX);

/// A note that is not there yet is looked for again after a second at the earliest.
const LOOK_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// A note is written within this time after its run was accepted, unless its sender has died: the rest of a call to
/// Lambda (6 s), a call to the ledger (3 s), and the skew of the clocks.
const NOTED_WITHIN: Duration = Duration::from_secs(20);

/// The most open calls of one failure that are kept. Each has about 250 bytes, and a write is billed by the kilobyte.
const CALLS_MAX: usize = 12;

/// How long the items of runs are kept. Before that, SQS has deleted every record that may need them.
pub const RETENTION: Duration = FAILS_WITHIN.saturating_add(RETENTION_MAX);

/// The longest root of a trace that is kept. X-Ray's have 35 bytes.
const ROOT_MAX: usize = 100;

/// The root of a trace header: it is the same in all runs of an event.
pub fn root(trace_header: &str) -> Option<&str> {
    let mut parts = trace_header.split(';').map(str::trim);
    let root = parts.find_map(|part| part.strip_prefix("Root="))?;
    Some(root).filter(|root| (1..=ROOT_MAX).contains(&root.len()))
}

/// What the ledger knows of a run.
#[derive(Clone, Debug)]
pub struct Known {
    /// The claim on the run's failure.
    pub claim: Claim,
    /// `None` for the first run of an event, and for retries in envelopes.
    pub note: Option<Note>,
    /// The calls that retry the run's failure, as long as they may be open.
    pub calls: Vec<Call>,
}

/// The ledger's note of a run that a retry without an envelope has started.
#[derive(Clone, Debug)]
pub struct Note {
    /// What its envelope would say.
    pub metadata: RetryMetadata,
    /// `None` if the run was recognized by an open call.
    pub parent: Option<Parent>,
}

/// The call that has started a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parent {
    /// The run whose failure the call retries.
    pub run: String,
    /// The name of the call.
    pub call: String,
}

/// A call to Lambda that retries a failure without an envelope.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its unique name: the owner of the claim under which it is made.
    pub name: String,
    /// What the envelope would say.
    pub metadata: RetryMetadata,
    /// When it began.
    pub since: Timestamp,
    /// When its sender has ended or died, and writes no note any more.
    pub until: Timestamp,
    /// The root of the trace that it sent.
    pub root: Option<String>,
    /// Whether the SDK has repeated it before Lambda answered. Its run has no note, and is known by the trace alone.
    pub is_repeated: bool,
    /// The run that was taken for the one that it has started.
    pub taken_by: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct Written<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
    #[serde(with = "millis")]
    since: Timestamp,
    #[serde(with = "millis")]
    until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    is_repeated: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Call {
    /// The JSON under which the ledger holds it, beside its name.
    pub fn to_json(&self) -> String {
        let metadata = RawValue::from_string(self.metadata.to_json()).unwrap_or_default();
        let Self { since, until, is_repeated, .. } = *self;
        let root = self.root.clone();
        let written = Written { metadata: &metadata, since, until, root, is_repeated };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads that JSON, or returns `None` if it is no call.
    pub fn read(name: &str, json: &str, taken_by: Option<String>) -> Option<Self> {
        let Written { metadata, since, until, root, is_repeated } =
            serde_json::from_str(json).ok()?;
        let metadata = RetryMetadata::read(metadata.get())?;
        let name = name.to_owned();
        Some(Self { name, metadata, since, until, root, is_repeated, taken_by })
    }

    /// The same call, after its sender has ended without an answer.
    #[must_use]
    pub fn ended(&self, now: Timestamp) -> Self {
        Self { until: now, ..self.clone() }
    }

    /// The calls that the SDK made before this one, as many as may have been accepted unseen. Without a trace, nothing
    /// could tell their runs from first ones.
    pub fn repeats(&self, count: u32, now: Timestamp) -> Vec<Self> {
        let repeat = |nth| Self {
            name: format!("{}#{nth}", self.name),
            is_repeated: true,
            ..self.ended(now)
        };
        (1..=count).filter(|_| self.root.is_some()).map(repeat).collect()
    }

    /// Whether this failure can be that of the run that the call has started.
    fn may_be_of(&self, sought: &Sought<'_>) -> bool {
        let is_of_trace = match (self.root.as_deref(), sought.root) {
            (Some(sent), Some(received)) => sent == received,
            (None, _) | (_, None) => !self.is_repeated,
        };
        // The first failure of an event comes before all of its retries.
        let is_later = self.metadata.request_id.as_deref() != Some(sought.run);
        let failed_at = sought.failed_at;
        let last = later(self.since, FAILS_WITHIN.saturating_add(CLOCK_SKEW_MAX));
        is_of_trace
            && is_later
            && self.since <= later(failed_at, CLOCK_SKEW_MAX)
            && failed_at <= last
    }

    /// Whether its sender may still write a note. No sender has a longer lease than this, unless its clock is wrong.
    fn may_be_noted(&self, now: Timestamp) -> bool {
        now < self.until && between(self.since, self.until) <= LEASE_MAX
    }

    /// Whether no record that arrives from now on can be of its run.
    fn is_over(&self, now: Timestamp) -> bool {
        later(self.since, RETENTION) < now
    }
}

impl Known {
    /// What is known of a run that was accepted, before it has failed.
    pub fn noted(note: Note, call: &Call, repeats: Vec<Call>) -> Self {
        let token = Token { generation: 1, owner: call.name.clone() };
        let expires_at = later(call.since, RETENTION);
        let claim = Claim { token, state: State::Noted, order: None, expires_at };
        Self { claim, note: Some(note), calls: repeats }
    }

    /// Whether a handler may have retried the failure of the run, although this item doesn't say so. One that has
    /// released its claim has not, and whoever takes a claim over asks about all calls before its own.
    pub fn may_be_retried(&self) -> bool {
        self.claim.state != State::Noted && !self.calls.is_empty()
    }

    /// The calls that an item need not keep beside a new one: those that no record needs any more, and the oldest if
    /// there are too many.
    pub fn calls_over(&self, now: Timestamp) -> Vec<String> {
        let mut by_age: Vec<_> = self.calls.iter().collect();
        by_age.sort_unstable_by_key(|call| std::cmp::Reverse((call.since, &call.name)));
        let is_over = |&(nth, call): &(usize, &&Call)| {
            !call.may_be_noted(now) && (nth + 1 >= CALLS_MAX || call.is_over(now))
        };
        by_age.iter().enumerate().filter(is_over).map(|(_, call)| call.name.clone()).collect()
    }
}

/// One conditional write to the item of a run. It leaves the note as it is, and all calls that it doesn't name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write<'a> {
    /// The claim that has to be there. `None`: there must be no item.
    pub seen: Option<&'a Claim>,
    /// The claim that replaces it. `None` removes the item.
    pub next: Option<&'a Claim>,
    /// What the register lists of the event, if it waits from now on.
    pub waiting: Option<&'a Waiting<'a>>,
    /// What was recognized by an open call, and is noted with this write.
    pub metadata: Option<&'a RetryMetadata>,
    pub calls: &'a [Call],
    /// The names of the calls that are removed.
    pub removed: &'a [String],
}

/// A failure for which the ledger has no note.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    /// The request id of the run that failed.
    pub run: &'a str,
    pub failed_at: Timestamp,
    /// The root of the trace in its message.
    pub root: Option<&'a str>,
}

/// The runs of one target with one payload, as a consistent read has found them.
#[derive(Clone, Debug, Default)]
pub struct Siblings {
    /// Each with its request id.
    pub runs: Vec<(String, Known)>,
    /// Whether these are all. A read ends at its limit.
    pub are_all: bool,
}

/// What a failure continues.
#[derive(Clone, Debug)]
pub enum Recalled {
    /// Nothing: the event has failed for the first time, or has an envelope.
    Nothing,
    /// The run with this metadata.
    Retry(RetryMetadata),
    /// Its note may be about to be written. It is looked for again then.
    Unknown { again_at: Timestamp },
    /// The run of this call, which was made for the failure of that run. The call is to be taken.
    Orphan { run: String, call: Call },
}

impl Siblings {
    /// What the ledger knows of this run itself.
    pub fn own(&self, run: &str) -> Option<&Known> {
        self.runs.iter().find_map(|(id, known)| (id == run).then_some(known))
    }

    /// Whether one of these calls, which retry the failure of this run, was answered.
    pub fn answers(&self, run: &str, calls: &[Call]) -> bool {
        calls.iter().any(|call| self.answered(run, call))
    }

    fn answered(&self, run: &str, call: &Call) -> bool {
        let parents =
            self.runs.iter().filter_map(|(_, known)| known.note.as_ref()?.parent.as_ref());
        parents.into_iter().any(|parent| parent.run == run && parent.call == call.name)
    }

    /// What this failure continues.
    pub fn recall(&self, sought: &Sought<'_>, now: Timestamp) -> Recalled {
        if let Some(note) = self.own(sought.run).and_then(|known| known.note.as_ref()) {
            return Recalled::Retry(note.metadata.clone());
        }
        let calls = || {
            self.runs.iter().flat_map(|(run, known)| known.calls.iter().map(move |it| (run, it)))
        };
        let taken = |(_, call): &(_, &Call)| call.taken_by.as_deref() == Some(sought.run);
        if let Some((_, call)) = calls().find(taken) {
            return Recalled::Retry(call.metadata.clone());
        }
        let open = calls().filter(|(run, call)| {
            *run != sought.run
                && call.taken_by.is_none()
                && call.may_be_of(sought)
                && !self.answered(run, call)
        });
        let (noted_soon, orphans): (Vec<_>, Vec<_>) =
            open.partition(|(_, call)| call.may_be_noted(now));
        let waits_until = noted_soon.iter().map(|(_, call)| call.until).max();
        // Not all runs were read, so the note of an open call may be among the others, or be about to be.
        let unread_until =
            Some(later(sought.failed_at, NOTED_WITHIN)).filter(|it| !self.are_all && now < *it);
        if let Some(until) = waits_until.max(unread_until) {
            // A note is written within milliseconds, unless the handler has died. So the waits double.
            let wait = between(sought.failed_at, now).max(LOOK_INTERVAL_MIN);
            return Recalled::Unknown { again_at: later(now, wait).min(until) };
        }
        if !self.are_all {
            return Recalled::Nothing;
        }
        let is_sure = |call: &Call| call.root.is_some() && call.root.as_deref() == sought.root;
        let orphan =
            orphans.into_iter().min_by_key(|(_, call)| (!is_sure(call), call.since, &call.name));
        orphan.map_or(Recalled::Nothing, |(run, call)| Recalled::Orphan {
            run: run.clone(),
            call: call.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
