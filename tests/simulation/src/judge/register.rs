//! The rules for the register and for operators' orders.

use std::collections::{BTreeMap, BTreeSet};

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Timestamp,
    claim::{Claim, Order, State},
    lineage::{Key, Siblings},
};
use comeback_flow::ports::Entered;
use wire::{Answer, Entry, Write};

use super::{
    Judge, Subject,
    cases::Case,
    delays::{DELAY_MAX, HOP_MIN, was_sent_again},
    deliveries::{Delivery, Met, receive_count},
    faults::LEDGER,
    recall::Recall,
};
use crate::{
    choices::{Choices, Of},
    notes::{Check, Seen},
    rules::Millis,
};

/// How often a handler looks at an item that keeps changing. After that it counts as a transient fault.
pub const LOOKS_MAX: u32 = 3;

/// What a handler knows from the register about a message, and what it has written there.
#[derive(Default)]
pub struct Listing {
    pub was_paused: bool,
    /// When the handler began its look-up and, before that, judged the message, both by its own clock; and when it
    /// received the answer.
    asked_at: Option<Millis>,
    judged_at: Millis,
    /// Whether it has looked the events of its batch up, and when it received the answer; and whether it knows from
    /// before what the ledger has about this one.
    looks_up: bool,
    answered_at: Option<Timestamp>,
    is_recalled: bool,
    /// The result of the look-up, and its fault if it failed.
    read: Read,
    look_up_fault: Option<Met>,
    /// Whether the handler needn't list the message: a call to the ledger failed, or another handler acts on it.
    pub excused: bool,
    /// How often the handler wrote the item, and how often it found another item than expected.
    writes: u32,
    changes: u32,
    pub found_order: bool,
}

/// What a look-up has shown about a message.
#[derive(Clone, Copy, Default)]
struct Read {
    /// The order in force (none if the look-up was late), and whether the look-up showed an order.
    order: Option<Order>,
    is_ordered: bool,
    is_paused: bool,
    state: Option<State>,
    delayed_until: Option<Millis>,
}

impl Listing {
    fn read(&self) -> Option<Read> {
        let is_looked_up = self.answered_at.is_some() && self.look_up_fault.is_none();
        let is_paused = is_looked_up && self.read.is_paused;
        (is_looked_up || self.is_recalled).then_some(Read { is_paused, ..self.read })
    }

    /// A handler knows what the ledger has about an event, before it looks others up. Its times are by its own clock.
    pub fn is_recalled(&mut self, at: Millis, judged_at: Millis) {
        (self.asked_at, self.judged_at, self.is_recalled) = (Some(at), judged_at, true);
    }

    /// How many milliseconds ago the handler received the answer to its look-up.
    pub fn since_look_up(&self, now: Timestamp) -> Millis {
        self.answered_at.map_or(0, |at| (now - at).num_milliseconds())
    }

    /// Whether the handler has an answer to its look-up. What the call reads after that is read in vain.
    pub fn is_answered(&self) -> bool {
        self.answered_at.is_some()
    }

    /// Whether the handler must drop the message, because it has looked up that the failure was acted on.
    pub fn must_be_dropped(&self) -> bool {
        self.is_done() && self.look_up_fault.is_none()
    }

    /// Whether the handler knows that another one acts on the failure.
    pub fn is_held(&self) -> bool {
        self.read().is_some_and(|read| matches!(read.state, Some(State::Held { .. })))
    }

    /// Whether the handler knows that the failure was acted on.
    pub fn is_done(&self) -> bool {
        self.read().is_some_and(|read| read.state == Some(State::Done))
    }
}

/// A wait that a handler has asked for: the bounds of its end, and whether it is kept as a delay.
#[derive(Clone, Copy)]
pub struct Wait {
    pub after: Millis,
    pub until: Millis,
    pub is_delay: bool,
}

impl Wait {
    /// A wait of `seconds` from `at`. A partial wait ends before the message is due for anything.
    pub fn of(at: Millis, seconds: u32, is_partial: bool, is_delay: bool) -> Self {
        let end = at + i64::from(seconds) * 1000;
        let after = if seconds == 0 { Millis::MIN } else { end - 1000 };
        Self { after, until: if is_partial { Millis::MAX } else { end }, is_delay }
    }

