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

/// A step that was tried.
pub trait Step: Send {
    fn has_failed(&self) -> bool {
        false
    }
}

/// A step by its name, in an order that ends with the first that fails.
impl Step for String {}

/// The steps that were tried.
pub struct Done<T>(pub Vec<T>);

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Step> Tally for Done<T> {
    fn done(&self) -> u64 {
        self.0.iter().filter(|step| !step.has_failed()).count() as u64
    }

    fn tried(&self) -> u64 {
        self.0.len() as u64
    }

    fn is_stuck(&self) -> bool {
        self.0.iter().any(Step::has_failed)
    }
}
