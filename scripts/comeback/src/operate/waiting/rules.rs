//! The waiting events, and an operator's orders for them.
//!
//! [`visit()`] reads the register: the events of some functions by due time, or all events in no order. [`carry_out`]
//! writes orders to retry events now or to cancel them. The handler carries an order out, unless it has already acted
//! on the event.

mod event;
mod order;
mod ports;
mod selection;
#[cfg(test)]
mod stand_in;
mod visit;

pub use event::{GroupBy, Listed, of_life};
pub use order::{Plan, Tally, carry_out, pause_done};
pub use ports::{Page, Partition, Register, SHOWN_MAX};
pub use selection::Selection;
pub use visit::visit;
