//! One batch of the retry queue, start to finish.
//!
//! [`batch::Handler::handle`] is the place to start reading. `comeback-core` *judges* every message. Messages that
//! wait and dead letters go out in batches of ten, and due messages are invoked, all at the same time and within
//! the time that the invocation has left. At the end every message is *reported*: it is done, or it stays in the
//! queue.
//!
//! Three parts are optional. With a ledger, each failure is claimed before it is acted on and marked after (`claims`).
//! With the register, events that wait are listed there, and an operator's orders change what is done (`register`).
//! With probes, a target that is down is tried one event at a time (`probes`).
//!
//! The calls themselves are [`ports`], and so is the clock: this crate runs the same against AWS and in a
//! simulation's virtual time.

pub mod batch;
mod budget;
mod chunks;
mod claims;
pub mod in_flight;
mod item;
mod log;
pub mod memory;
mod message;
pub mod metrics;
pub mod ports;
mod probes;
mod register;
pub mod report;
mod settlements;
