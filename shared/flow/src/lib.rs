//! One batch of the retry queue, start to finish.
//!
//! [`batch::Handler::handle`] is the place to start reading. Its phases:
//!
//! 1. *Judge*: `comeback-core` decides about each message. That is an `item`.
//! 2. *Fetch*: failure records that lie in buckets are read, and judged like those in messages (`fetch`). A notice of
//!    several, or of a batch that is too large for one invocation, is replaced by one for each of them (`split`).
//! 3. *Recall*: what the ledger says about retries that had no envelope replaces what an envelope would say (`recall`).
//! 4. *Look*: one call reads what the ledger's table has about these events and their targets (`register`).
//! 5. *Steer*: an operator's orders and the circuits of targets that are down change the decisions (`register`,
//!    `probes`). An item with the decision about it is a `task`; only tasks are carried out.
//! 6. *Carry out*: the targets of due messages are invoked (`act`). Waiting messages are put back, dead letters are
//!    sent, and queues get their messages back, in calls of up to ten (`settle`). All of this runs concurrently, within
//!    the time that the invocation has left.
//! 7. *Follow up*: CloudWatch is asked about targets, and events are brought forward (`probes`).
//! 8. *Report*: every message is done, or it stays in the queue.
//!
//! A phase returns what goes on to the next one and what is done (`phase`). An item doesn't change: what comes of it is
//! told to `results`.
//!
//! Without a ledger there is nothing to look at, to steer or to follow up. With one, each failure is claimed before it
//! is acted on and marked after (`claims`).
//!
//! All calls go through [`ports`], and so does the clock, so this crate runs the same against AWS and in a simulation's
//! virtual time.

mod act;
mod answers;
pub mod batch;
mod budget;
mod claims;
mod faults;
mod fetch;
mod held;
pub mod in_flight;
mod item;
mod log;
pub mod memory;
mod message;
pub mod metrics;
pub mod outages;
mod phase;
pub mod ports;
mod probes;
mod recall;
mod register;
pub mod report;
mod results;
mod run;
mod sends;
mod settle;
mod settlements;
mod split;
mod task;
