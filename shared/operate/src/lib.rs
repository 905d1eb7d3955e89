//! What an operator of Comeback sees and does: facts in, findings and plans out.
//!
//! [`dead_letters`] finds letters of the dead-letter queue, and redrives or deletes them.
//!
//! [`simulation`] says what a policy means before it is deployed: when the attempts of an event fall, and what an
//! outage of the target costs.
//!
//! [`systems`] finds the retry systems of an account and a region.
//!
//! Nothing here reads a clock, the environment or the network, and nothing knows a terminal. The command-line program
//! fetches the facts and shows the results.

pub mod dead_letters;
pub mod ports;
pub mod simulation;
pub mod systems;
