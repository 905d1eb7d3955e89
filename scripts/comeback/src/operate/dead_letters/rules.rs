//! The dead-letter queue: finds letters in it, and redrives or deletes them.
//!
//! A [`Letter`] is a received message. Its facts come from the handler's message attributes or, if SQS itself moved
//! the message, from its failure record. A [`Selection`] filters letters, and an [`Order`] decides what is done with
//! each.
//!
//! The only way to read a queue is to receive its messages, which hides them for a while. So [`look()`] keeps every
//! letter hidden until it has seen the last one that was sent before it began, and then makes all of them visible again
//! immediately. [`carry_out`] does the same with letters that stay. A redriven letter is deleted only after Lambda has
//! accepted its event.
//!
//! If the program is killed, all letters that it has not deleted become visible again by themselves. At worst, Lambda
//! has accepted the events of the current batches ([`Pace::batches`]), but their letters are still in the queue.

mod letter;
mod look;
mod order;
mod selection;
#[cfg(test)]
mod stand_in;
mod work;

pub use crate::operate::dead_letters::rules::{
    letter::{GroupBy, Letter, Listed, NO_REASON},
    look::{DeadLetterQueue, Redrive, Targets, hold, look},
    order::{Action, Order, Plan, StayReason, Step},
    selection::{PointerValue, Selection, attempts},
    work::{Pace, Tally, WORK_HOLD, carry_out},
};
