//! The retry loop in virtual time, with every fault drawn from a seed.
//!
//! A *world* ([`world`]) consists of the local cloud's model of SQS and Lambda, production's `flow` and `core` as
//! the handlers, and a virtual clock. Its *plan* ([`plan`]) is drawn from a seed: events, policies, queues, handlers,
//! and how often each fault happens. A *judge* (`judge`) watches from outside and compares everything with its own
//! statement of the rules. At some time faults stop, and then everything must settle.
//!
//! The same seed makes the same world, so a failure can be replayed and read line by line.

pub mod check;
mod dice;
mod judge;
mod payload;
pub mod plan;
mod rules;
pub mod run;
pub mod story;
pub mod tally;
mod wire;
pub mod world;
