//! The rules for targets that are down, as seen from outside: which changes of a circuit are allowed, and which events
//! may be invoked meanwhile.

use std::{collections::BTreeMap, rc::Rc};

use comeback_core::{circuit::Minute, claim::Order};
use comeback_flow::{
    ports::Stored,
    report::{Entry, Outcome, Report},
};
use wire::{Answer, Exchange, Refusal};

use super::{
    Judge, Subject,
    cases::Case,
    deliveries::Delivery,
    promises::{Evidence, Happens, Move, Phase, Turn},
    receive_count,
    register::{LOOKS_MAX, Wait},
};
use crate::{
    notes::{Check, Seen},
    rules::Millis,
};

/// How long an event is held back while its target is down, or while that is unknown.
const HOLD: (Millis, Millis) = (90_000, 480_000);

/// How many events wait only until the next step of a circuit, and how long after it the last of them comes back. SQS
/// counts in whole seconds.
const WATCHERS: i64 = 4;
const WATCHES_WITHIN: Millis = 8_000;

/// The longest hold for a message with at least this many receives.
const MANY_RECEIVES_HOLD_MAX: Millis = 3_600_000;
const MANY_RECEIVES: u32 = 500;

/// A write of DynamoDB costs a unit for each kilobyte.
const CIRCUIT_BYTES_MAX: usize = 1_024;

#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Whether the circuit was closed when the run read or wrote it, or whether the run could not read or write it.
    is_free: bool,
    /// Whether the circuit was ever seen as not closed.
    was_limited: bool,
    /// Whether it has taken the probe and has not made it yet.
    has_probe: bool,
    has_permits: bool,
    /// Whether it has taken the probe, and whether it must still give the probe back if it can't make it.
    pub took_probe: bool,
    owes_probe: bool,
    pub is_told_down: bool,
    /// The times of the circuit's next steps, whether enough events wait for one, and how often another circuit was
    /// there.
    steps_at: Vec<Millis>,
    is_watched: bool,
    /// The probe that was running, as the run saw it last. It may be repeated, because its handler may have died.
    probe: Option<(String, i64)>,
    not_turned: u32,
}

/// A handler that has worked for this long may run out of time before it has finished.
const HURRIED: Millis = 2_000;

impl Known {
    /// A run has read or written this phase of the circuit.
    fn sees(&mut self, phase: &Phase) {
        self.is_free |= phase.name == "closed";
        self.was_limited |= phase.name != "closed";
        self.has_permits |= phase.has_permits();
        self.steps_at.extend(phase.step_at());
        self.is_watched |= phase.watchers >= WATCHERS;
        self.probe = phase.probe();
    }

    /// A run has replaced a phase of the circuit by this one.
    pub fn turned(&mut self, was: &Phase, phase: &Phase) {
        self.sees(phase);
        if !(was.is("probing") && phase.is("probing")) {
            self.has_probe = phase.is("probing");
            self.took_probe = self.has_probe;
        }
    }
}

impl Judge {
    pub fn knows(&mut self, run: u64, target: &str) -> &mut Known {
        self.known_circuits.entry(run).or_default().entry(target.to_owned()).or_default()
    }

    /// A run has read the circuits of these targets. If it failed to, it has found none.
    pub fn looked_up(&mut self, run: u64, targets: &[String], found: &BTreeMap<String, Stored>) {
        let now = self.now.timestamp_millis();
        let is_late = self.runs.get(&run).into_iter().flatten().any(|it| it.listing.is_answered());
        for target in targets.iter().filter(|_| !is_late) {
            if now > self.calm_at() {
                self.shows(None, Happens::Comes(target, now));
            }
            let text = found.get(target).and_then(|stored| stored.text.as_deref());
            self.reads_circuit(run, target, &Phase::read(text));
        }
    }

    fn reads_circuit(&mut self, run: u64, target: &str, phase: &Phase) {
        let known = self.knows(run, target);
        *known = Known::default();
        known.sees(phase);
        self.shows(None, Happens::Circuit(run, target, Move::Reads(phase)));
    }

    /// A run does not know which circuits it has read, because the answer was lost. It goes on as if there were none.
    pub fn learned_nothing(&mut self, run: u64) {
        let targets = self.known_circuits.get(&run).into_iter().flat_map(BTreeMap::keys);
        for target in targets.cloned().collect::<Vec<_>>() {
            self.reads_circuit(run, &target, &Phase::read(None));
        }
    }

    /// A run writes a circuit, which may give its probe back.
    pub fn turns(&mut self, run: u64, exchange: &Exchange) {
        let may_speak = |message: &Delivery| {
            let case = &self.cases[message.case];
            !case.is_refused && case.arn(&self.plan) == exchange.target
        };
        if !self.runs.get(&run).is_some_and(|batch| batch.iter().any(may_speak)) {
            let what = format!("run {run} writes the circuit of {}", exchange.target);
            self.violated(Check::RefusedCountsForNone, None, what);
        }
        if exchange.next.len() > CIRCUIT_BYTES_MAX {
            let what = format!("run {run} writes a circuit of {} bytes", exchange.next.len());
            self.violated(Check::StoresLittle, None, what);
        }
        let phase = Phase::read(Some(&exchange.next));
        let known = self.knows(run, &exchange.target);
        known.owes_probe &= phase.name != "open";
        self.shows(None, Happens::Circuit(run, &exchange.target, Move::Turns(&phase)));
    }

