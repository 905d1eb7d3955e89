//! One batch of the retry queue, start to finish.
//!
//! [`batch::Handler::handle`] is the place to start reading. Its phases:
//!
//! 1. *Judge*: `comeback-core` decides about each message. That is an `item`.
//! 2. *Fetch*: failure records that lie in buckets are read, and judged like those in messages (`fetch`). A notice of
//!    several is replaced by one for each (`split`).
//! 3. *Recall*: what the ledger says about retries that had no envelope replaces what an envelope would say (`recall`).
//! 4. *Look*: one call reads what the ledger's table has about these events and their targets (`register`).
//! 5. *Steer*: an operator's orders and the circuits of targets that are down change the decisions (`register`,
//!    `probes`). An item with the decision about it is a `task`; only tasks are carried out.
//! 6. *Carry out*: waiting messages are put back and dead letters are sent, in calls of up to ten (`settle`), and the
//!    targets of due messages are invoked. All of this runs concurrently, within the time that the invocation has left.
//! 7. *Follow up*: CloudWatch is asked about targets, and events are brought forward (`probes`).
//! 8. *Report*: every message is done, or it stays in the queue.
//!
//! Without a ledger there is nothing to look at, to steer or to follow up. With one, each failure is claimed before it
//! is acted on and marked after (`claims`).
//!
//! All calls go through [`ports`], and so does the clock, so this crate runs the same against AWS and in a simulation's
//! virtual time.

mod answers;
pub mod batch;
mod budget;
mod claims;
mod fetch;
mod held;
pub mod in_flight;
mod item;
mod log;
pub mod memory;
mod message;
pub mod metrics;
pub mod outages;
pub mod ports;
mod probes;
mod recall;
mod register;
pub mod report;
mod run;
mod sends;
mod settle;
mod settlements;
mod split;
mod task;
