//! How each event fails, how it must end, and how it ended.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use end_to_end::{
    journal::{Ending, Entry},
    retry_loop::{DeadLetter, HANDLER, TARGET},
};
use serde_json::Value;

use crate::run::Counts;

/// How events ended, and what else was counted.
#[derive(Default)]
pub struct Tally {
    /// Whether the target is durable. Then its failures have no error type, so none is permanent.
    is_durable: bool,
    /// The last end of each event, by the event's number.
    ends: BTreeMap<usize, End>,
    /// The attempts of each event that were run. Attempt 0 is Lambda's own invocation.
    attempts: BTreeSet<(usize, u64)>,
    /// The events that the target is running, by request id.
    running: HashMap<Arc<str>, usize>,
    accepted: usize,
    /// Starts of executions that Lambda had already started, so that it started nothing.
    pub repeated_starts: usize,
    pub runs: usize,
    /// Runs of the target that repeated an attempt.
    pub duplicate_runs: usize,
    /// Ends of events that had already ended.
    pub duplicate_ends: usize,
    /// Batches during which the handler was killed.
    pub crashed_batches: usize,
    /// Descriptions of what went wrong.
    pub faults: Vec<String>,
}

/// How often an event may be re-invoked.
pub const MAX_ATTEMPTS: u32 = 3;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    Succeeded,
    /// It was given up, for this reason.
    DeadLetter(&'static str),
}

/// The payload of the event with this number. It tells the target how to fail.
pub fn payload(id: usize) -> String {
    let fail = match id % 10 {
        0..=5 => r#"{"attempts":1}"#,
        6 => r#"{"attempts":2}"#,
        7 => r#"{"attempts":1,"by":"crash"}"#,
        8 => "{}",
        _ => r#"{"error":"PermanentFailure"}"#,
    };
    format!(r#"{{"id":{id},"fail":{fail}}}"#)
}

impl Tally {
    pub fn new(is_durable: bool) -> Self {
        Self { is_durable, ..Self::default() }
    }

    /// How the event with this number must end.
    fn end_of(&self, id: usize) -> End {
        match id % 10 {
            0..=7 => End::Succeeded,
            9 if !self.is_durable => End::DeadLetter("not_retryable"),
            _ => End::DeadLetter("max_attempts_exceeded"),
        }
    }
}

impl Counts for Tally {
    fn note(&mut self, entry: &Entry) {
        match (&*entry.function, entry.kind.as_str()) {
            (TARGET, "Accepted") => self.accepted += 1,
            (TARGET, "AlreadyStarted") => self.repeated_starts += 1,
            (TARGET, "Started") => self.started(entry),
            (TARGET, "Finished") => self.finished(entry),
            (HANDLER, "Finished") if entry.outcome == Some(Ending::Crashed) => {
                self.crashed_batches += 1;
            }
            _ => {}
        }
    }

    fn dead_lettered(&mut self, letter: &DeadLetter) {
        let order: Value = serde_json::from_str(&letter.body).unwrap_or_default();
        let is_it = |end: &End| matches!(end, End::DeadLetter(of) if *of == letter.reason());
        match (id_of(&order), (0..10).map(|id| self.end_of(id)).find(is_it)) {
            (Some(id), Some(end)) => self.ended(id, end),
            _ => self.faults.push(format!("an unexpected dead letter: {letter:?}")),
        }
    }

    fn settled(&self) -> usize {
        self.ends.len()
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.accepted == self.runs
    }
}

impl Tally {
    fn started(&mut self, entry: &Entry) {
        let payload = entry.payload.as_ref().unwrap().get();
        let event: Value = serde_json::from_str(payload).unwrap();
        let attempt = event["_retry_metadata"]["attempt"].as_u64().unwrap_or(0);
        let id = id_of(event.get("_original_payload").unwrap_or(&event)).unwrap();
        self.runs += 1;
        self.duplicate_runs += usize::from(!self.attempts.insert((id, attempt)));
        self.running.insert(entry.request_id.clone().unwrap(), id);
    }

    fn finished(&mut self, entry: &Entry) {
        let id = self.running.remove(entry.request_id.as_ref().unwrap()).unwrap();
        if entry.outcome == Some(Ending::Succeeded) {
            self.ended(id, End::Succeeded);
        }
    }

    fn ended(&mut self, id: usize, end: End) {
        let expected = self.end_of(id);
        if expected != end {
            self.faults.push(format!("event {id}: expected {expected:?}, got {end:?}"));
        }
        let before = self.ends.insert(id, end);
        self.duplicate_ends += usize::from(before.is_some());
    }

    /// The number of events with this end.
    pub fn count(&self, end: End) -> usize {
        self.ends.values().filter(|&&of| of == end).count()
    }

    /// The events of `0..events` that have not ended.
    pub fn lost(&self, events: usize) -> Vec<usize> {
        (0..events).filter(|id| !self.ends.contains_key(id)).collect()
    }
}

/// The number of the event with this payload.
fn id_of(order: &Value) -> Option<usize> {
    order["id"].as_u64().map(|id| id as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(tally: &mut Tally, function: &str, kind: &str, members: &str) {
        let text = format!(
            r#"{{"n":1,"at":"1970-01-01T00:00:00Z","type":"{kind}","function":"{function}","request_id":"r"{members}}}"#
        );
        tally.note(&serde_json::from_str(&text).unwrap());
    }

    /// One run of the target that is given this payload and ends so.
    fn run(tally: &mut Tally, payload: &str, outcome: &str) {
        note(tally, TARGET, "Accepted", "");
        note(tally, TARGET, "Started", &format!(r#","payload":{payload}"#));
        assert!(!tally.is_idle());
        note(tally, TARGET, "Finished", &format!(r#","outcome":"{outcome}""#));
        assert!(tally.is_idle());
    }

    fn enveloped(id: usize, attempt: u32) -> String {
        let payload = payload(id);
        format!(r#"{{"_retry_metadata":{{"attempt":{attempt}}},"_original_payload":{payload}}}"#)
    }

    fn letter(id: usize, reason: &str) -> DeadLetter {
        let attributes = [("Reason".to_owned(), reason.to_owned())].into();
        DeadLetter { body: payload(id), attributes }
    }

    #[test]
    fn what_is_lost_repeated_or_ends_wrongly_is_counted() {
        let mut tally = Tally::default();
        run(&mut tally, &payload(0), "Failed");
        for _ in 0..2 {
            run(&mut tally, &enveloped(1, 1), "Succeeded");
            tally.dead_lettered(&letter(9, "not_retryable"));
        }
        run(&mut tally, &enveloped(1, 2), "Failed");
        assert_eq!(tally.lost(3), [0, 2]);
        assert_eq!((tally.settled(), tally.runs, tally.count(End::Succeeded)), (2, 4, 1));
        assert_eq!((tally.duplicate_runs, tally.duplicate_ends), (1, 2));
        assert_eq!(tally.faults, [""; 0]);
        run(&mut tally, &enveloped(8, 1), "Succeeded");
        tally.dead_lettered(&letter(0, "not_retryable"));
        tally.dead_lettered(&letter(0, "max_age_exceeded"));
        assert_eq!(tally.faults.len(), 3, "{:?}", tally.faults);
        for outcome in ["Succeeded", "Crashed", "Crashed", "InitFailed"] {
            note(&mut tally, HANDLER, "Finished", &format!(r#","outcome":"{outcome}""#));
        }
        assert_eq!(tally.crashed_batches, 2);
    }
}