    pub fn told_of_turn(&mut self, run: u64, exchange: &Exchange, answer: &Answer) {
        let Exchange { target, next, .. } = exchange;
        match answer {
            Ok(()) => {
                let known = self.knows(run, target);
                known.owes_probe = known.took_probe && Phase::read(Some(next)).is("probing");
                self.shows(None, Happens::Circuit(run, target, Move::ToldOfTurn(next)));
            }
            // On a failed write, the handler goes on without the ledger.
            Err(Refusal { found: None, .. }) => {
                for message in self.runs.get_mut(&run).into_iter().flatten() {
                    message.listing.excused |= self.cases[message.case].arn(&self.plan) == *target;
                }
                self.knows(run, target).is_watched = true;
            }
            Err(_) => {}
        }
    }

    /// A run has answered. It must have brought events forward, and given back a probe that it could not make.
    pub fn concludes(&mut self, run: u64, batch: &[Delivery], report: &Report) {
        let is_hurried = |it: &Delivery| (self.now - it.received_at).num_milliseconds() > HURRIED;
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
            }
            self.shows(None, Happens::Circuit(run, &target, Move::Concludes(has_register)));
        }
        self.shows(None, Happens::Ends(run));
    }

    /// CloudWatch has reported the minutes of a function to a run.
    pub fn witnessed(&mut self, run: u64, target: &str, minutes: &[Minute]) {
        let is_down = minutes.iter().any(|minute| minute.errors == minute.invocations);
        self.knows(run, target).is_told_down |= is_down;
    }

    /// Whether a run may bring the message with this handle forward, to be visible after `seconds`.
    pub fn brings_forward(&mut self, run: u64, handle: &str, seconds: u32) -> bool {
        let is_it = self.promises.brings.may_bring(run, handle, seconds);
        if is_it {
            self.tally.count(Seen::Step("brought forward"));
        }
        is_it
    }

    /// A run's write of a circuit failed, because another circuit is there.
    pub fn not_turned(&mut self, run: u64, target: &str, there: &Stored) {
        let there = Phase::read(there.text.as_deref());
        let known = self.knows(run, target);
        known.sees(&there);
        known.not_turned += 1;
        self.shows(None, Happens::Circuit(run, target, Move::NotTurned(&there)));
    }

    /// A run invokes a target, whose circuit must allow it. Returns whether the circuit may also let through an event
    /// that is not due yet, which it never may if the target has asked for the time.
    pub fn judge_probe(&mut self, run: u64, target: &str, case: usize, came_back: bool) -> bool {
        let handler = self.plan.handler_of(self.cases[case].of.target);
        let is_ordered = self.cases[case].order == Some(Order::Retry);
        let own = self.probe_of(&self.cases[case]);
        let known = self.known_circuits.get_mut(&run).and_then(|run| run.get_mut(target));
        let Some(known) = known.filter(|_| handler.probes && !is_ordered) else { return false };
        let is_probe = std::mem::take(&mut known.has_probe) || known.probe == Some(own);
        if !(known.is_free || known.has_permits || is_probe) {
            let what = format!("run {run} invokes a target that is down: {known:?}");
            self.violated(Check::ProbesAlone, self.cases[case].of.event, what);
            return false;
        }
        !self.cases[case].asks_for_time() && (is_probe || (known.has_permits && came_back))
    }

    /// Whether a run may have chosen to retry an event of this case before it is due.
    pub fn may_be_early(&self, run: u64, case: &Case) -> bool {
        let of_run = self.known_circuits.get(&run);
        let known = of_run.and_then(|run| run.get(case.arn(&self.plan)));
        let own = Some(self.probe_of(case));
        let may = |known: &Known| known.took_probe || known.has_permits || known.probe == own;
        known.is_some_and(may) && !case.asks_for_time()
    }

    /// The next attempt of a case, as a circuit names its probe.
    fn probe_of(&self, case: &Case) -> (String, i64) {
        let event = self.event_id(&case.of).unwrap_or_default();
        (event, case.verdict().map_or(0, |next| i64::from(next.attempt)))
    }

    /// Whether a message waits for the next step of its circuit, or only until it is due or has its last chance. Of the
    /// events that are not due, those wait for it that may be the probe or were brought forward.
    fn watches(&self, of: Subject, at: Millis, seconds: u32) -> bool {
        let case = &self.cases[of.case];
        let Ok(next) = case.verdict() else { return false };
        let target = case.arn(&self.plan);
        let known = self.known_circuits.get(&of.run).and_then(|run| run.get(target));
        let Some(known) = known.filter(|known| known.was_limited) else { return false };
        let low = case.due().unwrap_or(next.due.0);
        let end = at + i64::from(seconds) * 1000;
        let ends_for = |step_at: &Millis| {
            // The calls before this one may have taken until then.
            let is_over = seconds == 0 && *step_at <= at;
            is_over || (*step_at.min(&next.last_chance)..=step_at + WATCHES_WITHIN).contains(&end)
        };
        (at >= low || !case.asks_for_time()) && known.steps_at.iter().any(ends_for)
    }

    /// Whether a message that may be due waits because its target is down. If its wait could not be kept as a delay,
    /// the rest of it ends when the wait `before` would have ended.
    pub fn is_held_by_circuit(
        &mut self,
        of: Subject,
        at: Millis,
        seconds: u32,
        before: Option<Wait>,
    ) -> bool {
        if self.watches(of, at, seconds) {
            self.tally.count(Seen::Step("events that wait for a step"));
            let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
            message.into_iter().for_each(|message| message.held_by_circuit = true);
            return true;
        }
        let case = &self.cases[of.case];
        let Ok(next) = case.verdict() else { return false };
        let plan = Rc::clone(&self.plan);
        let target = case.arn(&plan);
        let known = self.known_circuits.get(&of.run).and_then(|run| run.get(target));
        let low = case.due().unwrap_or(next.due.0);
        let may_be = self.plan.handler_of(case.of.target).probes
            && at >= low
            && known.is_some_and(|known| known.was_limited);
        let message = self.runs.get(&of.run).and_then(|run| run.get(of.place));
        let Some(message) = message.filter(|_| may_be) else { return false };
        let rest = if at < next.last_chance { next.last_chance - at } else { Millis::MAX };
        // SQS dead-letters a message after a thousand receives, so longer waits are allowed.
        let is_spared = receive_count(message.record()) >= MANY_RECEIVES;
        let most = if is_spared { MANY_RECEIVES_HOLD_MAX } else { HOLD.1 };
        let whole = |wait: Millis| wait.min(rest).saturating_add(999).div_euclid(1000);
        let is_rest = before.is_some_and(|wait| {
            message.held_by_circuit && message.copy_refused && wait.ends_with(at, seconds)
        });
        // Its hold may have begun when the circuit was read.
        let passed = message.listing.since_look_up(self.now);
        let least = if is_rest { 0 } else { whole((HOLD.0 - passed).max(0)) };
        if !(least..=whole(most)).contains(&i64::from(seconds)) {
            return false;
        }
        // Nobody is held back for long unless others wait for the next step, if it can be taken before.
        let is_unwatched = known.is_some_and(|it| {
            let is_ahead = it.steps_at.last().is_some_and(|&it| at < it && it < at + HOLD.0);
            !it.is_watched
                && is_ahead
                && !it.is_free
                && !it.is_told_down
                && it.not_turned < LOOKS_MAX
        });
        let is_due = case.due_range(next).1 <= at - passed;
        if is_unwatched && is_due && !is_spared && !is_rest {
            let what = format!("it is held back for {seconds} s, and nobody waits for the step");
            self.violated(Check::ProbesInTime, self.cases[of.case].of.event, what);
        }
        // An event that never succeeds may be the probe time and again.
        if self.plan.hopeless == 0.0 {
            self.shows(self.cases[of.case].of.event, Happens::HeldBack(target));
        }
        self.tally.count(Seen::Step("events held back"));
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        message.into_iter().for_each(|message| message.held_by_circuit = true);
        true
    }

    /// A run's write of a circuit has taken effect.
    pub fn turned(&mut self, run: u64, target: &str, was: Option<&str>, text: &str) {
        let (was, is) = (Phase::read(was), Phase::read(Some(text)));
        if was.name != is.name {
            self.tally.count(Seen::Step("turns of circuits"));
            self.story
                .tell(self.now, None, || format!("run {run}: {target} is {}: {text}", is.name));
            self.figures.turned(&was, &is, self.now);
        }
        if is.is_on_trial() && !was.is_on_trial() {
            self.tally.count(Seen::Step("trials"));
        }
        let knows = self.evidence(run, target, &was);
        let turn = Turn { was: &was, is: &is, text, at: self.now, knows };
        self.shows(None, Happens::Circuit(run, target, Move::Turned(turn)));
        self.knows(run, target).turned(&was, &is);
    }

    /// What a run knows of a circuit that it opens. Answers that arrive late may come after their run has ended.
    fn evidence(&self, run: u64, target: &str, was: &Phase) -> Evidence {
        let Some(batch) = self.runs.get(&run) else {
            return Evidence { is_told_down: true, has_probe_ended: true };
        };
        let known = self.known_circuits.get(&run).and_then(|run| run.get(target));
        let is_probe = |message: &Delivery| {
            let of = &self.cases[message.case].of;
            let event = self.event_id(of).unwrap_or_default();
            was.probe() == Some((event, i64::from(of.attempt)))
        };
        Evidence {
            is_told_down: known.is_some_and(|known| known.is_told_down),
            has_probe_ended: known.is_some_and(|known| known.took_probe)
                || batch.iter().any(is_probe),
        }
    }

    pub fn calm_at(&self) -> Millis {
        crate::world::BEGAN_AT as Millis + self.plan.calm_after.as_millis() as Millis
    }
}
