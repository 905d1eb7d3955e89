//! The rules for the transitions of circuits. Each is one write, which replaces one phase by another.

use serde_json::Value;

use super::{Evidence, Happens, Kept, Move, Promise, Turn};
use crate::{notes::Check, rules::Millis};

/// The largest difference between the clocks of two handlers.
const SKEW: Millis = 10_000;

/// The longest interval between two probes, and the least time that a probe has to fail.
const INTERVAL_MAX: Millis = 60_000;
const PATIENCE_MIN: Millis = 20_000;
const PATIENCE_MAX: Millis = 300_000;

const SLICE: (Millis, Millis) = (10_000, 150_000);

/// How many events are brought forward when CloudWatch opens a circuit, and for one slice.
const WAKE_UPS: u32 = 10;
const BROUGHT_MAX: u32 = 2_000;

/// After a slice at this rate, in retries a second, the circuit closes.
const RATE_MAX: i64 = 1 << 14;

/// A slice that ended this long ago says nothing.
const STALE: Millis = 60_000;

/// The phases that may follow each phase.
const TURNS: [(&str, &[&str]); 5] = [
    ("closed", &["closed", "suspected", "open"]),
    ("suspected", &["suspected", "closed", "open"]),
    ("open", &["open", "probing", "closed"]),
    ("probing", &["probing", "open", "ramping"]),
    ("ramping", &["ramping", "open", "closed"]),
];

pub struct Phase {
    pub name: String,
    fields: Value,
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

    fn number(&self, pointer: &str) -> i64 {
        self.fields.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    fn permits(&self) -> i64 {
        self.slice_length() / 1000 * self.number("/slice/rate")
    }

    fn slice_length(&self) -> Millis {
        let length = if self.is("ramping") { self.patience * 500 } else { SLICE.0 };
        length.clamp(SLICE.0, SLICE.1)
    }

    /// Whether a new slice has begun since `was`.
    fn is_new_slice(&self, was: &Self) -> bool {
        self.is("ramping") && self.number("/slice/began") != was.number("/slice/began")
    }

    /// Returns what is wrong with this phase after `was`, by the world's clock.
    fn wrong_after(&self, was: &Self, now: Millis) -> Option<(Check, String)> {
        let may = TURNS.iter().find(|(name, _)| was.is(name));
        let is_second =
            self.is("probing") && was.is("probing") && self.fields["probe"] != was.fields["probe"];
        if is_second || !may.is_some_and(|(_, may)| may.contains(&&*self.name)) {
            let what = format!("a circuit turns from {} to {}", was.name, self.name);
            return Some((Check::TurnsInOrder, what));
        }
        let (next_at, before) = (self.number("/next_at"), was.number("/next_at"));
        if self.is("open") && !was.is("open") && next_at > now + INTERVAL_MAX + SKEW {
            let what = format!("the next probe is at {next_at}, now it is {now}");
            return Some((Check::ProbesInTime, what));
        }
        // Handlers ignore times that no right clock can have written, and more of them if their own clock is behind.
        let is_early = before > now + SKEW && before <= now + INTERVAL_MAX;
        if self.is("probing") && is_early {
            let what = format!("a probe at {now}, to be made at {before}");
            return Some((Check::ProbesInTime, what));
        }
        let waited = now - was.number("/probe/at");
        if was.is("probing") && self.is("ramping") && waited < PATIENCE_MIN - SKEW {
            let what = format!("a probe counts as a success after {waited} ms");
            return Some((Check::ProbesEnd, what));
        }
        let is_fresh = was.step_at().is_some_and(|ended| now < ended + STALE - SKEW);
        let met = self.is("closed") && self.fields["cleared"].is_null();
        if was.is_missed() && met && is_fresh && was.number("/slice/rate") < RATE_MAX {
            let what = "the register gave no answer, and the demand counts as met".to_owned();
            return Some((Check::BringsForward, what));
        }
        self.wrong_rate(was, now).map(|what| (Check::KeepsTheRate, what))
    }

    /// Why its writer had no reason for this phase after `was`.
    fn lacks_reason(&self, was: &Self, knows: Evidence) -> Option<(Check, String)> {
        if !self.is("open") {
            return None;
        }
        if (was.is("closed") || was.is("suspected")) && !knows.is_told_down {
            return Some((Check::OpensByWitness, "nobody said that it is down".to_owned()));
        }
        let is_early = was.is("probing") && !knows.has_probe_ended;
        is_early.then(|| (Check::ProbesEnd, "its probe has not failed".to_owned()))
    }

    fn wrong_rate(&self, was: &Self, now: Millis) -> Option<String> {
        if !self.has_permits() {
            return None;
        }
        let (taken, rate) = (self.number("/slice/taken"), self.number("/slice/rate"));
        let passed = (now - self.number("/slice/began")).max(0) / 1000 + 1 + SKEW / 1000;
        if taken > rate * passed || taken > self.permits() {
            return Some(format!("{taken} permits taken after {passed} s at {rate} a second"));
        }
        if !(was.is("ramping") && self.is_new_slice(was)) {
            return None;
        }
        let (taken, failed) = (was.number("/slice/taken"), was.number("/slice/failed"));
        let before = was.number("/slice/rate");
        let most = if failed > taken / 5 { (before / 2).max(1) } else { 2 * before };
        let what = || format!("{rate} a second after {before}, and {failed} of {taken} failed");
        (rate > most).then(what)
    }

    /// How many events the writer of this phase must bring forward.
    pub fn brings(&self, was: &Self) -> u32 {
        match &*self.name {
            "open" if was.is("closed") || was.is("suspected") => WAKE_UPS,
            "ramping" if self.is_new_slice(was) => (self.permits() as u32).min(BROUGHT_MAX),
            "closed" if was.is("ramping") && self.fields["cleared"].is_object() => BROUGHT_MAX,
            _ => 0,
        }
    }
}

#[derive(Default)]
pub struct Turns;

impl Promise for Turns {
    fn on(&mut self, happens: Happens<'_>) -> Kept {
        let Happens::Circuit(_, circuit, Move::Turned(turn)) = happens else { return Ok(()) };
        let Turn { was, is, at, knows, .. } = turn;
        let wrong = is.wrong_after(was, at.timestamp_millis());
        let wrong = wrong.or_else(|| is.lacks_reason(was, knows));
        wrong.map_or(Ok(()), |(check, what)| Err((check, format!("{circuit}: {what}"))))
    }
}
