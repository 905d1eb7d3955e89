//! The table with the handlers' ledgers and registers, and the operators, who write to it too.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    time::Duration,
};

use comeback_core::{
    Timestamp,
    claim::{Claim, Order, State, Token, is_same},
    fault::FaultKind,
    lineage::{Call, Key, Known, Siblings},
    time::{between, later},
};
use comeback_flow::ports::{Entered, Listed, Listing};
use rustc_hash::FxHashMap;
use wire::{Answer, Entry, Found, More, Refusal, Write};

use super::{World, service::name_of};
use crate::{
    choices::Of,
    faults::Fault,
    ids::Id,
    judge::{Move, Subject},
    seen::Seen,
};

/// How stale the result of a look-up may be.
const LOOK_UP_LAG: Duration = Duration::from_secs(1);

/// How many runs a handler reads at once, unless the plan says less.
const SIBLINGS_MAX: usize = 100;

/// Our program keeps an order for as long as SQS may keep the message.
const KEEP: Duration = Duration::from_hours(14 * 24);

/// No order ends so soon before or after a handler receives its message.
const ORDER_END_MARGIN: Duration = Duration::from_hours(1);

/// Operators act within twice the time that an event waits, and this is the longest wait that counts.
const PATIENCE: Duration = Duration::from_hours(6);

/// An entry of the register. Thousands have the same target and queue.
#[derive(Clone)]
struct Row {
    target: Rc<str>,
    queue_url: Rc<str>,
    due: Timestamp,
    /// That of a message in flight. A delay has none.
    receipt_handle: Option<Box<str>>,
}

/// The key of an item: the number of its target, the digest of its payload, and its run.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Short {
    target: u32,
    digest: u128,
    run: Id,
}

impl Short {
    /// The key of another run with the same target and payload.
    fn sibling(&self, run: Id) -> Self {
        Self { run, ..*self }
    }
}

/// An item of a run, in few bytes: an outage has millions of them.
#[derive(Clone)]
struct Item {
    generation: u32,
    owner: Id,
    state: State,
    order: Option<Order>,
    expires_at: Timestamp,
    /// When the message of a waiting event comes back, if it is delayed.
    delayed_until: Option<Timestamp>,
    /// What is known of a run that is, or has, a retry without an envelope.
    more: Option<Box<More>>,
}

impl Item {
    fn new(claim: Claim) -> Self {
        let Claim { token: Token { generation, owner }, state, order, expires_at } = claim;
        let (owner, delayed_until, more) = (Id::from(&*owner), None, None);
        Self { generation, owner, state, order, expires_at, delayed_until, more }
    }

    fn claim(&self) -> Claim {
        let Self { generation, owner, state, order, expires_at, .. } = self;
        let token = Token { generation: *generation, owner: owner.to_string() };
        Claim { token, state: *state, order: *order, expires_at: *expires_at }
    }

    fn known(&self) -> Known {
        self.more.as_deref().cloned().unwrap_or_default().known(self.claim())
    }

    fn calls(&self) -> &[Call] {
        self.more.as_ref().map_or(&[], |more| &more.calls)
    }
}

/// The items of runs.
#[derive(Default)]
pub struct Table {
    items: BTreeMap<Short, Item>,
    /// The entries of the register.
    listed: FxHashMap<Short, Row>,
    /// The targets in keys, by number.
    targets: Vec<Rc<str>>,
    /// The targets and queues of the entries.
    names: BTreeSet<Rc<str>>,
    /// The items without a claim, which something other than a handler has written.
    forged: BTreeSet<Key>,
    /// What was there before the latest writes, if some look-ups miss those.
    replaced: VecDeque<(Timestamp, Short, Option<Item>)>,
    has_stale_reads: bool,
    orders: u32,
}

impl Table {
    pub fn new(has_stale_reads: bool) -> Self {
        Self { has_stale_reads, ..Self::default() }
    }

