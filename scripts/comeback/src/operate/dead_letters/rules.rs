//! The dead-letter queue: finds letters in it, and redrives or deletes them.
//!
//! The only way to read a queue is to receive its messages, which hides them for a while. So [`look()`] keeps every
//! letter hidden until it has seen the last one that was sent before it began, and then makes all of them visible again
//! immediately. [`carry_out`] does the same with letters that stay. A redriven letter is deleted only after Lambda has
//! accepted its event.
//!
//! If the program is killed, all letters that it has not deleted become visible again by themselves. At worst, Lambda
//! has accepted the events of the current batches ([`Pace::batches`]), but their letters are still in the queue.

mod hold;
pub mod letter;
mod look;
mod order;
mod pointer;
mod port;
mod selection;
#[cfg(test)]
mod stand_in;
mod tally;
mod work;

pub use crate::operate::dead_letters::rules::{
    letter::{Facts, GroupBy, Letter, Listed},
    look::{hold, look},
    order::{Action, Call, Order, Redrive, Step},
    pointer::PointerValue,
    port::DeadLetterQueue,
    selection::{Selection, reasons},
    tally::{Plan, Tally},
    work::{Pace, WORK_HOLD, carry_out},
};
