//! The ledger's table: the items of runs, and the circuits of targets.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use comeback_core::{
    claim::is_same,
    lineage::{Key, Known, Siblings},
};
use comeback_flow::ports::{Entered, Stored};
use wire::{Entry, Exchange, Found, More, Refusal, Reply, Write};

#[derive(Default)]
pub struct Table {
    pub runs: RefCell<BTreeMap<Key, Known>>,
    /// The register.
    pub listed: RefCell<BTreeMap<Key, Entry>>,
    pub circuits: RefCell<BTreeMap<String, Stored>>,
}

impl Table {
    /// Makes a write, if the claim is the one that was seen. If the SDK repeats it, it finds itself.
    pub fn write(&self, write: &Write, is_repeated: bool) -> Result<(), Refusal> {
        let key = &write.key;
        let mut runs = self.runs.borrow_mut();
        let there = runs.get(key).cloned();
        if !is_same(there.as_ref().map(|it| &it.claim), write.seen.as_ref()) {
            return Err(changed(there));
        }
        let mut more = there.as_ref().map_or_else(More::default, More::of);
        more.write(write);
        runs.remove(key);
        runs.extend(write.next.clone().map(|next| (key.clone(), more.known(next))));
        let mut listed = self.listed.borrow_mut();
        listed.remove(key);
        listed.extend(write.waiting.clone().map(|entry| (key.clone(), entry)));
        if is_repeated { Err(changed(runs.get(key).cloned())) } else { Ok(()) }
    }

    pub fn note(&self, key: &Key, known: &Known) {
        let mut runs = self.runs.borrow_mut();
        let there = runs.entry(key.clone()).or_insert_with(|| known.clone());
        let mut more = More::of(there);
        more.note(known);
        *there = more.known(there.claim.clone());
    }

    pub fn take(&self, key: &Key, call: &str, run: &str) -> Found {
        let is_taken = self.runs.borrow_mut().get_mut(key).is_some_and(|there| {
            let mut more = More::of(there);
            let is_taken = more.take(call, run);
            *there = more.known(there.claim.clone());
            is_taken
        });
        Found::Taken(is_taken)
    }

    pub fn siblings(&self, key: &Key) -> Found {
        let runs = self.runs.borrow();
        let siblings = runs.iter().filter(|(it, _)| it.id == key.id);
        let runs = siblings.map(|(it, known)| (it.run.clone(), known.clone())).collect();
        Found::Siblings(Siblings { runs, are_all: true })
    }

    pub fn look_up(&self, runs: &[Key], targets: &[String]) -> Found {
        let (all, listed, circuits) =
            (self.runs.borrow(), self.listed.borrow(), self.circuits.borrow());
        let entered = |key: &Key| {
            let known = all.get(key)?.clone();
            let delayed = listed.get(key).filter(|entry| entry.receipt_handle.is_none());
            Some((key.clone(), Entered { known, delayed_until: delayed.map(|entry| entry.due) }))
        };
        let circuit = |target: &String| Some((target.clone(), circuits.get(target)?.clone()));
        Found::LookedUp {
            runs: runs.iter().filter_map(entered).collect(),
            paused: BTreeSet::new(),
            circuits: targets.iter().filter_map(circuit).collect(),
        }
    }

    /// Replaces a circuit, if it is the one that was seen. The SDK may repeat the write, and find it.
    pub fn exchange(&self, exchange: &Exchange, is_repeated: bool) -> Option<Reply> {
        let Exchange { target, seen, next } = exchange;
        let mut circuits = self.circuits.borrow_mut();
        let there = circuits.entry(target.clone()).or_default();
        let is_seen = there.version == *seen;
        if is_seen {
            *there = Stored { version: seen + 1, text: Some(next.clone()) };
        }
        let entries = vec![Err(Refusal::default())];
        let found = Found::Circuit(there.clone());
        (!is_seen || is_repeated).then_some(Reply { entries, found })
    }
}

fn changed(there: Option<Known>) -> Refusal {
    Refusal { found: Some(there.map(Box::new)), ..Refusal::default() }
}
