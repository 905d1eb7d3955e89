//! Nothing of a paused target is invoked, unless an operator ordered it.

use comeback_core::claim::Order;

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::known::{Delivery, Known};

#[derive(Default)]
pub struct Pauses;

impl Promise for Pauses {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        let Happens::Invokes(run, Some(of), ..) = happens else { return Ok(()) };
        let is_held_back = known.message(of).is_some_and(|message| is_held_back(known, message));
        ensure(!is_held_back, Check::PausesHold, || format!("run {run} invokes a paused target"))
    }
}

/// Whether a message must not be invoked, because its target is paused.
fn is_held_back(known: &Known, message: &Delivery) -> bool {
    let listing = &message.listing;
    let is_paused = match listing.read() {
        Some(read) => read.is_paused,
        None => listing.was_paused && listing.look_up_fault.is_none(),
    };
    let case = &known.cases[message.case];
    is_paused && known.has_register(case) && case.order != Some(Order::Retry)
}
