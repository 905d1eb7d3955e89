//! One process that is SQS and Lambda on loopback, for trying and for testing.
//!
//! It runs real, unmodified function binaries behind the Lambda Runtime API, and any AWS SDK or the
//! AWS CLI can talk to it. The life of one event passes through it like this: a request comes in at
//! the `server`, which checks that it is one of AWS's and hands it to the `api` of its service. That
//! reads it and makes one step on the [`model`], which holds every rule: queues, the asynchronous
//! queue, retries, destinations, mappings, concurrency. The model says which functions are to run
//! now; the `host` runs them as child processes and tells the model how they ended. What happened
//! on the way is written into the [`journal`].
//!
//! The model is pure: time and randomness are arguments, so that a simulation can drive it in
//! virtual time. Everything else is a thin shell, and only [`start`]'s side of it reads the clock.
//!
//! Nothing here is durable or secured: it listens on loopback only and forgets everything at its end.

mod api;
mod clock;
pub mod journal;
pub mod model;
mod server;

pub use server::{Config, Server, start};
