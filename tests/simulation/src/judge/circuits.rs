//! The rules for targets that are down, as far as they show from outside: who turns a circuit how, and who is invoked
//! meanwhile.

use std::collections::{BTreeSet, HashMap};

use comeback_core::claim::Order;
use comeback_flow::ports::{Listed, Stored};
use serde_json::Value;

use super::{Judge, Subject, receive_count, register::Wait};
use crate::{
    notes::{Check, Seen},
    rules::Millis,
};

/// How far the clocks of two handlers may be apart.
const SKEW: Millis = 10_000;

/// The longest interval between two probes.
const INTERVAL_MAX: Millis = 300_000;

/// How long an event is held back, and while nobody knows whether its target is down.
const HOLD: (Millis, Millis) = (90_000, 480_000);

/// The same for a message that was received this often.
const HOLD_SPARED: Millis = 3_600_000;
const SPARED_FROM: u32 = 500;

/// No target counts as down after events have come for so long without a fault.
const CLOSED_WITHIN: Millis = 2 * 3_600_000;

/// Which phase may follow which.
const TURNS: [(&str, &[&str]); 5] = [
    ("closed", &["closed", "suspected", "open"]),
    ("suspected", &["suspected", "closed", "open"]),
    ("open", &["open", "probing", "closed"]),
    ("probing", &["open", "ramping"]),
    ("ramping", &["ramping", "open", "closed"]),
];

/// What a run knows of the circuit of a target.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Whether nothing was limited when it read or wrote the circuit, or whether it could not read or write it.
    is_free: bool,
    /// Whether something was limited at any time.
    was_limited: bool,
    /// Whether it has taken the probe, and has not made it yet.
    has_probe: bool,
    /// Whether it may have permits.
    has_permits: bool,
    /// How many events it may bring forward, and the handles of those that it may.
    brings: u32,
    listed: BTreeSet<String>,
}

/// How many events are brought forward when a circuit opens, when a probe goes and for one slice, and within how many
/// seconds they come back.
const WAKE_UPS: u32 = 10;
const WAKE_UPS_AFTER_PROBE: u32 = 3;
const BROUGHT_MAX: u64 = 2_000;
const BROUGHT_WITHIN: u32 = 300;

/// For how long events of a target have come since the last fault, and when the last did. A circuit that nobody looks at
/// can't close: an event that comes after a day finds what was left a day ago.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attended {
    lasts: Millis,
    last: Millis,
}

impl Attended {
    /// An event comes. One that is held back comes again within this time, so longer breaks don't count.
    fn comes(&mut self, now: Millis) {
        self.lasts += (now - self.last).min(HOLD.1);
        self.last = now;
    }
}

/// How many permits the slice of a circuit has.
fn permits_of_slice(text: &str, phase: &Value) -> u32 {
    let circuit: Value = serde_json::from_str(text).unwrap_or_default();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let length = (number(&circuit["patience_seconds"]) / 2).clamp(10, 150);
    (length * number(&phase["slice"]["rate"])).min(BROUGHT_MAX) as u32
}

/// The name of the phase in a circuit's text, and the phase.
fn phase(text: Option<&str>) -> (String, Value) {
    let circuit: Value = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let phase = circuit["phase"].as_object().and_then(|phase| phase.iter().next());
    phase.map_or(("closed".to_owned(), Value::Null), |(name, phase)| (name.clone(), phase.clone()))
}

impl Judge {
    /// A run has read the circuits of these targets, or not.
    pub fn looked_up(
        &mut self,
        run: u64,
        targets: &[String],
        answer: Option<&HashMap<String, Stored>>,
    ) {
        let now = self.now.timestamp_millis();
        for target in targets {
            if now > self.calm_at() {
                self.attended.entry(target.clone()).or_default().comes(now);
            }
            let text = answer.and_then(|found| found.get(target)?.text.as_deref());
            let (name, _) = phase(text);
            let known = Known {
                is_free: answer.is_none() || name == "closed",
                was_limited: name != "closed",
                has_probe: false,
                has_permits: matches!(&*name, "suspected" | "ramping"),
                ..Known::default()
            };
            self.known_circuits.insert((run, target.clone()), known);
        }
    }

