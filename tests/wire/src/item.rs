//! What the item of a run holds beside its claim, and what each write makes of it.

use comeback_core::{
    claim::Claim,
    lineage::{Call, Known, Note},
};

use crate::request::Write;

#[derive(Clone, Debug, Default)]
pub struct More {
    pub note: Option<Note>,
    pub calls: Vec<Call>,
}

impl More {
    pub fn of(known: &Known) -> Self {
        Self { note: known.note.clone(), calls: known.calls.clone() }
    }

    pub fn known(self, claim: Claim) -> Known {
        Known { claim, note: self.note, calls: self.calls }
    }

    /// The item is written, and its condition holds.
    pub fn write(&mut self, write: &Write) {
        if let Some(metadata) = &write.metadata {
            let parent = self.note.take().and_then(|note| note.parent);
            self.note = Some(Note { metadata: metadata.clone(), parent });
        }
        write.calls.iter().for_each(|call| self.set(call));
        self.calls.retain(|call| !write.removed.contains(&call.name));
    }

    /// It is noted what is known of the run.
    pub fn note(&mut self, known: &Known) {
        if let Some(Note { metadata, parent }) = &known.note {
            let before = self.note.take().and_then(|note| note.parent);
            let parent = parent.clone().or(before);
            self.note = Some(Note { metadata: metadata.clone(), parent });
        }
        known.calls.iter().for_each(|call| self.set(call));
    }

    /// Takes a call for a run, unless another run has taken it. Returns whether it is this run's.
    pub fn take(&mut self, call: &str, run: &str) -> bool {
        let Some(call) = self.calls.iter_mut().find(|it| it.name == call) else { return false };
        call.taken_by.get_or_insert_with(|| run.to_owned()) == run
    }

    /// Writes a call. Who has taken it is another attribute, and stays.
    fn set(&mut self, call: &Call) {
        match self.calls.iter_mut().find(|there| there.name == call.name) {
            Some(there) => *there = Call { taken_by: there.taken_by.take(), ..call.clone() },
            None => self.calls.push(call.clone()),
        }
    }
}
