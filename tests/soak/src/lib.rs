//! Many events through the whole system, real processes all, while its handlers are killed at random.
//!
//! Events fail, each in the way that its number says ([`fate`]), and are fed in as fast as they come
//! to their ends. Meanwhile a [`killer`] ends handlers by SIGKILL, in the middle of whatever they do,
//! and the processes' [`memory`] is looked at. What becomes of each event is read from the journal of
//! the local cloud and from the dead-letter queue, and counted ([`tally`]). The [`run`] is over when
//! every event has come to an end and nothing is left in any queue; what has not by then is lost. The
//! [`report`] has the figures.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test: to stop is to report")]

pub mod fate;
pub mod killer;
pub mod memory;
pub mod report;
pub mod run;
pub mod tally;