    /// Whether this wait may be until `due`, of which the rest of a millisecond was cut off.
    fn is_until(&self, due: Millis) -> bool {
        self.after <= due && due <= self.until
    }

    /// Whether a wait of `seconds` from `at` may end in the same millisecond.
    pub fn ends_with(&self, at: Millis, seconds: u32) -> bool {
        let other = Self::of(at, seconds, false, false);
        self.after < other.until && other.after < self.until
    }
}

/// Whether no handler acts or has acted on a failure with a claim in this state.
fn is_free(state: State) -> bool {
    matches!(state, State::Noted | State::Waiting)
}

pub fn came_back(record: &SqsMessage) -> bool {
    receive_count(record) > 1 || was_sent_again(record)
}

impl Judge {
    pub fn any_key(&self, of: Of, choices: &mut Choices) -> Key {
        self.key(&self.cases[choices.index(of, "failure", self.cases.len())])
    }

    pub fn has_register(&self, case: &Case) -> bool {
        case.claimed && self.plan.handler_of(case.of.target).has_register
    }

    /// The key of a failure for which there is an order, and until when the order is to be kept.
    pub fn order_of(&self, trace: &str) -> Option<(Key, Timestamp)> {
        let case = &self.cases[self.case_with(trace)?];
        case.order.map(|_| (self.key(case), case.order_until()))
    }

    /// The order for a failure is kept until this time, or has ended.
    pub fn order_lasts(&mut self, trace: &str, until: Option<Timestamp>) {
        let Some(index) = self.case_with(trace) else { return };
        let case = &mut self.cases[index];
        if let Some(until) = until {
            case.is_wanted_until(until);
        } else {
            (case.order, case.is_order_open) = (None, false);
            self.story.tell(self.now, case.of.event, || "its order has ended".to_owned());
        }
    }

    /// An operator's order for a failure was written, in an item that is kept until this time.
    pub fn ordered(&mut self, key: &Key, order: Order, until: Timestamp) {
        let Some(case) = self.cases.iter_mut().find(|case| case.has_key(key, &self.plan)) else {
            return;
        };
        case.order = Some(order);
        case.is_wanted_until(until);
        // If its mark was lost, an event may still be listed although its message is gone.
        case.is_order_open = case.acts == 0;
        self.tally.count(Seen::Step(match order {
            Order::Retry => "orders to retry",
            Order::Cancel => "orders to cancel",
        }));
        self.story.tell(self.now, case.of.event, || format!("an operator orders: {order:?}"));
    }

    pub fn looks_up(&mut self, run: u64, clock: Timestamp, events: &[Key], targets: &[String]) {
        let at = clock.timestamp_millis();
        let Some(batch) = self.runs.get(&run) else { return };
        let case_of = |message: &Delivery| &self.cases[message.case];
        let expected = self.looks_for(batch);
        let may_be_due = |case: &&Case| case.verdict().is_ok_and(|it| at >= case.due_range(it).0);
        let due = batch.iter().map(case_of).filter(may_be_due);
        let due: BTreeSet<&str> = due.map(|case| case.arn(&self.plan)).collect();
        let is_again = batch.iter().any(|message| message.listing.looks_up);
        let has_register = batch.iter().any(|message| self.has_register(case_of(message)));
        // Handlers that count the failures of a target need its circuit also when no message is due.
        let probes = batch.iter().any(|it| self.plan.handler_of(case_of(it).of.target).probes);
        let named: BTreeSet<&str> = batch
            .iter()
            .map(case_of)
            .filter(|case| !case.is_refused)
            .map(|case| case.arn(&self.plan))
            .collect();
        if let Some(target) = targets.iter().find(|target| !named.contains(target.as_str())) {
            let what = format!("run {run} looks up {target}, for which no message may speak");
            self.violated(Check::RefusedCountsForNone, None, what);
            return;
        }
        let asked: BTreeSet<_> = events.iter().cloned().collect();
        let is_right = asked == expected
            && asked.len() == events.len()
            && (probes || targets.iter().all(|target| due.contains(target.as_str())))
            && (!events.is_empty() || !targets.is_empty());
        if is_again || !(has_register || probes) || !is_right {
            let what = format!(
                "run {run} looks up {events:?} and {targets:?}, expected {expected:?} and some of {due:?}"
            );
            self.violated(Check::FewCalls, None, what);
        }
        self.tally.count(Seen::Step("look-ups"));
        for message in self.runs.get_mut(&run).into_iter().flatten() {
            (message.listing.asked_at, message.listing.looks_up) = (Some(at), true);
            message.listing.judged_at = at - (self.now - message.judged_at).num_milliseconds();
        }
    }

