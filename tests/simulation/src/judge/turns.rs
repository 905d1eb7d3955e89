//! The rules for the transitions of circuits. Each is one write, which replaces one phase by another.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use comeback_core::Timestamp;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::Judge;
use crate::{
    notes::{Check, Seen},
    rules::Millis,
};

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

/// How many of a target's retries in a row must have been made within this time before the target is suspected, and how
/// many of these must have failed. A trial needs more, but some may be unknown
/// to it.
const SAMPLE: usize = 20;
const SAMPLED_WITHIN: Millis = 240_000;
const SAMPLE_FAILED: usize = 15;

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
    fn is_on_trial(&self) -> bool {
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
    fn brings(&self, was: &Self) -> u32 {
        match &*self.name {
            "open" if was.is("closed") || was.is("suspected") => WAKE_UPS,
            "ramping" if self.is_new_slice(was) => (self.permits() as u32).min(BROUGHT_MAX),
            "closed" if was.is("ramping") && self.fields["cleared"].is_object() => BROUGHT_MAX,
            _ => 0,
        }
    }
}

/// The retries of a target that may be a handler's sample: when, and whether each has failed.
#[derive(Default)]
pub struct Retries {
    made: VecDeque<(Timestamp, Arc<str>, bool)>,
    /// The number of each retry, by its request id, and of the first that is still known.
    numbers: FxHashMap<Arc<str>, usize>,
    first: usize,
}

impl Retries {
    fn add(&mut self, now: Timestamp, request_id: &Arc<str>) {
        let is_over = |(at, ..): &mut (Timestamp, Arc<str>, bool)| {
            (now - *at).num_milliseconds() > SAMPLED_WITHIN
        };
        while let Some((_, over, _)) = self.made.pop_front_if(is_over) {
            self.numbers.remove(&over);
            self.first += 1;
        }
        self.numbers.insert(Arc::clone(request_id), self.first + self.made.len());
        self.made.push_back((now, Arc::clone(request_id), false));
    }

    fn failed(&mut self, request_id: &Arc<str>) {
        if let Some(number) = self.numbers.get(request_id)
            && let Some((.., failed)) = self.made.get_mut(number - self.first)
        {
            *failed = true;
        }
    }

    fn since(&self, now: Timestamp) -> Vec<bool> {
        let is_late = |at: Timestamp| (now - at).num_milliseconds() <= SAMPLED_WITHIN;
        let late = self.made.iter().filter(|(at, ..)| is_late(*at));
        late.map(|(.., failed)| *failed).collect()
    }
}

impl Judge {
    /// A run's write of a circuit has taken effect.
    pub fn turned(&mut self, run: u64, target: &str, was: Option<&str>, text: &str) {
        let (was, is) = (Phase::read(was), Phase::read(Some(text)));
        if was.name != is.name {
            self.tally.count(Seen::Step("turns of circuits"));
            self.story
                .tell(self.now, None, || format!("run {run}: {target} is {}: {text}", is.name));
            self.opened |= is.is("open");
            if is.is("suspected") && was.is("closed") && !self.seems_down(target) {
                let what = format!("run {run} suspects {target}, and most of its retries succeed");
                self.violated(Check::SuspectsTruly, None, what);
            }
            if let ("probing" | "ramping", Some(step_at)) = (&*is.name, was.step_at()) {
                let late = self.now.timestamp_millis() - step_at;
                self.late_step = self.late_step.max(Duration::from_millis(late.max(0) as u64));
            }
        }
        if is.is_on_trial() && !was.is_on_trial() {
            self.tally.count(Seen::Step("trials"));
        }
        let wrong = is.wrong_after(&was, self.now.timestamp_millis());
        if let Some((check, what)) = wrong.or_else(|| self.lacks_reason(run, target, &was, &is)) {
            self.violated(check, None, format!("run {run}, {target}: {what}"));
        }
        let known = self.knows(run, target);
        // A run that had taken the probe gives it back with this write, and nothing else changes.
        let brings = if known.took_probe { 0 } else { is.brings(&was) };
        known.turned(&was, &is);
        if brings > 0 {
            known.brings = brings;
            text.clone_into(&mut known.brings_with);
        }
    }

    /// A handler's retry of a target was accepted.
    pub fn retried(&mut self, target: usize, request_id: &Arc<str>) {
        if self.plan.handler_of(target).probes {
            self.retries.entry(target).or_default().add(self.now, request_id);
        }
    }

    /// An invocation of a target has failed, which may be a retry.
    pub fn retry_failed(&mut self, target: usize, request_id: &Arc<str>) {
        if let Some(retries) = self.retries.get_mut(&target) {
            retries.failed(request_id);
        }
    }

    /// Whether of many of its latest retries in a row, most have failed.
    fn seems_down(&self, arn: &str) -> bool {
        let name = arn.split(':').nth(6).unwrap_or_default();
        let target = self.plan.targets.iter().position(|target| target.name == name);
        let retries = target.and_then(|target| self.retries.get(&target));
        let retries = retries.map(|retries| retries.since(self.now)).unwrap_or_default();
        let failed = |sample: &[bool]| sample.iter().filter(|failed| **failed).count();
        retries.windows(SAMPLE).any(|sample| failed(sample) >= SAMPLE_FAILED)
    }

    /// Why a run had no reason for this transition, judging by what the run knows.
    fn lacks_reason(
        &self,
        run: u64,
        target: &str,
        was: &Phase,
        is: &Phase,
    ) -> Option<(Check, String)> {
        // Answers that arrive late may come after their run has ended.
        let (batch, true) = (self.runs.get(&run)?, is.is("open")) else { return None };
        let known = self.known_circuits.get(&run).and_then(|run| run.get(target));
        let is_told = known.is_some_and(|known| known.is_told_down);
        if (was.is("closed") || was.is("suspected")) && !is_told {
            return Some((Check::OpensByWitness, "nobody said that it is down".to_owned()));
        }
        let is_probe = |case: usize| {
            let of = &self.cases[case].of;
            was.fields["probe"]["of"]["event"] == self.event_id(of).unwrap_or_default()
                && was.number("/probe/of/attempt") == i64::from(of.attempt)
        };
        let has_ended = batch.iter().any(|message| is_probe(message.case));
        if was.is("probing") && !has_ended && !known.is_some_and(|known| known.took_probe) {
            return Some((Check::ProbesEnd, "its probe has not failed".to_owned()));
        }
        None
    }
}
