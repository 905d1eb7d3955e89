//! The table with the handlers' ledgers and registers, and the operators, who write to it too.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use comeback_core::{
    Timestamp,
    claim::{self, Claim, Order, State, Token, is_same},
    envelope::RetryMetadata,
    fault::FaultKind,
    note::{self, Keys, Sending},
    time::{between, later},
};
use comeback_flow::ports::{Entered, Listed};
use rustc_hash::FxHashMap;
use wire::{Answer, Entry, Found, Noting, Refusal, Replace};

use super::{World, service::name_of};
use crate::{
    choices::Of,
    ids::Id,
    judge::Subject,
    notes::{Fault, Seen},
};

/// How stale the result of a look-up may be.
const LOOK_UP_LAG: Duration = Duration::from_secs(1);

/// Our program keeps an order for as long as SQS may keep the message.
const KEEP: Duration = Duration::from_hours(14 * 24);

/// No order ends so soon before or after a handler receives its message.
const ORDER_END_MARGIN: Duration = Duration::from_hours(1);

/// Operators act within twice the time that an event waits, and this is the longest wait that counts.
const PATIENCE: Duration = Duration::from_hours(6);

/// An entry of the register for a message in flight. Thousands have the same target and queue.
#[derive(Clone)]
struct Listing {
    target: Rc<str>,
    queue_url: Rc<str>,
    due: Timestamp,
    receipt_handle: Box<str>,
}

/// The key of a claim: the number of its target, and the id of its failure.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Key {
    target: u32,
    id: Id,
}

/// An item with a claim, in few bytes: an outage has millions of them.
#[derive(Clone)]
struct Item {
    generation: u32,
    owner: Id,
    state: State,
    order: Option<Order>,
    expires_at: Timestamp,
    /// When the message of a waiting event comes back, if it is delayed. Those in flight have a [`Listing`].
    delayed_until: Option<Timestamp>,
}

impl Item {
    fn new(claim: Claim, delayed_until: Option<Timestamp>) -> Self {
        let Claim { token: Token { generation, owner }, state, order, expires_at } = claim;
        Self { generation, owner: Id::from(&*owner), state, order, expires_at, delayed_until }
    }

    fn claim(&self) -> Claim {
        let Self { generation, owner, state, order, expires_at, .. } = self;
        let token = Token { generation: *generation, owner: owner.to_string() };
        Claim { token, state: *state, order: *order, expires_at: *expires_at }
    }
}

/// The items, by claim key.
#[derive(Default)]
pub struct Table {
    items: FxHashMap<Key, Item>,
    /// The entries of the register for messages in flight.
    listed: FxHashMap<Key, Listing>,
    /// The targets in keys, by number.
    targets: Vec<Rc<str>>,
    /// The targets and queues of the entries.
    names: BTreeSet<Rc<str>>,
    /// The items without a claim, which something other than a handler has written.
    forged: BTreeSet<String>,
    /// What was there before the latest writes, if some look-ups miss those.
    replaced: VecDeque<(Timestamp, Key, Option<Item>)>,
    has_stale_reads: bool,
    orders: u32,
    /// The notes of retries without an envelope, and what is being sent, by sender. Each item has an expiry.
    notes: HashMap<String, (Timestamp, RetryMetadata)>,
    sendings: HashMap<String, (Timestamp, BTreeMap<String, Sending>)>,
}

impl Table {
    pub fn new(has_stale_reads: bool) -> Self {
        Self { has_stale_reads, ..Self::default() }
    }

    /// The key, if it may be of an item.
    fn key(&self, text: &str) -> Option<Key> {
        let (target, id) = text.split_once('/')?;
        let number = self.targets.iter().position(|known| **known == *target)?;
        Some(Key { target: number as u32, id: Id::from(id) })
    }

    fn text(&self, key: &Key) -> String {
        claim::key(&self.targets[key.target as usize], &key.id.to_string())
    }

    fn item(&self, key: &str) -> Option<&Item> {
        self.items.get(&self.key(key)?)
    }

    fn claim(&self, key: &str) -> Option<Claim> {
        self.item(key).map(Item::claim)
    }

    fn write(&mut self, now: Timestamp, key: &str, claim: Option<Claim>, entry: Option<&Entry>) {
        let Some((target, _)) = key.split_once('/') else { return };
        if self.targets.iter().all(|known| **known != *target) {
            self.targets.push(target.into());
        }
        let Some(key) = self.key(key) else { return };
        match entry.and_then(|entry| self.listing(entry)) {
            Some(listing) => self.listed.insert(key.clone(), listing),
            None => self.listed.remove(&key),
        };
        let delayed = entry.filter(|entry| entry.receipt_handle.is_none());
        let item = claim.map(|claim| Item::new(claim, delayed.map(|entry| entry.due)));
        self.put(now, key, item);
    }

