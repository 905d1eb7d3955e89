//! What became of each event.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use end_to_end::journal::Happening;
use end_to_end::retry_loop::{DeadLetter, HANDLER, TARGET};
use serde::Deserialize;

use crate::fate::{self, End};

/// The ends of events, and what was seen on the way.
#[derive(Default)]
pub struct Tally {
    /// How each event ended, by its number; the first time, if there is more than one.
    ends: BTreeMap<usize, End>,
    /// Which attempts of which events were run, 0 being Lambda's own invocation.
    attempts: BTreeSet<(usize, u32)>,
    /// The events that the target is at, by request id.
    running: HashMap<String, usize>,
    accepted: usize,
    /// Runs of the target.
    pub runs: usize,
    /// Runs of the target for an attempt that had one already.
    pub duplicate_runs: usize,
    /// Ends of events that had come to one already.
    pub duplicate_ends: usize,
    /// Batches whose handler was killed in the middle.
    pub crashed_batches: usize,
    /// What is not as it should be, in words.
    pub faults: Vec<String>,
}

/// An event as the target sees it: bare, or in an envelope.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seen {
    Enveloped {
        #[serde(rename = "_retry_metadata")]
        metadata: Metadata,
        #[serde(rename = "_original_payload")]
        payload: Order,
    },
    Bare(Order),
}

#[derive(Deserialize)]
struct Metadata {
    attempt: u32,
}

#[derive(Deserialize)]
struct Order {
    id: usize,
}

impl Tally {
    /// Takes note of something in the journal.
    pub fn note(&mut self, happening: &Happening) {
        match (happening.function.as_str(), happening.kind.as_str()) {
            (TARGET, "Accepted") => self.accepted += 1,
            (TARGET, "Started") => self.started(happening),
            (TARGET, "Finished") => self.finished(happening),
            (HANDLER, "Finished") if happening.outcome.as_deref() == Some("Crashed") => {
                self.crashed_batches += 1;
            }
            _ => {}
        }
    }

    fn started(&mut self, happening: &Happening) {
        let payload = happening.payload.as_ref().unwrap().get();
        let (id, attempt) = match serde_json::from_str(payload).unwrap() {
            Seen::Enveloped { metadata, payload } => (payload.id, metadata.attempt),
            Seen::Bare(order) => (order.id, 0),
        };
        self.runs += 1;
        self.duplicate_runs += usize::from(!self.attempts.insert((id, attempt)));
        self.running.insert(happening.request_id.clone().unwrap(), id);
    }

    fn finished(&mut self, happening: &Happening) {
        let id = self.running.remove(happening.request_id.as_ref().unwrap()).unwrap();
        if happening.outcome.as_deref() == Some("Succeeded") {
            self.ended(id, End::Succeeded);
        }
    }

    /// Takes note of a dead letter.
    pub fn buried(&mut self, letter: &DeadLetter) {
        match (serde_json::from_str::<Order>(&letter.body), fate_of(letter.reason())) {
            (Ok(order), Some(end)) => self.ended(order.id, end),
            _ => self.faults.push(format!("an unexpected dead letter: {letter:?}")),
        }
    }

    fn ended(&mut self, id: usize, end: End) {
        if fate::end(id) != end {
            self.faults.push(format!("event {id} is to end as {:?}, got {end:?}", fate::end(id)));
        }
        let before = self.ends.insert(id, end);
        self.duplicate_ends += usize::from(before.is_some());
    }

    /// How many events have come to an end.
    pub fn settled(&self) -> usize {
        self.ends.len()
    }

    /// Whether the target has run everything that it was given.
    pub fn target_is_idle(&self) -> bool {
        self.running.is_empty() && self.accepted == self.runs
    }

    /// How many events ended so.
    pub fn count(&self, end: End) -> usize {
        self.ends.values().filter(|&&of| of == end).count()
    }

    /// The events of `0..events` that have come to no end.
    pub fn lost(&self, events: usize) -> Vec<usize> {
        (0..events).filter(|id| !self.ends.contains_key(id)).collect()
    }
}

/// The end that a dead letter of this reason is, if an event is to have it.
fn fate_of(reason: &str) -> Option<End> {
    (0..10).map(fate::end).find(|end| matches!(end, End::DeadLetter(of) if *of == reason))
}
