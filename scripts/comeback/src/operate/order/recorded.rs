//! Carries an order out, with a record of it. Every face does it here: [`Work::carry_out`] asks for what only the
//! logbook can give.

use super::{Tally as _, Work};

use crate::{
    failure::Failure,
    operate::logbook::{
        self, Order,
        rules::{Ended, Outcome, Through},
    },
};

/// `planned` is the number of items, if there was a plan. An order whose record can't be written is not carried out.
pub async fn carry_out<W: Work>(
    order: &W,
    through: Through,
    planned: Option<u64>,
    mut goes_on: impl FnMut(&W::Tally) -> bool + Send,
) -> (W::Tally, Result<(), Failure>) {
    let filter = order.filter().into_iter().map(|(name, value)| (name.to_owned(), value));
    let given = Order { name: W::KIND.name, through, filter: filter.collect(), planned };
    let begun = match logbook::begin(order.ledger(), given).await {
        Ok(begun) => begun,
        Err(failure) => return (W::Tally::default(), Err(failure)),
    };
    let mut goes_on_still = true;
    let carried_out = order.carry_out(&begun, |tally| {
        goes_on_still = goes_on(tally);
        goes_on_still
    });
    let (tally, result) = carried_out.await;
    // Some faces end an order after the last item that was planned.
    let is_stopped = !goes_on_still && planned.is_none_or(|planned| tally.tried() < planned);
    let outcome = match &result {
        Err(_) => Outcome::Failed,
        Ok(()) if is_stopped => Outcome::Stopped,
        Ok(()) if tally.is_stuck() => Outcome::Incomplete,
        Ok(()) => Outcome::Done,
    };
    let (done, error) = (tally.done(), result.as_ref().err().map(ToString::to_string));
    let ended = begun.end(|at| Ended { at, outcome, done, error }).await;
    (tally, result.and(ended))
}
