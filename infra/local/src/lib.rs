//! One process that is SQS and Lambda on loopback, for trying and for testing.
//!
//! It runs real, unmodified function binaries behind the Lambda Runtime API, and any AWS SDK or the
//! AWS CLI can talk to it. The life of one event passes through it like this. A request comes in at
//! the `gate`, which checks that it may, and hands it to the `api` of its service. That reads it and
//! makes one step on the [`model`], which holds every rule: queues, the asynchronous queue, retries,
//! destinations, mappings, concurrency. The model says which functions are to run now; the `host`
//! runs them as child processes, and tells the model how they ended. What happened on the way is
//! written into the [`journal`].
//!
//! The model is pure: time and randomness are arguments, so that a simulation can drive it in
//! virtual time. Everything else is a thin shell around it, held together by the `server`.
//!
//! Nothing here is durable or secured: it listens on loopback only, takes any key for a signature,
//! and forgets everything at its end.

mod api;
mod clock;
mod gate;
mod host;
pub mod journal;
pub mod model;
mod server;

pub use host::{Inherited, WARDEN, warden};
pub use server::{Config, Server, start};
