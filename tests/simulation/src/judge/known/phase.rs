//! A phase of a circuit, as it is stored.

use serde_json::Value;

use crate::policy::Millis;

/// The least time that a probe has to fail, and the longest.
pub const PATIENCE_MIN: Millis = 20_000;
const PATIENCE_MAX: Millis = 300_000;

const SLICE: (Millis, Millis) = (10_000, 150_000);

pub struct Phase {
    pub name: String,
    pub fields: Value,
    patience: i64,
    /// How many events wait only until the next step.
    pub watchers: i64,
}

impl Phase {
    /// Parses a circuit. One that can't be parsed counts as closed.
    pub fn read(text: Option<&str>) -> Self {
        let circuit: Value =
            text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let patience = circuit["patience_seconds"].as_i64().unwrap_or_default();
        let watchers = circuit["watchers"].as_i64().unwrap_or_default();
        let phase = circuit["phase"].as_object().and_then(|phase| phase.iter().next());
        let (name, fields) =
            phase.map_or(("closed", Value::Null), |(name, fields)| (name, fields.clone()));
        Self { name: name.to_owned(), fields, patience, watchers }
    }

    pub fn step_at(&self) -> Option<Millis> {
        let patience = (self.patience * 1000).clamp(PATIENCE_MIN, PATIENCE_MAX);
        Some(match &*self.name {
            "open" => self.number("/next_at"),
            "probing" => self.number("/probe/at") + patience,
            "suspected" | "ramping" => self.number("/slice/began") + self.slice_length(),
            _ => return None,
        })
    }

    /// Whether the events of its slice could not be brought forward.
    pub fn is_missed(&self) -> bool {
        self.is("ramping") && self.fields["slice"]["missed"] == true
    }

    /// The event that is its probe, and the attempt.
    pub fn probe(&self) -> Option<(String, i64)> {
        let event = self.fields["probe"]["of"]["event"].as_str().filter(|_| self.is("probing"))?;
        Some((event.to_owned(), self.number("/probe/of/attempt")))
    }

    pub fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// Whether retries are watched, because the counts have raised a suspicion.
    pub fn is_on_trial(&self) -> bool {
        self.is("closed") && self.fields["trial"].is_object()
    }

    /// Whether some events may be retried.
    pub fn has_permits(&self) -> bool {
        self.is("suspected") || self.is("ramping")
    }

    pub fn number(&self, pointer: &str) -> i64 {
        self.fields.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    pub fn permits(&self) -> i64 {
        self.slice_length() / 1000 * self.number("/slice/rate")
    }

    fn slice_length(&self) -> Millis {
        let length = if self.is("ramping") { self.patience * 500 } else { SLICE.0 };
        length.clamp(SLICE.0, SLICE.1)
    }

    /// Whether a new slice has begun since `was`.
    pub fn is_new_slice(&self, was: &Self) -> bool {
        self.is("ramping") && self.number("/slice/began") != was.number("/slice/began")
    }
}