    /// The items of events for which a look-up must ask.
    fn looks_for(&self, batch: &[Delivery]) -> BTreeSet<Key> {
        let is_sought = |message: &&Delivery| {
            let is_known = message.is_read() && self.wait_for_note(message, 0).is_none();
            let is_new = !message.listing.is_recalled && came_back(message.record());
            is_known && is_new && self.has_register(&self.cases[message.case])
        };
        let sought = batch.iter().filter(is_sought);
        sought.map(|message| self.key(&self.cases[message.case])).collect()
    }

    /// A look-up reads these items. Those of `current` are up to date, the others may be stale. `is_recall` asks which
    /// runs have failed.
    pub fn reads(
        &mut self,
        run: u64,
        is_recall: bool,
        current: &[&Key],
        found: &BTreeMap<Key, Entered>,
    ) {
        for place in 0..self.runs.get(&run).map_or(0, Vec::len) {
            let message = &self.runs[&run][place];
            let case = &self.cases[message.case];
            let is_paused = !is_recall && self.paused.contains(case.arn(&self.plan));
            let is_known = message.listing.is_recalled;
            let key = if is_recall { self.noted_key(case) } else { self.key(case) };
            let entered = found.get(&key);
            let delayed_until = entered.and_then(|entered| entered.delayed_until);
            let read = Read {
                order: case.order.filter(|_| current.contains(&&key)),
                is_ordered: entered.is_some_and(|entered| entered.known.claim.order.is_some()),
                is_paused,
                state: entered.map(|entered| entered.known.claim.state),
                delayed_until: delayed_until.map(|until| until.timestamp_millis()),
            };
            let is_asking = message.recall == Recall::Asked;
            let message = self.runs.get_mut(&run).and_then(|run| run.get_mut(place));
            let Some(listing) = message.map(|message| &mut message.listing) else { continue };
            match is_recall {
                true if is_asking => listing.read = read,
                true => {}
                false if is_known => listing.read.is_paused = is_paused,
                false => listing.read = read,
            }
        }
    }

    /// A handler reads the runs beside that of a failure, and its own item with them.
    pub fn reads_siblings(&mut self, of: Subject, siblings: &Siblings) {
        let case = &self.cases[of.case];
        let own = siblings.runs.iter().find(|(run, _)| case.request_id == **run);
        let claim = own.map(|(_, known)| &known.claim);
        let (is_paused, delayed_until) = (false, None);
        let read = Read {
            order: case.order,
            is_ordered: claim.is_some_and(|claim| claim.order.is_some()),
            is_paused,
            state: claim.map(|claim| claim.state),
            delayed_until,
        };
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        if let Some(message) = message.filter(|message| message.recall == Recall::Closer) {
            message.listing.read = read;
        }
    }

    pub fn told_of_look_up(&mut self, run: u64, answer: &Answer) {
        let fault = answer.as_ref().err().and_then(|refusal| refusal.kind);
        if answer.is_err() {
            self.learned_nothing(run);
        }
        let known_for = self.meets(run, LEDGER, fault);
        let fault = fault.map(|fault| (fault, known_for));
        for message in self.runs.get_mut(&run).into_iter().flatten() {
            // Without a register, a look-up reads only circuits.
            let handler = self.plan.handler_of(self.cases[message.case].of.target);
            let fault = fault.filter(|_| handler.has_register);
            message.listing.answered_at = Some(self.now);
            message.listing.look_up_fault = fault;
            message.listing.excused |= fault.is_some();
        }
    }