    /// An operator writes an order into an item, whose entry stays.
    fn order(&mut self, now: Timestamp, key: &str, ordered: Claim) {
        let Some(key) = self.key(key) else { return };
        let delayed_until = self.items.get(&key).and_then(|item| item.delayed_until);
        self.put(now, key, Some(Item::new(ordered, delayed_until)));
    }

    fn put(&mut self, now: Timestamp, key: Key, item: Option<Item>) {
        let before = match item {
            Some(item) => self.items.insert(key.clone(), item),
            None => self.items.remove(&key),
        };
        if !self.has_stale_reads {
            return;
        }
        self.replaced.push_back((now, key, before));
        while self.replaced.front().is_some_and(|(at, ..)| between(*at, now) > LOOK_UP_LAG) {
            self.replaced.pop_front();
        }
    }

    fn listing(&mut self, entry: &Entry) -> Option<Listing> {
        let Entry { target, queue_url, due, receipt_handle, .. } = entry;
        let receipt_handle = receipt_handle.as_deref()?.into();
        let (target, queue_url) = (self.name(target), self.name(queue_url));
        Some(Listing { target, queue_url, due: *due, receipt_handle })
    }

    fn name(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.names.get(name) {
            return Rc::clone(known);
        }
        let name = Rc::from(name);
        self.names.insert(Rc::clone(&name));
        name
    }

    /// Deletes an item for which nobody will ask any more: an outage has millions of them.
    pub fn forget(&mut self, key: &str) {
        if let Some(key) = self.key(key) {
            self.items.remove(&key);
        }
    }

    fn note(&mut self, now: Timestamp, noting: &Noting) {
        let Noting { note, sendings, sender, sending, over, expires_at } = noting;
        if let Some((key, metadata)) = note {
            self.notes.insert(key.clone(), (*expires_at, metadata.clone()));
        }
        let (end, senders) = self.sendings.entry(sendings.clone()).or_default();
        if *end <= now {
            senders.clear();
        }
        *end = *expires_at;
        over.iter().for_each(|sender| drop(senders.remove(sender)));
        match sending {
            Some(sending) => senders.insert(sender.clone(), sending.clone()),
            None => senders.remove(sender),
        };
    }

    /// Finds the note and the sendings for a failure record. Expired ones may be deleted by now, so they don't count.
    fn recall(&self, now: Timestamp, keys: &Keys) -> note::Found {
        let note = self.notes.get(&keys.note).filter(|(end, _)| *end > now);
        let sendings = self.sendings.get(&keys.sendings).filter(|(end, _)| *end > now);
        note::Found {
            note: note.map(|(_, metadata)| metadata.clone()),
            sendings: sendings.map_or_else(Vec::new, |(_, all)| all.values().cloned().collect()),
        }
    }

    /// The item as it was before the latest writes, if there were any.
    fn before(&self, now: Timestamp, key: &str) -> Option<&Option<Item>> {
        let key = self.key(key)?;
        let is_it = |(at, of, _): &&(Timestamp, Key, Option<Item>)| {
            *of == key && between(*at, now) <= LOOK_UP_LAG
        };
        self.replaced.iter().find(is_it).map(|(.., item)| item)
    }

    /// The keys of all events that wait, and the receipt handles of those in flight.
    fn waiting(&self) -> Vec<(String, Option<String>)> {
        let listed = self.listed.iter();
        let listed = listed.map(|(key, it)| (self.text(key), Some(it.receipt_handle.to_string())));
        let delayed = self.items.iter().filter(|(_, item)| item.delayed_until.is_some());
        listed.chain(delayed.map(|(key, _)| (self.text(key), None))).collect()
    }

    pub fn clean(&mut self) {
        self.forged.clear();
    }
}

impl World {
    /// A handler replaces an item, unless the item has changed since the handler saw it.
    pub fn replace(&mut self, of: Of, replace: &Replace, subject: Option<Subject>) -> Answer {
        self.ask_ledger(of)?;
        if self.table.forged.contains(&replace.key) {
            return Err(Refusal::of("NoClaim", 400, FaultKind::Configuration));
        }
        self.conflict(of, replace.noting.is_some())?;
        let there = self.table.claim(&replace.key);
        if !is_same(there.as_ref(), replace.seen.as_ref()) {
            return Err(Refusal { found: Some(there), ..Refusal::default() });
        }
        if let (Some(Claim { state: State::Done, .. }), Some(subject)) = (&replace.next, subject) {
            self.judge.marked(subject);
        }
        let Replace { key, next, waiting, .. } = replace;
        self.table.write(self.now, key, next.clone(), waiting.as_ref());
        if let Some(noting) = &replace.noting {
            self.table.note(self.now, noting);
            self.judge.notes(noting);
        }
        // Where everything takes long, operators wait for what they have ordered.
        let is_ordered = next.as_ref().is_some_and(|claim| claim.order.is_some());
        if let Some(entry) = waiting
            && !(is_ordered && self.plan.short_orders > 0.0)
        {
            self.show(of, key, entry);
        }
        Ok(())
    }

