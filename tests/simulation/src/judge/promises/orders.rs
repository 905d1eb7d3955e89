//! An operator's order is followed at the next receive of its event, and never lost.

use std::collections::BTreeSet;

use comeback_core::claim::Order;

use super::{Check, Happens, Kept, Promise, broken};
use crate::judge::known::{Delivery, Known, Why, came_back};

/// The cases with an order that nobody has followed yet.
#[derive(Default)]
pub struct Orders(BTreeSet<usize>);

impl Promise for Orders {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            // If its mark was lost, an event may still be listed although its message is gone.
            Happens::Ordered(case) if known.cases[case].acts == 0 => drop(self.0.insert(case)),
            Happens::Ordered(case) | Happens::OrderEnds(case) | Happens::Forgets(case) => {
                self.0.remove(&case);
            }
            Happens::Acts(of, how) => {
                // Nobody can tell whether there is an order for an event whose record can't be read.
                let is_read = known.message(of).is_some_and(Delivery::is_read);
                let is_for_another = known.cases[of.case].order == Some(Order::Cancel) && is_read;
                if !is_for_another || how == "cancelled" {
                    self.0.remove(&of.case);
                }
            }
            Happens::Waits(wait, Why::Step | Why::Down { .. } | Why::Due) => {
                let ignored = known.message(wait.of).and_then(|message| ignores(known, message));
                return ignored.map_or(Ok(()), |what| broken(Check::OrdersFollowed, None, what));
            }
            Happens::Rests => {
                let Some(case) = self.0.first().map(|&case| &known.cases[case]) else {
                    return Ok(());
                };
                let order = case.order;
                let what = format!("the last order for it is lost, and in force is {order:?}");
                return broken(Check::OrdersFollowed, case.of.event, what);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Why a message must not wait until it is due, if its order says otherwise or was not looked up.
fn ignores(known: &Known, message: &Delivery) -> Option<String> {
    let listing = &message.listing;
    if let Some(order) = listing.read().and_then(|read| read.order) {
        return Some(format!("it waits, although the handler was told to {order:?}"));
    }
    let may_have_order =
        known.has_register(&known.cases[message.case]) && came_back(message.record());
    let is_unread = may_have_order && listing.asked_at.is_none();
    is_unread.then(|| "it waits, and the handler did not look for an order".to_owned())
}
