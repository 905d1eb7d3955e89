//! What orders have in common that carry out steps one after the other. Only the terminal gives such orders.

use super::{Effect, Kind, Noun, Plan, Tally};

pub const STEPS: Kind = Kind {
    name: "",
    title: "{}",
    button: "",
    noun: Noun::Step,
    done: "carried out",
    effect: Effect::Sets,
    undo: None,
    agent: None,
};

/// The number of steps.
pub struct Steps(pub u64);

impl Plan for Steps {
    fn number(&self) -> u64 {
        self.0
    }
}

/// The steps that were carried out.
pub struct Done<T>(pub Vec<T>);

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Send> Tally for Done<T> {
    fn done(&self) -> u64 {
        self.0.len() as u64
    }

    fn tried(&self) -> u64 {
        self.done()
    }

    /// A step that fails is an error.
    fn is_stuck(&self) -> bool {
        false
    }
}
