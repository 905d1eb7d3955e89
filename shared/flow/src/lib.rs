//! One batch of the retry queue, start to finish.
//!
//! The story of a batch is [`batch::Handler::handle`]: every message is *judged* by `comeback-core`;
//! what waits and what is given up goes out in batches of ten, what is due is invoked, all of it at
//! the same time and inside the time that the invocation has left; at the end every message is
//! *reported*, as done or as one that stays in the queue.
//!
//! Where there is a ledger, each failure is claimed before it is acted on and marked after (`once`).
//!
//! The calls themselves are [`ports`], and so is the clock: this crate runs the same against AWS and
//! in a simulation's virtual time.

pub mod batch;
mod budget;
mod chunks;
mod item;
mod log;
mod message;
pub mod metrics;
mod once;
pub mod ports;
pub mod report;
mod settlements;