    /// The key in few bytes, if its target has items.
    fn short(&self, key: &Key) -> Option<Short> {
        let (target, digest) = key.id.rsplit_once('/')?;
        let number = self.targets.iter().position(|known| **known == *target)?;
        let digest = u128::from_str_radix(digest, 16).unwrap_or_default();
        Some(Short { target: number as u32, digest, run: Id::from(&*key.run) })
    }

    fn long(&self, short: &Short) -> Key {
        let Short { target, digest, run } = short;
        let id = format!("{}/{digest:032x}", self.targets[*target as usize]);
        Key { id, run: run.to_string() }
    }

    fn item(&self, key: &Key) -> Option<&Item> {
        self.items.get(&self.short(key)?)
    }

    /// The key in few bytes, of an item that is to be written.
    fn place(&mut self, key: &Key) -> Option<Short> {
        let (target, _) = key.id.rsplit_once('/')?;
        if self.targets.iter().all(|known| **known != *target) {
            self.targets.push(target.into());
        }
        self.short(key)
    }

    fn write(&mut self, now: Timestamp, write: &Write) {
        let Some(short) = self.place(&write.key) else { return };
        match write.waiting.as_ref().map(|entry| self.row(entry)) {
            Some(row) => self.listed.insert(short.clone(), row),
            None => self.listed.remove(&short),
        };
        let item = write.next.clone().map(|next| {
            let mut item = Item::new(next);
            let delayed = write.waiting.as_ref().filter(|entry| entry.receipt_handle.is_none());
            item.delayed_until = delayed.map(|entry| entry.due);
            item.more = self.items.get(&short).and_then(|there| there.more.clone());
            if item.more.is_some() || write.metadata.is_some() || !write.calls.is_empty() {
                item.more.get_or_insert_default().write(write);
            }
            item
        });
        self.put(now, short, item);
    }

    /// Notes what is known of a run. A claim that is there stays.
    fn note(&mut self, now: Timestamp, key: &Key, known: &Known) {
        let Some(short) = self.place(key) else { return };
        let there = self.items.get(&short).cloned();
        let mut item = there.unwrap_or_else(|| Item::new(known.claim.clone()));
        item.more.get_or_insert_default().note(known);
        self.put(now, short, Some(item));
    }

    /// Takes a call, unless another run has taken it.
    fn take(&mut self, now: Timestamp, key: &Key, call: &str, run: &str) -> bool {
        let Some(short) = self.short(key) else { return false };
        let Some(mut item) = self.items.get(&short).cloned() else { return false };
        let is_taken = item.more.as_mut().is_some_and(|more| more.take(call, run));
        if is_taken {
            self.put(now, short, Some(item));
        }
        is_taken
    }

    /// The runs with the target and the payload of this one, the first `page` of them and in any case the run itself.
    fn siblings(&self, key: &Key, page: usize) -> Siblings {
        let Some(short) = self.short(key) else {
            return Siblings { runs: Vec::new(), are_all: true };
        };
        let is_sibling = |it: &Short| (it.target, it.digest) == (short.target, short.digest);
        let from = short.sibling(Id::FIRST);
        let mut all = self.items.range(from..).take_while(|(it, _)| is_sibling(it));
        let known = |(it, item): (&Short, &Item)| (it.run.to_string(), item.known());
        let mut runs: Vec<_> = all.by_ref().take(page).map(known).collect();
        // DynamoDB ends at its limit, and doesn't look whether there is more.
        let are_all = runs.len() < page;
        if !are_all && runs.iter().all(|(run, _)| *run != key.run) {
            runs.extend(self.items.get_key_value(&short).map(known));
        }
        Siblings { runs, are_all }
    }

