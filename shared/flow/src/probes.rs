//! Probes targets that are down with one event at a time, and resumes their retries slowly.
//!
//! The rules are in `core::circuit`. A handler keeps in memory the counts of a target that it has not reported yet. If
//! a batch has due events of a target, failed retries, or events that came back early, the handler reads the circuit,
//! takes a step, and writes the circuit if it has changed. If another handler has written it meanwhile, the step is
//! taken again. From the time on at which a circuit's next step is due, any event of the target makes the handler look.
//!
//! Nothing runs by itself. So some of the events that are held back wait only until the next step, and take it. With a
//! register, a ramp also brings forward the events that it may retry.

mod circuits;
mod follow_up;
mod group;
mod steps;

pub(crate) use self::{
    follow_up::{conclude, follow_up},
    steps::{probed, take_steps},
};
