//! The dead-letter queue: who is in it, and how letters leave it.
//!
//! A [`Letter`] is a message as it was received. Its [`Facts`] are the handler's message attributes, or what core reads
//! in a record that SQS moved by itself. A [`Selection`] says which letters an operator means, and an [`Order`] what is
//! done with each.
//!
//! A queue can only be looked at by receiving its messages, which hides them for a time. So [`look`] keeps every letter
//! hidden until it has seen the last one, and then makes all of them visible again at once. [`carry_out`] does the same
//! with letters that stay. A letter is deleted only after Lambda has accepted its event.
//!
//! If the program is killed, all letters that it has not deleted come back by themselves: the worst is that Lambda has
//! accepted the events of one batch whose letters are still there.

mod held;
mod letter;
mod look;
mod order;
mod pointer;
mod ports;
mod selection;
#[cfg(test)]
mod stand_in;
mod work;

pub use letter::{Facts, GroupBy, Letter, Listed, Origin};
pub use look::look;
pub use order::{Action, Left, Order, Plan, Step};
pub use pointer::{NoPlace, Place};
pub use ports::{BATCH_MAX, DeadLetterQueue, Functions, Invocation};
pub use selection::{NO_REASON, Selection, attempts};
pub use work::{Pace, Tally, carry_out};