    /// Whether a message must not be invoked, because its target is paused.
    pub fn is_held_back(&self, message: &Delivery) -> bool {
        let listing = &message.listing;
        let is_paused = match listing.read() {
            Some(read) => read.is_paused,
            None => listing.was_paused && listing.look_up_fault.is_none(),
        };
        let case = &self.cases[message.case];
        is_paused && self.has_register(case) && case.order != Some(Order::Retry)
    }

    /// The check, the range in milliseconds from `at` and whether it is mandatory, of a wait that the result of the
    /// look-up demands. From outside, the due time of a message is known only roughly.
    pub fn hold(
        &self,
        run: u64,
        message: &Delivery,
        at: Millis,
    ) -> Option<(Check, (Millis, Millis), bool)> {
        let listing = &message.listing;
        let case = &self.cases[message.case];
        let asked_at = listing.asked_at?;
        // An order that it knows from before the look-up is followed.
        let knows_order = listing.is_recalled && listing.read.is_ordered;
        let soon = |fault| self.soon(message, at, asked_at, fault);
        if let Some(soon) = listing.look_up_fault.filter(|_| !knows_order).and_then(soon) {
            return Some(soon);
        }
        let read = listing.read()?;
        let is_ordered = read.is_ordered || read.order.is_some();
        let is_over = case.verdict().map_or(true, |next| asked_at > next.expiry);
        let due = case.verdict().map(|next| case.due_range(next));
        let (may_act, acts) = due.map_or((true, true), |(earliest, latest)| {
            (asked_at >= earliest || is_ordered, listing.judged_at >= latest || is_ordered)
        });
        // An event that is not due may be the probe.
        let may_be_early = !may_act && self.may_be_early(run, case);
        if read.is_paused && !is_ordered && !is_over && (may_act || may_be_early) {
            let passed = (self.now - listing.answered_at?).num_milliseconds();
            let range = (i64::from(HOP_MIN) * 1000, i64::from(DELAY_MAX) * 1000);
            let (low, high) = self.put_back(message, at - passed, range);
            return Some((Check::PausesHold, (low - passed, high - passed), acts));
        }
        None
    }

    /// The same after a failed look-up: an unread order may exist for a message that was received before.
    fn soon(
        &self,
        message: &Delivery,
        at: Millis,
        asked_at: Millis,
        fault: Met,
    ) -> Option<(Check, (Millis, Millis), bool)> {
        let case = &self.cases[message.case];
        let (earliest, latest) = case.due_range(case.verdict().ok()?);
        if receive_count(message.record()) < 2 || asked_at >= latest {
            return None;
        }
        let passed = (self.now - message.listing.answered_at?).num_milliseconds();
        let (low, high) = self.wait_after_fault(message, at - passed, fault);
        let range = ((low - passed).min(earliest - at), (high - passed).min(latest - at));
        Some((Check::FaultWaits, range, asked_at < earliest))
    }

    /// Why a message must not wait until it is due, if its order says otherwise or was not looked up.
    pub fn ignores_order(&self, message: &Delivery) -> Option<String> {
        let listing = &message.listing;
        if let Some(order) = listing.read().and_then(|read| read.order) {
            return Some(format!("it waits, although the handler was told to {order:?}"));
        }
        let may_have_order =
            self.has_register(&self.cases[message.case]) && came_back(message.record());
        let is_unread = may_have_order && listing.asked_at.is_none();
        is_unread.then(|| "it waits, and the handler did not look for an order".to_owned())
    }