    /// An operator writes an order into an item, whose entry stays.
    fn order(&mut self, now: Timestamp, key: &Key, ordered: Claim) {
        let Some(short) = self.short(key) else { return };
        let there = self.items.get(&short).cloned();
        let Claim { token: Token { generation, owner }, state, order, expires_at } = ordered;
        let item = there.map(|there| Item {
            generation,
            owner: Id::from(&*owner),
            state,
            order,
            expires_at,
            ..there
        });
        self.put(now, short, item);
    }

    fn put(&mut self, now: Timestamp, short: Short, item: Option<Item>) {
        let before = match item {
            Some(item) => self.items.insert(short.clone(), item),
            None => self.items.remove(&short),
        };
        if !self.has_stale_reads {
            return;
        }
        self.replaced.push_back((now, short, before));
        while self.replaced.front().is_some_and(|(at, ..)| between(*at, now) > LOOK_UP_LAG) {
            self.replaced.pop_front();
        }
    }

    fn row(&mut self, entry: &Entry) -> Row {
        let Entry { target, queue_url, due, receipt_handle, .. } = entry;
        let receipt_handle = receipt_handle.as_deref().map(Box::from);
        let (target, queue_url) = (self.name(target), self.name(queue_url));
        Row { target, queue_url, due: *due, receipt_handle }
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
    pub fn forget(&mut self, key: &Key) {
        if let Some(short) = self.short(key) {
            self.items.remove(&short);
        }
    }

    /// The item as it was before the writes of this last time, if there were any.
    fn before(&self, now: Timestamp, key: &Key, lag: Duration) -> Option<&Option<Item>> {
        let short = self.short(key)?;
        let is_it = |(at, of, _): &&(Timestamp, Short, Option<Item>)| {
            *of == short && between(*at, now) <= lag
        };
        self.replaced.iter().find(is_it).map(|(.., item)| item)
    }

    /// The keys of all events that wait, and the receipt handles of those in flight.
    fn waiting(&self) -> Vec<(Key, Option<String>)> {
        let handle = |row: &Row| row.receipt_handle.as_deref().map(str::to_owned);
        self.listed.iter().map(|(key, row)| (self.long(key), handle(row))).collect()
    }

    pub fn clean(&mut self) {
        self.forged.clear();
    }
}

impl World {
    /// A handler writes an item, unless the item has changed since the handler saw it.
    pub fn write(&mut self, of: Of, write: &Write, subject: Option<Subject>) -> Answer {
        self.ask_ledger(of)?;
        let Write { key, seen, next, waiting, .. } = write;
        if self.table.forged.contains(key) {
            return Err(Refusal::of("NoClaim", 400, FaultKind::Configuration));
        }
        let there = self.table.item(key);
        if !is_same(there.map(Item::claim).as_ref(), seen.as_ref()) {
            let found = there.map(|there| Box::new(there.known()));
            return Err(Refusal { found: Some(found), ..Refusal::default() });
        }
        let before = there.map_or(0, |there| there.calls().len());
        if let (Some(Claim { state: State::Done, .. }), Some(subject)) = (next, subject) {
            self.judge.known.marked(subject);
        }
        self.table.write(self.now, write);
        let calls = self.table.item(key).map_or(&[][..], Item::calls);
        self.judge.has_written(write, subject, before, calls);
        // Where everything takes long, operators wait for what they have ordered.
        let is_ordered = next.as_ref().is_some_and(|claim| claim.order.is_some());
        if let Some(entry) = waiting
            && !(is_ordered && self.plan.short_orders > 0.0)
        {
            self.show(of, key, entry);
        }
        Ok(())
    }

    /// A handler notes what is known of a run that was accepted.
    pub fn note(&mut self, of: Of, key: &Key, known: &Known, subject: Option<Subject>) -> Answer {
        self.ask_ledger(of)?;
        self.table.forged.remove(key);
        self.table.note(self.now, key, known);
        self.judge.known.has_noted(subject);
        Ok(())
    }