    /// Draws whether a transaction is cancelled because of another one.
    fn conflict(&mut self, of: Of, is_transaction: bool) -> Answer {
        if is_transaction && self.happens(of, Fault::TransactionConflict) {
            let transient = FaultKind::Transient { retry_after: None };
            return Err(Refusal::of("TransactionConflict", 400, transient));
        }
        Ok(())
    }

    /// A handler reads the notes for failure records, as they are now.
    pub fn recall(&mut self, of: Of, run: u64, keys: &[Keys]) -> Result<Found, Refusal> {
        self.ask_ledger(of)?;
        self.judge.reads_notes(run, keys);
        Ok(Found::Recalled(keys.iter().map(|keys| self.table.recall(self.now, keys)).collect()))
    }

    /// A failure takes the sending of a handler that died, if it is still there.
    pub fn adopt(&mut self, of: Of, run: u64, noting: &Noting) -> Result<Found, Refusal> {
        self.ask_ledger(of)?;
        self.conflict(of, true)?;
        let there = self.table.sendings.get(&noting.sendings).filter(|(end, _)| *end > self.now);
        let is_there = there.is_some_and(|(_, senders)| senders.contains_key(&noting.sender));
        if is_there {
            self.table.note(self.now, noting);
            self.judge.adopts(run, noting);
        }
        Ok(Found::Adopted(is_there))
    }

    /// A handler reads the items of events and targets.
    pub fn look_up(
        &mut self,
        of: Of,
        run: u64,
        events: &[String],
        targets: &[String],
    ) -> Result<Found, Refusal> {
        self.ask_ledger(of)?;
        // Stale reads are as frequent as stale counts.
        let is_late = !events.is_empty() && self.draws(of, Fault::InFlightLate);
        let (mut found, mut current) = (BTreeMap::new(), Vec::new());
        for key in events {
            let before = if is_late { self.table.before(self.now, key) } else { None };
            if before.is_some() {
                self.judge.tally.count(Seen::Fault(Fault::LookUpLate));
            } else {
                current.push(key.as_str());
            }
            let item = before.map_or_else(|| self.table.item(key), Option::as_ref);
            let Some(item) = item else { continue };
            let entered = Entered { claim: item.claim(), delayed_until: item.delayed_until };
            found.insert(key.clone(), entered);
        }
        let paused = targets.iter().filter(|target| self.judge.paused.contains(*target));
        let paused = paused.cloned().collect();
        self.judge.reads(run, &current, &found);
        let of = |target: &String| Some((target.clone(), self.circuits.get(target)?.clone()));
        let circuits = targets.iter().filter_map(of).collect();
        Ok(Found::Notes { events: found, paused, circuits })
    }

