//! The rules for targets that are down, as far as they show from outside: who turns a circuit how, and who is invoked
//! meanwhile.

use std::collections::{BTreeSet, HashMap};

use comeback_core::{circuit::Minute, claim::Order};
use comeback_flow::{
    ports::{Listed, Stored},
    report::{Entry, Outcome, Report},
};

use super::{Judge, Subject, deliveries::Delivery, receive_count, register::Wait, turns::Phase};
use crate::{
    notes::{Check, Seen},
    rules::Millis,
    wire::{Answer, Exchange, Refusal},
};

/// How long an event is held back, and while nobody knows whether its target is down.
const HOLD: (Millis, Millis) = (90_000, 480_000);

/// The same for a message that was received this often.
const HOLD_SPARED: Millis = 3_600_000;
const SPARED_FROM: u32 = 500;

/// No target counts as down after events have come for so long without a fault.
const CLOSED_WITHIN: Millis = 2 * 3_600_000;

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
    /// Whether it has taken the probe, and whether it knows: it has to give the probe back if it can't make it.
    pub took_probe: bool,
    owes_probe: bool,
    /// How many events it may bring forward, whether it knows, and the handles of those that it may.
    pub brings: u32,
    owes_brings: bool,
    listed: BTreeSet<String>,
    /// Whether CloudWatch has told it that the target is down.
    pub is_told_down: bool,
}

/// An event that is brought forward comes back within so many seconds.
const BROUGHT_WITHIN: u32 = 300;

/// A handler that has worked for so long may run out of time before it has done everything.
const HURRIED: Millis = 2_000;

/// For how long events of a target have come since the last fault, and when the last did. A circuit that nobody looks
/// at can't close: an event that comes after a day finds what was left a day ago.
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

impl Known {
    /// A run has read or written this phase.
    pub fn turned(&mut self, phase: &Phase) {
        self.is_free |= phase.name == "closed";
        self.was_limited |= phase.name != "closed";
        self.has_permits |= phase.has_permits();
        self.has_probe = phase.name == "probing";
        self.took_probe = self.has_probe;
    }
}

impl Judge {
    /// What a run knows of the circuit of a target.
    pub fn knows(&mut self, run: u64, target: &str) -> &mut Known {
        self.known_circuits.entry(run).or_default().entry(target.to_owned()).or_default()
    }

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
            let phase = Phase::read(text);
            let known = Known {
                is_free: answer.is_none() || phase.name == "closed",
                was_limited: phase.name != "closed",
                has_permits: phase.has_permits(),
                ..Known::default()
            };
            *self.knows(run, target) = known;
        }
    }

    /// A run writes a circuit. It may give its probe back.
    pub fn turns(&mut self, run: u64, exchange: &Exchange) {
        let phase = Phase::read(Some(&exchange.next));
        self.knows(run, &exchange.target).owes_probe &= phase.name != "open";
    }

    /// A run is told whether it has turned a circuit.
    pub fn told_of_turn(&mut self, run: u64, exchange: &Exchange, answer: &Answer) {
        let Exchange { target, next, .. } = exchange;
        match answer {
            Ok(()) => {
                let known = self.knows(run, target);
                known.owes_probe = Phase::read(Some(next)).name == "probing";
                known.owes_brings |= known.brings > 0;
            }
            // It does without the ledger.
            Err(Refusal { found: None, .. }) => {
                for message in self.runs.get_mut(&run).into_iter().flatten() {
                    message.listing.excused |= self.cases[message.case].arn(&self.plan) == *target;
                }
            }
            Err(_) => {}
        }
    }

    /// A run has answered. It must have brought events forward, and given back the probe that it could not make.
    pub fn concludes(&mut self, run: u64, batch: &[Delivery], report: &Report) {
        let is_hurried = |it: &Delivery| it.listing.since_look_up(self.now) > HURRIED;
        let is_hurried = batch.iter().any(is_hurried);
        for (target, known) in self.known_circuits.remove(&run).unwrap_or_default() {
            let is_it = |message: &Delivery| self.cases[message.case].arn(&self.plan) == target;
            let Some(first) = batch.iter().find(|message| is_it(message)) else { continue };
            let was_made = |(message, entry): (&Delivery, &Entry)| {
                is_it(message) && matches!(entry.outcome, Outcome::Invoked { .. })
            };
            let case = &self.cases[first.case];
            let has_register = self.plan.handler_of(case.of.target).has_register;
            if is_hurried {
                continue;
            }
            if known.owes_probe && !batch.iter().zip(&report.entries).any(was_made) {
                let what = format!("run {run} keeps the probe of {target}, and did not make it");
                self.violated(Check::ProbesEnd, None, what);
            } else if known.owes_brings && has_register {
                let what = format!("run {run} brings nothing of {target} forward");
                self.violated(Check::BringsForward, None, what);
            }
        }
    }

    /// CloudWatch has told a run about a function.
    pub fn witnessed(&mut self, run: u64, target: &str, minutes: &[Minute]) {
        let is_down = minutes.iter().any(|minute| minute.errors == minute.invocations);
        self.knows(run, target).is_told_down |= is_down;
    }

    /// A run asks which events of a target wait in flight, to bring so many forward.
    pub fn asks_for(&mut self, run: u64, target: &str, count: u32) {
        let known = self.knows(run, target);
        let most = std::mem::take(&mut known.brings);
        known.owes_brings = false;
        if count > most {
            let what = format!("run {run} asks for {count} events of {target}, and may for {most}");
            self.violated(Check::BringsForward, None, what);
        }
    }

    /// These events wait.
    pub fn listed(&mut self, run: u64, target: &str, listed: &[Listed]) {
        let known = self.knows(run, target);
        known.listed.extend(listed.iter().map(|listed| listed.receipt_handle.clone()));
    }

    /// Whether a run may bring the message with this handle forward by so many seconds.
    pub fn brings_forward(&mut self, run: u64, handle: &str, seconds: u32) -> bool {
        let mut of_run = self.known_circuits.get_mut(&run).into_iter().flatten();
        let is_it = seconds <= BROUGHT_WITHIN && of_run.any(|(_, it)| it.listed.remove(handle));
        if is_it {
            self.tally.count(Seen::Step("brought forward"));
        }
        is_it
    }

    /// A run's write of a circuit was not made: another circuit is there, or nobody can tell.
    pub fn not_turned(&mut self, run: u64, target: &str, there: Option<&Stored>) {
        let phase = Phase::read(there.and_then(|there| there.text.as_deref()));
        let known = self.knows(run, target);
        known.is_free |= there.is_some() && phase.name == "closed";
        known.was_limited |= phase.name != "closed";
        known.has_permits |= phase.has_permits();
    }

    /// A run invokes a target, whatever its circuit. Returns whether the circuit may let an event through that is not
    /// due yet.
    pub fn judge_probe(&mut self, run: u64, target: &str, case: usize) -> bool {
        let known = self.known_circuits.get_mut(&run).and_then(|run| run.get_mut(target));
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
        let known = self.known_circuits.get(&of.run).and_then(|run| run.get(&target));
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
