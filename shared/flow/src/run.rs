//! What the phases of a batch share.

use comeback_core::{Timestamp, arn::Home};

use crate::{memory::CircuitMemory, outages::Outages, ports::Clock, results::Results};

/// The invocation of the handler in which a batch is handled.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Its request id, which is unique.
    pub request_id: &'a str,
    /// The handler's own account and region.
    pub home: &'a Home,
    /// When Lambda kills it.
    pub deadline: Timestamp,
}

/// The invocation of the handler in which a batch is handled, its clock, and its ledger, if there is one.
pub(crate) struct Run<'h, L, C> {
    pub(crate) context: &'h Context<'h>,
    /// From this time on it acts on no further message.
    pub(crate) acts_until: Timestamp,
    pub(crate) clock: &'h C,
    pub(crate) ledger: Option<&'h L>,
    pub(crate) outages: &'h Outages,
    /// Whether events that wait are listed in the ledger's table.
    pub(crate) registers: bool,
    /// What the handler remembers about circuits, if it probes targets.
    pub(crate) circuits: Option<&'h CircuitMemory>,
    /// Where it is told what has come of each message.
    pub(crate) results: &'h Results,
}

impl<L, C: Clock> Run<'_, L, C> {
    /// Whether it is too late to act on a message. An act whose answer is cut off may have taken effect, and its
    /// message would come back all the same.
    pub(crate) fn is_late(&self) -> bool {
        self.clock.now() >= self.acts_until
    }
}