    /// A handler lists up to `count` events of a target that are in flight past `after`.
    pub fn list(
        &mut self,
        of: Of,
        run: u64,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> Result<Found, Refusal> {
        self.ask_ledger(of)?;
        let mut waiting: Vec<_> = (self.table.listed.iter())
            .filter(|(_, entry)| *entry.target == *target && entry.due > after)
            .map(|(key, entry)| (entry.due, key, entry))
            .collect();
        let order = |a: &(_, _, _), b: &(_, _, _)| (a.0, a.1).cmp(&(b.0, b.1));
        // Millions may wait, and a few thousand are asked for.
        if waiting.len() > count as usize {
            waiting.select_nth_unstable_by(count as usize, order);
            waiting.truncate(count as usize);
        }
        waiting.sort_unstable_by(order);
        let listed = |(_, _, entry): (Timestamp, &Key, &Listing)| Listed {
            queue_url: entry.queue_url.to_string(),
            receipt_handle: entry.receipt_handle.to_string(),
        };
        let found: Vec<_> = waiting.into_iter().map(listed).collect();
        self.judge.listed(run, target, &found);
        Ok(Found::Listed(found))
    }

    /// An event is listed, so operators may see it.
    fn show(&mut self, of: Of, key: &str, entry: &Entry) {
        let of = of.call("operator");
        if self.is_calm || !self.choices.happens(of, "seen by an operator", self.plan.ordering) {
            return;
        }
        // Half of the orders come too late, or when the event waits again.
        let wait = between(self.now, entry.due).min(PATIENCE);
        let delay = self.choices.within(of, "operated after", Duration::ZERO, 2 * wait);
        let (key, handle) = (key.to_owned(), entry.receipt_handle.clone());
        self.after(delay, move |world| world.operate(of, &key, handle));
    }

    /// An operator who has seen an event and its receipt handle orders something, for this event or for others.
    fn operate(&mut self, of: Of, key: &str, handle: Option<String>) {
        if self.is_calm {
            return;
        }
        let events = match self.choices.kind(of, "operated", 0..=19, 19) {
            0 => {
                let mut all = self.table.waiting();
                all.sort_unstable();
                all
            }
            1 => vec![(self.judge.any_key(of, &mut self.choices), None)],
            2 => vec![("nobody's".to_owned(), None)],
            3 => return self.forge(of, key),
            _ => vec![(key.to_owned(), handle)],
        };
        for (key, handle) in events {
            // Two operators may act at the same time, with different orders.
            for _ in 0..self.choices.pick(of, "orders", &[1, 1, 1, 2]) {
                let orders = [Order::Retry, Order::Retry, Order::Cancel];
                let order = self.choices.pick(of, "order", &orders);
                let delay = self.choices.millis(of, "ordered after", 2..=500);
                let (key, handle) = (key.clone(), handle.clone());
                self.after(delay, move |world| world.order(of, &key, order, handle));
            }
        }
    }

    /// An operator writes an order for an event if it waits, and makes its message visible.
    fn order(&mut self, of: Of, key: &str, order: Order, seen_handle: Option<String>) {
        let waits = |claim: &Claim| claim.state == State::Waiting && !claim.is_expired(self.now);
        let Some(claim) = self.table.claim(key).filter(waits) else {
            return self.judge.tally.count(Seen::Step("orders that came too late"));
        };
        self.table.orders += 1;
        let owner = format!("operator-{}", self.table.orders);
        let token = Token { generation: claim.token.generation + 1, owner };
        let is_short = self.choices.happens(of, "short order", self.plan.short_orders);
        let expires_at = if is_short { claim.expires_at } else { later(self.now, KEEP) };
        let ordered = Claim { token, order: Some(order), expires_at, ..claim };
        self.table.order(self.now, key, ordered);
        self.judge.ordered(key, order, expires_at);
        // A delayed message can't be made visible.
        let listing = self.table.key(key).and_then(|key| self.table.listed.get(&key));
        let Some(Listing { queue_url, receipt_handle: handle, .. }) = listing.cloned() else {
            return;
        };
        let is_stale = seen_handle.as_ref().is_some_and(|seen| **seen != *handle);
        if is_stale {
            self.judge.tally.count(Seen::Fault(Fault::HandleStale));
        }
        let handle = seen_handle.unwrap_or(handle.into());
        if self.happens(of, Fault::CallUnsent) {
            return;
        }
        // A command that is repeated with the same handle may show a message on which a handler acts by then.
        let mut delay = Duration::ZERO;
        for nth in 0..self.choices.pick(of, "shown", &[1, 1, 4]) {
            let most = if nth == 0 { 60 } else { 20_000 };
            delay += self.choices.millis(of, "shown after", 2..=most);
            let (queue_url, handle) = (Rc::clone(&queue_url), handle.clone());
            self.after(delay, move |world| {
                // The message may be deleted by now.
                let sqs = &mut world.cloud.sqs;
                let _ = sqs.change_visibility(world.now, name_of(&queue_url), &handle, 0);
            });
        }
    }

    /// An order ends with its item, if it has lasted for as long as the operator wanted. Clocks differ, so no order
    /// ends while a handler has its message.
    pub fn end_order(&mut self, trace: &str) {
        let Some((key, wanted_until)) = self.judge.order_of(trace) else { return };
        let key = self.table.key(&key);
        let Some(item) = key.and_then(|key| self.table.items.get_mut(&key)) else { return };
        let is_near =
            |end: Timestamp| between(self.now, end).max(between(end, self.now)) <= ORDER_END_MARGIN;
        let end = item.expires_at.max(wanted_until);
        if is_near(item.expires_at) || is_near(wanted_until) {
            item.expires_at = later(self.now, KEEP);
            self.judge.order_lasts(trace, Some(item.expires_at));
        } else if end <= self.now {
            self.judge.tally.count(Seen::Step("orders that ended"));
            self.judge.order_lasts(trace, None);
        }
    }

    /// Something other than a handler replaces an item on which no handler acts, for a while, by one without a claim.
    fn forge(&mut self, of: Of, key: &str) {
        let is_free = |item: &Item| item.state == State::Waiting && item.order.is_none();
        if self.table.item(key).is_some_and(|item| !is_free(item)) {
            return;
        }
        self.judge.tally.count(Seen::Fault(Fault::ItemForged));
        self.judge.story.tell(self.now, None, || format!("{key} is written by hand"));
        self.table.write(self.now, key, None, None);
        self.table.forged.insert(key.to_owned());
        let (key, lasts) =
            (key.to_owned(), self.choices.millis(of, "forged for", 1_000..=3_600_000));
        self.after(lasts, move |world| {
            world.table.forged.remove(&key);
        });
    }
}
