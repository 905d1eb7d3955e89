//! The ledger's table: the items of runs, and the circuits of targets.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use comeback_core::{
    claim::{Claim, is_same},
    lineage::{Key, Known, Siblings},
};
use comeback_flow::ports::{Entered, Stored};
use wire::{Entry, Exchange, Found, More, Refusal, Reply, Write};

/// What happens to an item behind the handler's back, just before it is written.
#[derive(Clone, Copy, Debug)]
pub enum Meddling {
    /// Another program removes it.
    Removed,
    /// The handler's own claim takes effect late.
    Late,
}

#[derive(Default)]
pub struct Table {
    pub runs: RefCell<BTreeMap<Key, Known>>,
    /// The register.
    pub listed: RefCell<BTreeMap<Key, Entry>>,
    pub circuits: RefCell<BTreeMap<String, Stored>>,
    /// What happens before the next write with this text.
    pub meddling: RefCell<VecDeque<(&'static str, Meddling)>>,
    /// The runs that look-ups miss, because they were written just before.
    pub missed: Vec<Key>,
    /// How many items one read of siblings finds at the most.
    pub page: Option<usize>,
}

impl Table {
    /// Something happens to an item before a write with this text. `own` is the handler's claim.
    pub fn meddle(&self, text: &str, key: &Key, own: Option<&Claim>) {
        let is_next = |(part, _): &mut (&str, _)| text.contains(*part);
        let (mut runs, next) =
            (self.runs.borrow_mut(), self.meddling.borrow_mut().pop_front_if(is_next));
        match (next, own) {
            (Some((_, Meddling::Removed)), _) => drop(runs.remove(key)),
            (Some((_, Meddling::Late)), Some(own)) => {
                runs.insert(key.clone(), More::default().known(own.clone()));
            }
            (Some((_, Meddling::Late)) | None, _) => {}
        }
    }

    /// Makes a write, if the claim is the one that was seen.
    pub fn write(&self, write: &Write) -> Result<(), Refusal> {
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
        Ok(())
    }

    /// The SDK repeats a write that was made, and finds it.
    pub fn find_own(&self, key: &Key) -> Refusal {
        changed(self.runs.borrow().get(key).cloned())
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

    pub fn siblings(&self, key: &Key, only_children: bool) -> Found {
        let all = self.runs.borrow();
        let all = all.iter().filter(|(it, _)| it.id == key.id);
        let mut runs: Vec<_> = all.map(|(it, known)| (it.run.clone(), known.clone())).collect();
        let page = self.page.filter(|page| !only_children && runs.len() > *page);
        runs.truncate(page.unwrap_or(usize::MAX));
        Found::Siblings(Siblings { runs, are_all: page.is_none() })
    }

    pub fn look_up(&self, runs: &[Key], targets: &[String]) -> Found {
        let (all, listed, circuits) =
            (self.runs.borrow(), self.listed.borrow(), self.circuits.borrow());
        let entered = |key: &Key| {
            let known = all.get(key).filter(|_| !self.missed.contains(key))?.clone();
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
