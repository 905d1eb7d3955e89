//! What handlers learn from the register, what they write there, and operators' orders.

use std::collections::BTreeMap;

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Timestamp,
    claim::{Claim, Order, State},
    lineage::{Key, Siblings},
};
use comeback_flow::ports::Entered;
use wire::{Answer, Write};

use super::{
    Known, Subject,
    cases::Case,
    delays::was_sent_again,
    deliveries::{Met, receive_count},
    faults::LEDGER,
    recall::Recall,
};
use crate::{
    choices::{Choices, Of},
    policy::Millis,
    seen::Seen,
};

/// How often a handler looks at an item that keeps changing. After that it counts as a transient fault.
pub const LOOKS_MAX: u32 = 3;

/// What a handler knows from the register about a message, and what it has written there.
#[derive(Default)]
pub struct Listing {
    pub was_paused: bool,
    /// When the handler began its look-up and, before that, judged the message, both by its own clock; and when it
    /// received the answer.
    pub asked_at: Option<Millis>,
    pub judged_at: Millis,
    /// Whether it has looked the events of its batch up, and when it received the answer; and whether it knows from
    /// before what the ledger has about this one.
    pub looks_up: bool,
    pub answered_at: Option<Timestamp>,
    pub is_recalled: bool,
    /// The result of the look-up, and its fault if it failed.
    pub read: Read,
    pub look_up_fault: Option<Met>,
    /// Whether the handler needn't list the message: a call to the ledger failed, or another handler acts on it.
    pub excused: bool,
    /// How often the handler wrote the item, and how often it found another item than expected.
    pub writes: u32,
    pub changes: u32,
    pub found_order: bool,
}

/// What a look-up has shown about a message.
#[derive(Clone, Copy, Default)]
pub struct Read {
    /// The order in force (none if the look-up was late), and whether the look-up showed an order.
    pub order: Option<Order>,
    pub is_ordered: bool,
    pub is_paused: bool,
    pub state: Option<State>,
    pub delayed_until: Option<Millis>,
}

impl Listing {
    pub fn read(&self) -> Option<Read> {
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
    pub fn is_until(&self, due: Millis) -> bool {
        self.after <= due && due <= self.until
    }

    /// Whether a wait of `seconds` from `at` may end in the same millisecond.
    pub fn ends_with(&self, at: Millis, seconds: u32) -> bool {
        let other = Self::of(at, seconds, false, false);
        self.after < other.until && other.after < self.until
    }
}

/// Whether no handler acts or has acted on a failure with a claim in this state.
pub fn is_free(state: State) -> bool {
    matches!(state, State::Noted | State::Waiting)
}

pub fn came_back(record: &SqsMessage) -> bool {
    receive_count(record) > 1 || was_sent_again(record)
}

impl Known {
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

    /// The order for a failure is kept until this time, or has ended. Returns its case.
    pub fn order_lasts(&mut self, trace: &str, until: Option<Timestamp>) -> Option<usize> {
        let index = self.case_with(trace)?;
        let case = &mut self.cases[index];
        if let Some(until) = until {
            case.is_wanted_until(until);
        } else {
            case.order = None;
            self.story.tell(self.now, case.of.event, || "its order has ended".to_owned());
        }
        Some(index)
    }

    /// An operator's order for a failure was written, in an item that is kept until this time. Returns its case.
    pub fn ordered(&mut self, key: &Key, order: Order, until: Timestamp) -> Option<usize> {
        let index = self.cases.iter().position(|case| case.has_key(key, &self.plan))?;
        let case = &mut self.cases[index];
        case.order = Some(order);
        case.is_wanted_until(until);
        self.tally.count(Seen::Step(match order {
            Order::Retry => "orders to retry",
            Order::Cancel => "orders to cancel",
        }));
        self.story.tell(self.now, case.of.event, || format!("an operator orders: {order:?}"));
        Some(index)
    }

    /// A handler looks up what the register has about its batch.
    pub fn looks_up(&mut self, run: u64, at: Millis) {
        self.tally.count(Seen::Step("look-ups"));
        for message in self.runs.get_mut(&run).into_iter().flatten() {
            (message.listing.asked_at, message.listing.looks_up) = (Some(at), true);
            message.listing.judged_at = at - (self.now - message.judged_at).num_milliseconds();
        }
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
        for place in 0..self.batch(run).len() {
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
            let message = self.message_mut(run, place);
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
        let message = self.message_mut(of.run, of.place);
        if let Some(message) = message.filter(|message| message.recall == Recall::Closer) {
            message.listing.read = read;
        }
    }

    /// A handler has learned what the register has about its batch, or failed to.
    pub fn told_of_look_up(&mut self, run: u64, answer: &Answer) {
        let fault = answer.as_ref().err().and_then(|refusal| refusal.kind);
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

    /// A handler lists an event that waits.
    pub fn lists(&mut self, of: Subject) {
        self.tally.count(Seen::Step("events listed"));
        if let Some(message) = self.message_mut(of.run, of.place) {
            message.listing.writes += 1;
        }
    }

    /// A handler received the answer to a write that lists an event.
    pub fn told_of_listing(&mut self, of: Subject, write: &Write, answer: &Answer) {
        let message = self.message_mut(of.run, of.place);
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
}
