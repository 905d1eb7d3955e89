//! SQS, Lambda and a little of S3 in one process on loopback, for trying out and testing.
//!
//! It runs real, unmodified function binaries behind the Lambda Runtime API, and any AWS SDK or the AWS CLI can talk to
//! it. A request enters through the `gate`, which checks that it is allowed and passes it to the `api` of its service.
//! There it is parsed and makes one step on the [`model`], a crate of its own that has every rule. The model decides
//! which functions run. The `host` runs them as child processes and passes the outcomes to the model. The `journal`
//! records what happened. `shared` holds the state. `server` starts and stops everything.
//!
//! Nothing here is durable or secured. It listens on loopback only, accepts any signature, and forgets everything
//! when it ends.

mod api;
mod config;
mod gate;
mod host;
mod inherited;
mod journal;
mod outages;
mod present;
mod server;
mod shared;

pub use axum::Router;
pub use comeback_local_model as model;
pub use config::Config;
pub use gate::is_to_loopback;
pub use host::{WARDEN, warden};
pub use inherited::Inherited;
pub use outages::{Outage, Outages};
pub use server::{Server, start};