    /// A handler lists an event that waits.
    pub fn lists(&mut self, of: Subject, entry: &Entry) {
        let case = &self.cases[of.case];
        let Some(batch) = self.runs.get(&of.run) else { return };
        let message = &batch[of.place];
        let due = entry.due.timestamp_millis();
        let is_delay = entry.receipt_handle.is_none();
        // A batch may have copies of one message.
        let waits = |other: &Delivery| {
            let wait = other.wait.filter(|wait| wait.is_delay == is_delay && wait.is_until(due));
            other.case == of.case && wait.is_some()
        };
        let has_handle = entry.receipt_handle.as_deref().is_none_or(|it| it == message.handle());
        let is_true = batch.iter().any(waits)
            && has_handle
            && entry.target == case.arn(&self.plan)
            && entry.queue_url.ends_with(&format!("/{}", message.queue()))
            && message.next.as_ref().is_some_and(|(of, attempt)| {
                let id = self.event_id(of).unwrap_or_else(|| case.request_id.to_string());
                entry.event_id == id && entry.attempt == *attempt
            });
        let listing = &message.listing;
        let is_listed = is_delay
            && message.held().is_none()
            && listing.read().and_then(|read| read.delayed_until) == Some(due);
        let wrong = if !is_true {
            let waits: Vec<_> = batch.iter().filter_map(|it| it.wait).map(|it| it.until).collect();
            let what = format!("{entry:?} is listed, due at {due}, with waits until {waits:?}");
            Some((Check::ListsTruly, what))
        } else if !self.has_register(case) || is_listed || listing.writes > listing.changes {
            let (writes, changes) = (listing.writes, listing.changes);
            let what = format!("it is listed, after {writes} writes of which {changes} failed");
            Some((Check::FewCalls, what))
        } else {
            None
        };
        let event = case.of.event;
        if let Some((check, what)) = wrong {
            self.violated(check, event, what);
        }
        self.tally.count(Seen::Step("events listed"));
        if let Some(message) = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place)) {
            message.listing.writes += 1;
        }
    }

    /// A handler received the answer to a write that lists an event.
    pub fn told_of_listing(&mut self, of: Subject, write: &Write, answer: &Answer) {
        let message = self.runs.get_mut(&of.run).and_then(|run| run.get_mut(of.place));
        let (Some(message), Err(refusal)) = (message, answer) else { return };
        // A claim of its own whose write took effect late is replaced, as any other change is.
        let own = message.held().map(|held| held.token.clone());
        let is_own = |there: &Claim| own.as_ref() == Some(&there.token);
        let listing = &mut message.listing;
        let there = refusal.found.as_ref().map(|there| there.as_ref().map(|known| &known.claim));
        match (there, &write.next) {
            (Some(Some(there)), Some(next)) if there.is(next) => {}
            (Some(Some(there)), _) if !is_free(there.state) && !is_own(there) => {
                listing.excused = true;
            }
            (Some(there), _) => {
                listing.changes += 1;
                listing.found_order |= there.is_some_and(|there| there.order.is_some());
            }
            (None, _) => listing.excused = true,
        }
    }

    /// Whether a message waits and is not listed, although nothing prevented it.
    pub fn is_unlisted(&self, message: &Delivery) -> bool {
        let listing = &message.listing;
        let case = &self.cases[message.case];
        let Some(wait) = message.wait.filter(|_| message.put_back || message.copy_accepted) else {
            return false;
        };
        let listed_before = listing.read().and_then(|read| read.delayed_until);
        let is_written = listing.writes > listing.changes || listing.writes == LOOKS_MAX;
        let is_anothers =
            listing.read().and_then(|read| read.state).is_some_and(|state| !is_free(state));
        let is_excused = !message.is_read()
            || self.wait_for_note(message, 0).is_some()
            || listing.excused
            || is_anothers
            || listed_before.is_some_and(|due| wait.is_until(due));
        self.has_register(case) && case.verdict().is_ok() && !is_written && !is_excused
    }

    /// Nothing is left to happen: every order was followed, and no retry cost more writes than allowed.
    pub fn orders_are_followed(&mut self) {
        if let Some(case) = self.cases.iter().find(|case| case.is_order_open) {
            let (event, order) = (case.of.event, case.order);
            let what = format!("the last order for it is lost, and in force is {order:?}");
            self.violated(Check::OrdersFollowed, event, what);
        }
        // One write for each wait, one for the claim and one for the mark.
        let dear = self.cases.iter().find(|case| case.writes > case.receives + 1);
        if let Some(Case { of, writes, receives, .. }) = dear.filter(|_| self.plan.flawless) {
            let what = format!("{writes} writes to the ledger, and only {receives} receives");
            self.violated(Check::FewCalls, of.event, what);
        }
    }
}
