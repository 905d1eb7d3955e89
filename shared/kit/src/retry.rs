//! Retry inside a function.

mod deadline;
mod policy;

pub use comeback_core::backoff::Jitter;

pub use self::{
    deadline::{BadDeadline, Deadline},
    policy::{BadPolicy, Policy, PolicyBuilder, PolicyFault},
};
