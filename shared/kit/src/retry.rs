//! Retry inside a function.

mod adaptive;
mod deadline;
mod policy;
mod quota;

pub use comeback_core::backoff::Jitter;

pub use self::{
    adaptive::Adaptive,
    deadline::{BadDeadline, Deadline},
    policy::{BadPolicy, Policy, PolicyBuilder, PolicyFault},
    quota::{Quota, Spent},
};
