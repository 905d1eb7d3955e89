//! One batch of the retry queue, start to finish.
//!
//! [`batch::Handler::handle`] is the place to start reading. `comeback-core` *judges* every message. Then waiting
//! messages are put back and dead letters are sent, in calls of up to ten, and the targets of due messages are invoked.
//! All of this runs concurrently, within the time that the invocation has left. At the end every message is *reported*:
//! it is done, or it stays in the queue.
//!
//! Three parts are optional. With a ledger, each failure is claimed before it is acted on and marked after (`claims`).
//! With the register, waiting events are listed, and an operator's orders override the decisions (`register`). With
//! probes, a target that is down is tried with one event at a time (`probes`).
//!
//! All calls go through [`ports`], and so does the clock, so this crate runs the same against AWS and in a simulation's
//! virtual time.

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
