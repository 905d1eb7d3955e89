//! The waiting events, and an operator's orders for them.
//!
//! [`visit()`] reads the register: the events of some functions by due time, or all events in no order. [`carry_out`]
//! writes orders to retry events now or to cancel them. The handler carries an order out, unless it has already acted
//! on the event.

mod event;
mod held;
mod order;
pub mod pauses;
mod port;
#[cfg(test)]
pub mod stand_in;
mod tally;
mod visit;

pub use crate::operate::waiting::rules::{
    event::{GroupBy, Listed, Selection, of_life},
    order::carry_out,
    port::{Page, Partition, Register},
    tally::{Plan, Tally},
    visit::visit,
};
