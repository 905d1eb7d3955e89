//! What is to be done about one message, once the ledger's table was looked at.

use comeback_core::{
    claim::{Claim, Order},
    decision::{Decision, Settlement},
    register::apply_order,
};

use crate::{item::Item, ports::Entered, report::Obstacle};

/// An item, and the decision about it. An operator's order and the circuit of its target may have changed the decision.
pub(crate) struct Task<'a> {
    pub(crate) item: &'a Item<'a>,
    /// What the ledger's table has about the event.
    pub(crate) entered: Option<&'a Entered>,
    /// What kept the table from being read or written.
    pub(crate) obstacle: Option<Obstacle>,
    /// The decision, before an operator's order for the event is applied.
    decision: Decision,
}

impl<'a> Task<'a> {
    /// The task as the message alone has it, with what the table has about its event.
    pub(crate) fn of(item: &'a Item<'a>, entered: Option<&'a Entered>) -> Self {
        Self { item, entered, obstacle: None, decision: item.judgement.decision }
    }

    /// The decision, after an operator's order for the event.
    pub(crate) fn decision(&self) -> Decision {
        apply_order(self.decision, self.order())
    }

    /// The decision once this claim is held, with an operator's order in it.
    pub(crate) fn decision_under(&self, claim: &Claim) -> Decision {
        apply_order(self.decision, claim.order)
    }

    /// An operator's order for the event. Once the failure is claimed, the order in the claim counts, because the
    /// operator may have changed it since the batch has read it.
    pub(crate) fn order(&self) -> Option<Order> {
        if let Some(held) = self.item.held() {
            return held.claim.order;
        }
        let found = self.entered.map(|entered| &entered.known.claim);
        found.filter(|claim| !claim.is_expired(self.item.judged_at))?.order
    }

    /// The same task with this obstacle, unless it has one: the first is the cause of the others.
    #[must_use]
    pub(crate) fn with_obstacle(self, obstacle: Option<Obstacle>) -> Self {
        Self { obstacle: self.obstacle.or(obstacle), ..self }
    }

    #[must_use]
    pub(crate) fn decided(self, decision: Decision) -> Self {
        Self { decision, ..self }
    }

    /// The same task, but if it is to wait, no longer than this.
    #[must_use]
    pub(crate) fn waiting_at_most(self, settlement: Settlement) -> Self {
        match shorter(self.decision(), settlement) {
            Some(decision) => self.decided(decision),
            None => self,
        }
    }
}

/// The shorter of two waits, or `None` if they are not both waits.
pub(crate) fn shorter(decision: Decision, settlement: Settlement) -> Option<Decision> {
    if let (Decision::Settle(Settlement::Wait { until: longest }), Settlement::Wait { until }) =
        (decision, settlement)
    {
        return Some(Decision::Settle(Settlement::Wait { until: until.min(longest) }));
    }
    None
}
