//! One invocation of the handler.

use comeback_core::Timestamp;

/// What the phases of a batch share: the invocation of the handler in which they run, its clock and its ledger.
pub(crate) struct Run<'h, L, C> {
    /// The request id of the invocation, which is unique.
    pub(crate) id: &'h str,
    /// When Lambda kills it.
    pub(crate) deadline: Timestamp,
    pub(crate) clock: &'h C,
    pub(crate) ledger: Option<&'h L>,
    /// Whether events that wait are listed in the ledger's table.
    pub(crate) registers: bool,
}
