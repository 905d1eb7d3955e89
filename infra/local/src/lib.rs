//! One process that is SQS and Lambda on loopback, for trying and for testing.
//!
//! It runs real, unmodified function binaries behind the Lambda Runtime API, and any AWS SDK or the AWS CLI can
//! talk to it. A request comes in at the `gate`, which checks that it is allowed, and goes to the `api` of its
//! service. There it is parsed and makes one step on the [`model`], which holds every rule: queues, the
//! asynchronous queue, retries, destinations, mappings, concurrency. The model says which functions have to run
//! now. The `host` runs them as child processes and tells the model how they ended. The [`journal`] records what
//! happened.
//!
//! The model is pure: time and randomness are arguments, so that a simulation can drive it in virtual time. The
//! rest is a thin shell around it. `shared` holds the state; `server` starts and ends everything.
//!
//! Nothing here is durable or secured. It listens on loopback only, accepts any signature, and forgets everything
//! when it ends.

mod api;
mod clock;
mod gate;
mod host;
pub mod journal;
pub mod model;
mod outage;
mod server;
mod shared;

pub use axum::Router;
pub use gate::is_to_loopback;
pub use host::{Inherited, WARDEN, warden};
pub use outage::{Outage, Outages};
pub use server::{Config, Server, start};