    /// A failure takes a call for the one that has started its run.
    pub fn take_call(
        &mut self,
        of: Of,
        key: &Key,
        call: &str,
        taker: &str,
    ) -> Result<Found, Refusal> {
        self.ask_ledger(of)?;
        let is_taken = self.table.take(self.now, key, call, taker);
        let item = self.table.item(key).filter(|_| is_taken);
        if let Some(call) = item.and_then(|item| item.calls().iter().find(|it| it.name == *call)) {
            self.judge.has_taken(call, taker);
        }
        Ok(Found::Taken(is_taken))
    }

    /// A handler reads the runs with the target and the payload of this one, as they are now.
    pub fn siblings(&mut self, of: Of, key: &Key, only_children: bool) -> Result<Found, Refusal> {
        self.ask_ledger(of)?;
        let page = if only_children { usize::MAX } else { self.plan.page.unwrap_or(SIBLINGS_MAX) };
        let siblings = self.table.siblings(key, page);
        if !siblings.are_all {
            self.judge.known.tally.count(Seen::Step("siblings that were cut off"));
        }
        Ok(Found::Siblings(siblings))
    }

    /// A handler reads the items of runs and targets.
    pub fn look_up(
        &mut self,
        of: Of,
        (run, is_recall): (u64, bool),
        runs: &[Key],
        targets: &[String],
    ) -> Result<Found, Refusal> {
        self.ask_ledger(of)?;
        // Stale reads are as frequent as stale counts.
        let is_late = !runs.is_empty() && self.draws(of, Fault::InFlightLate);
        let lag = match is_late {
            true => self.choices.within(of, "stale by", LOOK_UP_LAG / 4, LOOK_UP_LAG),
            false => Duration::ZERO,
        };
        let (mut found, mut current) = (BTreeMap::new(), Vec::new());
        for key in runs {
            let before = if is_late { self.table.before(self.now, key, lag) } else { None };
            if before.is_some() {
                self.judge.known.tally.count(Seen::Fault(Fault::LookUpLate));
            } else {
                current.push(key);
            }
            let item = before.map_or_else(|| self.table.item(key), Option::as_ref);
            let Some(item) = item else { continue };
            let entered = Entered { known: item.known(), delayed_until: item.delayed_until };
            found.insert(key.clone(), entered);
        }
        let paused = targets.iter().filter(|target| self.judge.known.paused.contains(*target));
        let paused = paused.cloned().collect();
        self.judge.known.reads(run, is_recall, &current, &found);
        let of = |target: &String| Some((target.clone(), self.circuits.get(target)?.clone()));
        let circuits = targets.iter().filter_map(of).collect();
        Ok(Found::LookedUp { runs: found, paused, circuits })
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
        let rows = self.table.listed.iter();
        let wanted = rows.filter(|(_, row)| *row.target == *target && row.due > after);
        let (mut waiting, mut delays) = (Vec::new(), Vec::new());
        for (key, row) in wanted {
            match &row.receipt_handle {
                Some(handle) => waiting.push((row.due, key, row, &**handle)),
                None => delays.push(row.due),
            }
        }
        let order = |a: &(_, _, _, _), b: &(_, _, _, _)| (a.0, a.1).cmp(&(b.0, b.1));
        // Millions may wait, and a few thousand are asked for.
        let is_enough = waiting.len() >= count as usize;
        if waiting.len() > count as usize {
            waiting.select_nth_unstable_by(count as usize, order);
            waiting.truncate(count as usize);
        }
        waiting.sort_unstable_by(order);
        // The index is read until there are enough, or to its end.
        let last = waiting.last().map(|(due, ..)| *due).filter(|_| is_enough);
        let has_delays = delays.iter().any(|due| last.is_none_or(|last| *due <= last));
        let listed = |(_, _, row, handle): (Timestamp, &Short, &Row, &str)| Listed {
            queue_url: row.queue_url.to_string(),
            receipt_handle: handle.to_owned(),
        };
        let in_flight: Vec<_> = waiting.into_iter().map(listed).collect();
        self.judge.moves(run, target, Move::Lists(&in_flight));
        Ok(Found::Listed(Listing { in_flight, has_delays }))
    }

