//! The retry loop in virtual time, with every fault drawn from a seed.
//!
//! A *world* ([`world`]) consists of the local cloud's model of SQS and Lambda, production's `flow` and `core` as the
//! handlers, and a virtual clock. Its *plan* ([`plan`]) is drawn from a seed: events, policies, queues, handlers, and
//! how often each fault happens. A *judge* ([`judge`]) watches from outside and checks everything against its own
//! statement of the rules. At some time the faults stop, and then everything must settle.
//!
//! The same seed makes the same world, so a failure can be replayed and read line by line.

pub mod choices;
mod dice;
pub mod faults;
pub mod ids;
pub mod judge;
pub mod outages;
mod payload;
pub mod plan;
mod policy;
pub mod run;
pub mod script;
pub mod seen;
pub mod shorten;
mod stream;
pub mod world;

/// With the system's allocator, a world spends a fifth of its time on memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
