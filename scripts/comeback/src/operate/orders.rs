//! The orders that the page and agents give, too.

use super::{
    dead_letters::order::{Purge, Redrive},
    order::{Kind, Noun, Selects},
    waiting::{
        order::{Cancel, RetryNow},
        pause::{Pause, Resume},
    },
};

/// What a face does with each order.
pub trait Face {
    fn order<O: Selects>(&mut self);
}

/// Shows a face all orders. A new order has a line here.
pub fn each(face: &mut impl Face) {
    face.order::<RetryNow>();
    face.order::<Cancel>();
    face.order::<Redrive>();
    face.order::<Purge>();
    face.order::<Pause>();
    face.order::<Resume>();
}

/// The kinds of the orders for events, letters or targets, as they are on every face.
pub fn kinds(noun: Noun) -> Vec<&'static Kind> {
    let mut kinds = Kinds::default();
    each(&mut kinds);
    kinds.0.retain(|kind| kind.noun == noun);
    kinds.0
}

#[derive(Default)]
struct Kinds(Vec<&'static Kind>);

impl Face for Kinds {
    fn order<O: Selects>(&mut self) {
        self.0.push(const { &O::KIND });
    }
}
