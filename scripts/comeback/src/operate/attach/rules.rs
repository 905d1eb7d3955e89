//! Attaches functions that no template manages, so that their failures are retried, and detaches them again.
//!
//! The plan is a function of the facts. Its steps only add what is still missing, so after an interruption a new
//! plan continues where the old one stopped. The destination is set last when a function is attached, and restored
//! first when it is detached, so no failure reaches the queue before everything is ready for it.
//!
//! Functions are only attached to existing retry queues. A new queue would need a policy, a mapping and permissions for
//! the handler, and could not be deleted without losing the events that wait in it. Creating one is a template's job. A
//! queue whose consumer fails gets a retry queue of its own, because only that queue may have messages moved there.

pub mod admission;
pub mod carry_out;
mod choice;
pub mod deliveries;
pub mod facts;
pub mod functions;
pub mod order;
pub mod plan;
mod policies;
pub mod queues;
mod records;
pub mod refusal;
pub mod sender;
mod settings;
pub mod steps;
mod streams;
#[cfg(test)]
mod tests;
