//! Sends many events through the whole system, with real processes, while handlers are killed at random.
//!
//! Each event fails in the way that its number says ([`fate`]). New events are sent as fast as earlier ones end.
//! Meanwhile handlers are killed with SIGKILL at any point of their work, and the [`memory`] of the processes is
//! measured. The outcome of each event is read from the local cloud's journal and the dead-letter queue, and counted
//! ([`tally`]). The [`run`] ends when every event has ended and the queues are empty. An event that has not ended by
//! then is lost. The module `report` prints the figures.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports a failure by a panic")]

pub mod fate;
pub mod memory;
mod report;
pub mod run;
pub mod tally;
