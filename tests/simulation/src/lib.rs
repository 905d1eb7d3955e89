//! The retry loop in virtual time, with every fault drawn from a seed.
//!
//! A *world* ([`world`]) is the local cloud's model of SQS and Lambda, production's `flow` and `core`
//! as the handlers in its middle, and a virtual clock. Its *plan* ([`plan`]) is drawn from a seed:
//! events, policies, queues, handlers, and how often each fault happens. A *judge* (`judge`) watches
//! from outside and holds everything against rules of its own. Faults stop at some time, and then all
//! must settle.
//!
//! One seed is one world: what fails once fails again, and can be read line by line.

mod agenda;
pub mod check;
mod draw;
mod judge;
mod payload;
pub mod plan;
mod rules;
pub mod run;
mod spell;
pub mod story;
pub mod tally;
mod wire;
pub mod world;
