//! What the runs of handlers know about circuits.

use std::collections::BTreeMap;

use comeback_core::{circuit::Minute, claim::Order};
use comeback_flow::report::{Entry, Outcome, Report};
use wire::{Answer, Exchange, Refusal};

use super::{Case, Delivery, Known, Phase, Subject};
use crate::{policy::Millis, seen::Seen};

/// How many events wait only until the next step of a circuit.
const WATCHERS: i64 = 4;

/// A handler that has worked for this many milliseconds may run out of time before it has finished.
const HURRIED: i64 = 2_000;

/// What a run knows about the circuit of a target.
#[derive(Clone, Debug, Default)]
pub struct Circuit {
    /// Whether the circuit was closed when the run read or wrote it, or whether the run could not read or write it.
    pub is_free: bool,
    /// Whether the circuit was ever seen as not closed.
    pub was_limited: bool,
    /// Whether it has taken the probe and has not made it yet.
    pub has_probe: bool,
    pub has_permits: bool,
    /// Whether it has taken the probe.
    pub took_probe: bool,
    pub is_told_down: bool,
    /// The times of the circuit's next steps, whether enough events wait for one, and how often another circuit was
    /// there.
    pub steps_at: Vec<Millis>,
    pub is_watched: bool,
    /// The probe that was running, as the run saw it last. It may be repeated, because its handler may have died.
    pub probe: Option<(String, i64)>,
    pub not_turned: u32,
}

/// What the writer of a circuit knows: that the target is down, or that its probe has ended.
#[derive(Clone, Copy)]
pub struct Evidence {
    pub is_told_down: bool,
    pub has_probe_ended: bool,
}

/// A run that knows a circuit has answered, and had time for all that it had to do.
#[derive(Clone, Copy)]
pub struct Concluded {
    pub has_register: bool,
    /// Whether it has invoked the target.
    pub has_invoked: bool,
}

impl Circuit {
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
    fn turned(&mut self, was: &Phase, phase: &Phase) {
        self.sees(phase);
        if !(was.is("probing") && phase.is("probing")) {
            self.has_probe = phase.is("probing");
            self.took_probe = self.has_probe;
        }
    }
}

impl Known {
    fn circuit_mut(&mut self, run: u64, target: &str) -> &mut Circuit {
        self.circuits.entry(run).or_default().entry(target.to_owned()).or_default()
    }

    pub fn circuit(&self, run: u64, target: &str) -> Option<&Circuit> {
        self.circuits.get(&run)?.get(target)
    }

    /// The circuit of a case. What was never delivered has none.
    pub fn circuit_of(&self, run: u64, case: &Case) -> Option<&Circuit> {
        self.circuit(run, case.arn(&self.plan)).filter(|_| !case.is_undelivered())
    }