    /// A run's write of a circuit has taken effect.
    pub fn turned(&mut self, run: u64, target: &str, was: Option<&str>, is: &str) {
        let ((before, old), (after, new)) = (phase(was), phase(Some(is)));
        if before != after {
            self.tally.count(Seen::Step("turns of circuits"));
            self.story.tell(self.now, None, || format!("run {run}: {target} is {after}: {is}"));
        }
        let may = TURNS.iter().find(|(name, _)| *name == before);
        if !may.is_some_and(|(_, may)| may.contains(&&*after)) {
            let what = format!("run {run} turns a circuit from {before} to {after}");
            self.violated(Check::TurnsInOrder, None, what);
        }
        let now = self.now.timestamp_millis();
        let next_at = |phase: &Value| phase["next_at"].as_i64().unwrap_or(0);
        if after == "open" && before != "open" && next_at(&new) > now + INTERVAL_MAX + SKEW {
            let what = format!("the next probe is at {}, now it is {now}", next_at(&new));
            self.violated(Check::ProbesInTime, None, what);
        }
        // A clock that is behind may take a time for one that no right clock has written.
        let far = next_at(&old) > now + INTERVAL_MAX;
        if after == "probing" && next_at(&old) > now + SKEW && !far && old["steady"].is_null() {
            let what = format!("a probe at {now}, to be made at {}", next_at(&old));
            self.violated(Check::ProbesInTime, None, what);
        }
        if let Some(slice) = new.get("slice") {
            let number = |name: &str| slice[name].as_i64().unwrap_or(0);
            let passed = (now - number("began")).max(0) / 1000 + 1 + SKEW / 1000;
            let (taken, rate) = (number("taken"), number("rate"));
            if taken > rate * passed {
                let what = format!("{taken} permits taken after {passed} s at {rate} a second");
                self.violated(Check::KeepsTheRate, None, what);
            }
        }
        let known = self.known_circuits.entry((run, target.to_owned())).or_default();
        known.is_free |= after == "closed";
        known.was_limited |= after != "closed";
        known.has_permits |= matches!(&*after, "suspected" | "ramping");
        known.has_probe = after == "probing";
        known.brings = match &*after {
            "open" if before != "open" => WAKE_UPS,
            "probing" => WAKE_UPS_AFTER_PROBE,
            "ramping" => permits_of_slice(is, &new),
            _ => known.brings,
        };
    }

    /// A run was not told whether it has turned a circuit. It does without the ledger then.
    pub fn may_have_turned(&mut self, run: u64, target: &str) {
        for message in self.runs.get_mut(&run).into_iter().flatten() {
            message.listing.excused |= self.cases[message.case].arn(&self.plan) == target;
        }
    }

    /// A run asks which events of a target wait in flight, to bring so many forward.
    pub fn asks_for(&mut self, run: u64, target: &str, count: u32) {
        let known = self.known_circuits.entry((run, target.to_owned())).or_default();
        let most = std::mem::take(&mut known.brings);
        if count > most {
            let what = format!("run {run} asks for {count} events of {target}, and may for {most}");
            self.violated(Check::BringsFew, None, what);
        }
    }

    /// These events wait.
    pub fn listed(&mut self, run: u64, target: &str, listed: &[Listed]) {
        let known = self.known_circuits.entry((run, target.to_owned())).or_default();
        known.listed.extend(listed.iter().map(|listed| listed.receipt_handle.clone()));
    }

    /// Whether a run may bring the message with this handle forward by so many seconds.
    pub fn brings_forward(&mut self, run: u64, handle: &str, seconds: u32) -> bool {
        let mut of_run = self.known_circuits.iter_mut().filter(|((of, _), _)| *of == run);
        let is_it = seconds <= BROUGHT_WITHIN && of_run.any(|(_, it)| it.listed.remove(handle));
        if is_it {
            self.tally.count(Seen::Step("brought forward"));
        }
        is_it
    }

