//! The events that wait, and what an operator orders for them.
//!
//! [`visit`] reads the register, of some functions in the order of their due times or of all in no order.
//! [`carry_out`] writes orders: retry now, or cancel. The handler has the last word. It acts on an order if it has not
//! acted on the event before.

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
