//! What is to be done about one message, once the ledger's table was looked at.

use comeback_core::{
    claim::{Claim, Order},
    decision::{Decision, Settlement},
    register::apply_order,
};

use crate::{
    held::Held,
    item::Item,
    ports::Entered,
    report::{Obstacle, Outcome},
    run::Run,
};

/// An item, and the decision about it. An operator's order and the circuit of its target may have changed the decision.
pub(crate) struct Task<'a> {
    pub(crate) item: &'a Item<'a>,
    /// What the ledger's table has about the event.
    pub(crate) entered: Option<&'a Entered>,
    /// What kept its record from being read, or the table from being read or written.
    pub(crate) obstacle: Option<Obstacle>,
    /// The decision, before an operator's order for the event is applied.
    decision: Decision,
}

impl<'a> Task<'a> {
    /// The task as the message alone has it, with what the table has about its event.
    pub(crate) fn of(item: &'a Item<'a>, entered: Option<&'a Entered>) -> Self {
        Self { item, entered, obstacle: item.obstacle, decision: item.judgement.decision }
    }

    /// The decision, after an operator's order for the event.
    pub(crate) fn decision(&self) -> Decision {
        apply_order(self.decision, self.order())
    }

    /// The decision once this claim is held. The order in the claim counts, because the operator may have changed it
    /// since the batch has read it.
    pub(crate) fn decision_under(&self, claim: &Claim) -> Decision {
        apply_order(self.decision, claim.order)
    }

    /// An operator's order for the event, as the batch has read it.
    pub(crate) fn order(&self) -> Option<Order> {
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

/// A task that is carried out.
#[derive(Clone)]
pub(crate) struct Act<'a> {
    pub(crate) task: &'a Task<'a>,
    /// The claim under which it is carried out. There is none without a ledger, or if nothing is retried or given up.
    pub(crate) held: Option<Held>,
    /// The first obstacle that it has met, if any.
    pub(crate) obstacle: Option<Obstacle>,
}

impl<'a> Act<'a> {
    /// The act without a claim.
    pub(crate) fn of<L, C>(task: &'a Task<'a>, run: &Run<'_, L, C>) -> Self {
        Self { task, held: None, obstacle: None }.hindered(task.obstacle, run)
    }

    pub(crate) fn item(&self) -> &'a Item<'a> {
        self.task.item
    }

    /// The decision, after the order in the claim.
    pub(crate) fn decision(&self) -> Decision {
        match &self.held {
            Some(held) => self.task.decision_under(&held.claim),
            None => self.task.decision(),
        }
    }

    /// The same act, which has met this obstacle. The first is the cause of the others.
    #[must_use]
    pub(crate) fn hindered<L, C>(self, obstacle: Option<Obstacle>, run: &Run<'_, L, C>) -> Self {
        run.results.meet(self.task.item, obstacle);
        Self { obstacle: self.obstacle.or(obstacle), ..self }
    }

    /// Ends the message, because it was invoked or given up. The claim is still to be marked.
    pub(crate) fn end<L, C>(&self, outcome: Outcome, run: &Run<'_, L, C>) {
        match self.held {
            Some(_) => run.results.end_unmarked(self.task.item, outcome),
            None => run.results.end(self.task.item, outcome),
        }
    }
}