    /// A run's write of a circuit was not made: another circuit is there, or nobody can tell.
    pub fn not_turned(&mut self, run: u64, target: &str, there: Option<&Stored>) {
        let (name, _) = phase(there.and_then(|there| there.text.as_deref()));
        let known = self.known_circuits.entry((run, target.to_owned())).or_default();
        known.is_free |= there.is_some() && name == "closed";
        known.was_limited |= name != "closed";
        known.has_permits |= matches!(&*name, "suspected" | "ramping");
    }

    /// A run invokes a target, whatever its circuit. Returns whether the circuit may let an event through that is not
    /// due yet.
    pub fn judge_probe(&mut self, run: u64, target: &str, case: usize) -> bool {
        let known = self.known_circuits.get_mut(&(run, target.to_owned()));
        let handler = self.plan.handler_of(self.cases[case].of.target);
        let is_ordered = self.cases[case].order == Some(Order::Retry);
        let Some(known) = known.filter(|_| handler.probes && !is_ordered) else { return false };
        let is_probe = std::mem::take(&mut known.has_probe);
        if !(known.is_free || known.has_permits || is_probe) {
            let what = format!("run {run} invokes a target that is down: {known:?}");
            self.violated(Check::ProbesAlone, self.cases[case].of.event, what);
            return false;
        }
        handler.has_register && (known.has_permits || is_probe)
    }

    /// Whether a message that may be due waits because its target is down. The rest of a wait that could not be kept as
    /// a delay ends when that `before` would have ended.
    pub fn is_held_by_circuit(
        &mut self,
        of: Subject,
        at: Millis,
        seconds: u32,
        before: Option<Wait>,
    ) -> bool {
        let case = &self.cases[of.case];
        let Ok(next) = case.verdict else { return false };
        let target = case.arn(&self.plan);
        let known = self.known_circuits.get(&(of.run, target.clone()));
        let low = case.due.unwrap_or(next.due.0);
        let may_be = self.plan.handler_of(case.of.target).probes
            && at >= low
            && known.is_some_and(|known| known.was_limited);
        let message = self.runs.get(&of.run).and_then(|run| run.get(of.place));
        let Some(message) = message.filter(|_| may_be) else { return false };
        let rest = if at < next.last_chance { next.last_chance - at } else { Millis::MAX };
        // SQS gives a message up after a thousand receives.
        let is_spared = receive_count(message.record()) >= SPARED_FROM;
        let most = if is_spared { HOLD_SPARED } else { HOLD.1 };
        let whole = |wait: Millis| wait.min(rest).saturating_add(999).div_euclid(1000);
        let is_rest = before.is_some_and(|wait| {
            message.held_by_circuit && message.refused && wait.ends_with(at, seconds)
        });
        // It may have been held back since the circuit was read.
        let passed = message.listing.since_look_up(self.now);
        let least = if is_rest { 0 } else { whole((HOLD.0 - passed).max(0)) };
        if !(least..=whole(most)).contains(&i64::from(seconds)) {
            return false;
        }
        // An event that never succeeds may be the probe again and again.
        let attended = self.attended.get(&target).map_or(0, |attended| attended.lasts);
        if attended > CLOSED_WITHIN && self.plan.hopeless == 0.0 {
            let minutes = attended / 60_000;
            let what = format!("it is held back after {minutes} minutes without a fault");
            self.violated(Check::ClosesInTheEnd, self.cases[of.case].of.event, what);
        }
        self.tally.count(Seen::Step("events held back"));
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        message.into_iter().for_each(|message| message.held_by_circuit = true);
        true
    }

    fn calm_at(&self) -> Millis {
        crate::world::BEGAN_AT as Millis + self.plan.calm_after.as_millis() as Millis
    }
}