    /// The targets whose circuits a run knows.
    pub fn circuits_known(&self, run: u64) -> Vec<String> {
        self.circuits.get(&run).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    pub fn reads_circuit(&mut self, run: u64, target: &str, phase: &Phase) {
        let circuit = self.circuit_mut(run, target);
        *circuit = Circuit::default();
        circuit.sees(phase);
    }

    /// A run has learned what became of its write of a circuit. On a failed one, it goes on without the ledger.
    pub fn told_of_turn(&mut self, run: u64, Exchange { target, .. }: &Exchange, answer: &Answer) {
        if let Err(Refusal { found: None, .. }) = answer {
            for message in self.runs.get_mut(&run).into_iter().flatten() {
                message.listing.excused |= self.cases[message.case].arn(&self.plan) == *target;
            }
            self.circuit_mut(run, target).is_watched = true;
        }
    }

    /// What a run that has answered has done about each circuit that it knows, if it had time enough.
    pub fn concluded(&self, run: u64, report: &Report) -> Vec<(String, Concluded)> {
        let batch = self.batch(run);
        let is_hurried = |it: &Delivery| (self.now - it.received_at).num_milliseconds() > HURRIED;
        if batch.iter().any(is_hurried) {
            return Vec::new();
        }
        let concluded = |target: String| {
            let is_it = |message: &Delivery| self.cases[message.case].arn(&self.plan) == target;
            let case = &self.cases[batch.iter().find(|message| is_it(message))?.case];
            let has_register = self.plan.handler_of(case.of.target).has_register;
            let was_made = |(message, entry): (&Delivery, &Entry)| {
                let is_retry = is_it(message) && !self.cases[message.case].is_undelivered();
                is_retry && matches!(entry.outcome, Outcome::Invoked { .. })
            };
            let has_invoked = batch.iter().zip(&report.entries).any(was_made);
            Some((target, Concluded { has_register, has_invoked }))
        };
        self.circuits_known(run).into_iter().filter_map(concluded).collect()
    }

    /// CloudWatch has reported the minutes of a function to a run.
    pub fn witnessed(&mut self, run: u64, target: &str, minutes: &[Minute]) {
        let is_down = minutes.iter().any(|minute| minute.errors == minute.invocations);
        self.circuit_mut(run, target).is_told_down |= is_down;
    }

    /// A run's write of a circuit failed, because another circuit is there.
    pub fn not_turned(&mut self, run: u64, target: &str, there: &Phase) {
        let circuit = self.circuit_mut(run, target);
        circuit.sees(there);
        circuit.not_turned += 1;
    }

    /// The circuit that must allow an invocation of this case.
    pub fn limit(&self, run: u64, target: &str, case: &Case) -> Option<&Circuit> {
        let is_limited = self.plan.handler_of(case.of.target).probes
            && case.order != Some(Order::Retry)
            && !case.is_undelivered();
        self.circuit(run, target).filter(|_| is_limited)
    }

    /// Whether the run that knows a circuit has its probe, or may repeat it, with the next attempt of this case.
    pub fn is_probe(&self, circuit: &Circuit, case: &Case) -> bool {
        circuit.has_probe || circuit.probe == Some(self.probe_of(case))
    }

    /// A run invokes a target, and has made the probe of its circuit with that.
    pub fn makes_probe(&mut self, of: Subject, target: &str) {
        if self.limit(of.run, target, &self.cases[of.case]).is_some() {
            self.circuit_mut(of.run, target).has_probe = false;
        }
    }

    /// The next attempt of a case, as a circuit names its probe.
    pub fn probe_of(&self, case: &Case) -> (String, i64) {
        let event = self.event_id(&case.of).unwrap_or_default();
        (event, case.verdict().map_or(0, |next| i64::from(next.attempt)))
    }

    /// A run's write of a circuit takes effect.
    pub fn turned(&mut self, run: u64, target: &str, was: &Phase, is: &Phase, text: &str) {
        if was.name != is.name {
            self.tally.count(Seen::Step("turns of circuits"));
            self.story
                .tell(self.now, None, || format!("run {run}: {target} is {}: {text}", is.name));
            self.figures.turned(was, is, self.now);
        }
        if is.is_on_trial() && !was.is_on_trial() {
            self.tally.count(Seen::Step("trials"));
        }
        self.circuit_mut(run, target).turned(was, is);
    }

    /// What a run knows of a circuit that it opens. Answers that arrive late may come after their run has ended.
    pub fn evidence(&self, run: u64, target: &str, was: &Phase) -> Evidence {
        let Some(batch) = self.runs.get(&run) else {
            return Evidence { is_told_down: true, has_probe_ended: true };
        };
        let circuit = self.circuit(run, target);
        let is_probe = |message: &Delivery| {
            let of = &self.cases[message.case].of;
            let event = self.event_id(of).unwrap_or_default();
            was.probe() == Some((event, i64::from(of.attempt)))
        };
        Evidence {
            is_told_down: circuit.is_some_and(|circuit| circuit.is_told_down),
            has_probe_ended: circuit.is_some_and(|circuit| circuit.took_probe)
                || batch.iter().any(is_probe),
        }
    }
}
