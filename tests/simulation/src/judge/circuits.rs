//! What runs of handlers do with circuits.

use std::collections::BTreeMap;

use comeback_flow::{ports::Stored, report::Report};
use wire::{Answer, Exchange};

use super::{
    Judge,
    happens::{Happens, Move, Turn},
    known::Phase,
};

impl Judge {
    /// A run does something with the circuit of this target.
    pub fn moves(&mut self, run: u64, target: &str, step: Move<'_>) {
        self.shows(None, Happens::Circuit(run, target, step));
    }

    /// A run has read the circuits of these targets. If it failed to, it has found none.
    pub fn looked_up(&mut self, run: u64, targets: &[String], found: &BTreeMap<String, Stored>) {
        let now = self.known.now.timestamp_millis();
        let is_late = self.known.batch(run).iter().any(|it| it.listing.is_answered());
        for target in targets.iter().filter(|_| !is_late) {
            if now > self.known.calm_at() {
                self.shows(None, Happens::Comes(target, now));
            }
            let text = found.get(target).and_then(|stored| stored.text.as_deref());
            self.reads_circuit(run, target, &Phase::read(text));
        }
    }

    fn reads_circuit(&mut self, run: u64, target: &str, phase: &Phase) {
        self.known.reads_circuit(run, target, phase);
        self.moves(run, target, Move::Reads(phase));
    }

    /// A run has learned what the register has about its batch. If the answer was lost, it does not know which circuits
    /// it has read, and goes on as if there were none.
    pub fn told_of_look_up(&mut self, run: u64, answer: &Answer) {
        if answer.is_err() {
            for target in self.known.circuits_known(run) {
                self.reads_circuit(run, &target, &Phase::read(None));
            }
        }
        self.known.told_of_look_up(run, answer);
    }

    /// A run writes a circuit, which may give its probe back.
    pub fn turns(&mut self, run: u64, exchange: &Exchange) {
        self.shows(None, Happens::WritesCircuit(run, exchange));
        self.moves(run, &exchange.target, Move::Turns(&Phase::read(Some(&exchange.next))));
    }

    /// A run's write of a circuit takes effect.
    pub fn turned(&mut self, run: u64, target: &str, was: Option<&str>, text: &str) {
        let (was, is) = (&Phase::read(was), &Phase::read(Some(text)));
        let knows = self.known.evidence(run, target, was);
        self.moves(run, target, Move::Turned(Turn { was, is, text, knows }));
        self.known.turned(run, target, was, is, text);
    }

    /// A run's write of a circuit failed, because another circuit is there.
    pub fn not_turned(&mut self, run: u64, target: &str, there: &Stored) {
        let there = Phase::read(there.text.as_deref());
        self.known.not_turned(run, target, &there);
        self.moves(run, target, Move::NotTurned(&there));
    }

    pub fn told_of_turn(&mut self, run: u64, exchange: &Exchange, answer: &Answer) {
        if answer.is_ok() {
            self.moves(run, &exchange.target, Move::ToldOfTurn(&exchange.next));
        }
        self.known.told_of_turn(run, exchange, answer);
    }

    /// A run has answered. It must have brought events forward, and given back a probe that it could not make.
    pub fn concludes(&mut self, run: u64, report: &Report) {
        for (target, concluded) in self.known.concluded(run, report) {
            self.moves(run, &target, Move::Concludes(concluded));
        }
    }
}