    /// An event is listed, so operators may see it.
    fn show(&mut self, of: Of, key: &Key, entry: &Entry) {
        let of = of.call("operator");
        if self.is_calm || !self.choices.happens(of, "seen by an operator", self.plan.ordering) {
            return;
        }
        // Half of the orders come too late, or when the event waits again.
        let wait = between(self.now, entry.due).min(PATIENCE);
        let delay = self.choices.within(of, "operated after", Duration::ZERO, 2 * wait);
        let (key, handle) = (key.clone(), entry.receipt_handle.clone());
        self.after(delay, move |world| world.operate(of, &key, handle));
    }

    /// An operator who has seen an event and its receipt handle orders something, for this event or for others.
    fn operate(&mut self, of: Of, key: &Key, handle: Option<String>) {
        if self.is_calm {
            return;
        }
        let events = match self.choices.kind(of, "operated", 0..=19, 19) {
            0 => {
                let mut all = self.table.waiting();
                all.sort_unstable();
                all
            }
            1 => vec![(self.judge.known.any_key(of, &mut self.choices), None)],
            2 => vec![(key.sibling("nobody's"), None)],
            3 => return self.forge(of, key),
            _ => vec![(key.clone(), handle)],
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
    fn order(&mut self, of: Of, key: &Key, order: Order, seen_handle: Option<String>) {
        let waits = |claim: &Claim| claim.state == State::Waiting && !claim.is_expired(self.now);
        let claim = self.table.item(key).map(Item::claim);
        let Some(claim) = claim.filter(waits) else {
            return self.judge.known.tally.count(Seen::Step("orders that came too late"));
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
        let row = self.table.short(key).and_then(|key| self.table.listed.get(&key));
        let Some(Row { queue_url, receipt_handle: Some(handle), .. }) = row.cloned() else {
            return;
        };
        let is_stale = seen_handle.as_ref().is_some_and(|seen| **seen != *handle);
        if is_stale {
            self.judge.known.tally.count(Seen::Fault(Fault::HandleStale));
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
        let Some((key, wanted_until)) = self.judge.known.order_of(trace) else { return };
        let key = self.table.short(&key);
        let Some(item) = key.and_then(|key| self.table.items.get_mut(&key)) else { return };
        let is_near =
            |end: Timestamp| between(self.now, end).max(between(end, self.now)) <= ORDER_END_MARGIN;
        let end = item.expires_at.max(wanted_until);
        if is_near(item.expires_at) || is_near(wanted_until) {
            item.expires_at = later(self.now, KEEP);
            self.judge.order_lasts(trace, Some(item.expires_at));
        } else if end <= self.now {
            self.judge.known.tally.count(Seen::Step("orders that ended"));
            self.judge.order_lasts(trace, None);
        }
    }

    /// Something other than a handler replaces an item on which no handler acts, for a while, by one without a claim.
    /// It can't know what an item notes of a run, so it leaves such items alone.
    fn forge(&mut self, of: Of, key: &Key) {
        let is_free = |item: &Item| {
            item.state == State::Waiting && item.order.is_none() && item.more.is_none()
        };
        if self.table.item(key).is_some_and(|item| !is_free(item)) {
            return;
        }
        self.judge.known.tally.count(Seen::Fault(Fault::ItemForged));
        self.judge.known.story.tell(self.now, None, || format!("{key:?} is written by hand"));
        if let Some(short) = self.table.short(key) {
            self.table.listed.remove(&short);
            self.table.put(self.now, short, None);
        }
        self.table.forged.insert(key.clone());
        let (key, lasts) = (key.clone(), self.choices.millis(of, "forged for", 1_000..=3_600_000));
        self.after(lasts, move |world| {
            world.table.forged.remove(&key);
        });
    }
}
