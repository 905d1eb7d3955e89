//! The ports of a handler, connected to a world: the simulation's, the search's, or that of a test of one batch.
//!
//! The environment of the handler holds a call until the world takes it. The world decides its outcome, and answers at
//! a time of its choice, or never. There is no thread and no runtime: the world polls a handler whenever it has
//! answered one of its calls.

mod functions;
mod item;
mod ledger;
mod port;
mod queues;
mod records;
mod reply;
mod request;

pub use item::More;
pub use port::{AwsHandler, Environment, Port, Slot};
pub use reply::{Answer, Found, Refusal, Reply};
pub use request::{Entry, Exchange, Invoke, Origin, Request, Write};
