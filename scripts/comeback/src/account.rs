//! What an account is: its functions, queues and buckets, what connects them, and how a call to it fails.
//!
//! These are values and rules about them, which know neither AWS's clients nor a terminal. `aws` reads the values. All
//! commands for operators stand on this.

pub mod attached;
pub mod bucket;
pub mod fault;
pub mod function;
pub mod handlers;
pub mod known;
pub mod mapping;
pub mod names;
pub mod notifications;
pub mod policy;
pub mod queue;
pub mod sender;
pub mod setup;
pub mod stream;
pub mod tags;
