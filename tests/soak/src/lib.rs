//! Sends many events through the whole system, with real processes, while handlers are killed at random.
//!
//! Each event fails in the way that its number says ([`fate`]). New events are sent as fast as earlier ones end.
//! Meanwhile handlers are killed with SIGKILL, whatever they are doing, and the [`memory`] of the processes is
//! measured. What becomes of each event is read from the journal of the local cloud and from the dead-letter
//! queue, and counted ([`tally`]). The [`run`] is over when every event has ended and no queue has a message left.
//! An event that has not ended by then is lost. The [`report`] prints the figures.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports a failure by a panic")]

pub mod fate;
pub mod memory;
pub mod report;
pub mod run;
pub mod tally;
