//! One batch of the retry queue, start to finish.
//!
//! [`batch::Handler::handle`] is the place to start reading. Its phases:
//!
//! 1. *Judge*: `comeback-core` decides about each message.
//! 2. *Look*: one call reads what the ledger's table has about these events and their targets (`register`).
//! 3. *Steer*: an operator's orders and the circuits of targets that are down change the decisions (`register`,
//!    `probes`).
//! 4. *Carry out*: waiting messages are put back and dead letters are sent, in calls of up to ten, and the targets of
//!    due messages are invoked. All of this runs concurrently, within the time that the invocation has left.
//! 5. *Follow up*: CloudWatch is asked about targets, and events are brought forward (`probes`).
//! 6. *Report*: every message is done, or it stays in the queue.
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
pub mod in_flight;
mod item;
mod log;
pub mod memory;
mod message;
pub mod metrics;
pub mod outages;
pub mod ports;
mod probes;
mod register;
pub mod report;
mod sends;
mod settlements;

use comeback_core::Timestamp;

use crate::{outages::Outages, ports::Clock};

/// What the phases of a batch share: the invocation of the handler in which they run, its clock and its ledger.
pub(crate) struct Run<'h, L, C> {
    /// The request id of the invocation, which is unique.
    pub(crate) id: &'h str,
    /// When Lambda kills it.
    pub(crate) deadline: Timestamp,
    /// From this time on it acts on no further message.
    pub(crate) acts_until: Timestamp,
    pub(crate) clock: &'h C,
    pub(crate) ledger: Option<&'h L>,
    pub(crate) outages: &'h Outages,
    /// Whether events that wait are listed in the ledger's table.
    pub(crate) registers: bool,
}

impl<L, C: Clock> Run<'_, L, C> {
    /// Whether it is too late to act on a message. An act whose answer is cut off may have taken effect, and its
    /// message would come back all the same.
    pub(crate) fn is_late(&self) -> bool {
        self.clock.now() >= self.acts_until
    }
}
