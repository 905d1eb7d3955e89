//! The rules for the transitions of circuits. Each is one write, which replaces one phase by another.

use super::{Check, Happens, Kept, Promise, broken};
use crate::{
    judge::{
        happens::{Move, Turn},
        known::{Evidence, Known, PATIENCE_MIN, Phase},
    },
    policy::Millis,
};

/// The largest difference between the clocks of two handlers.
const SKEW: Millis = 10_000;

/// The longest interval between two probes.
const INTERVAL_MAX: Millis = 60_000;

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

impl Phase {
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
}

#[derive(Default)]
pub struct Turns;

impl Promise for Turns {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        let Happens::Circuit(_, circuit, Move::Turned(turn)) = happens else { return Ok(()) };
        let Turn { was, is, knows, .. } = turn;
        let wrong = is.wrong_after(was, known.now.timestamp_millis());
        let wrong = wrong.or_else(|| is.lacks_reason(was, knows));
        wrong.map_or(Ok(()), |(check, what)| broken(check, None, format!("{circuit}: {what}")))
    }
}
