//! What an operator of Comeback sees and does: facts in, findings and plans out.
//!
//! [`attach`] attaches a function, so that its failures are retried, or detaches it.
//!
//! [`dead_letters`] finds letters of the dead-letter queue, and redrives or deletes them.
//!
//! [`doctor`] finds problems in a retry system, and how to fix them. [`permissions`] has the IAM policy for each
//! command.
//!
//! [`simulation`] says what a policy means before it is deployed: when the attempts of an event fall, and what an
//! outage of the target costs.
//!
//! [`life`] tells what happened to one event, and what happens next.
//!
//! [`live`] keeps the latest events for a page that shows them while they happen.
//!
//! [`status`] shows the state of each function.
//!
//! [`told`] says what a plan means and what was done, in lines that a terminal and a page both show.
//!
//! [`waiting`] lists the events that wait, and orders what is to become of them.
//!
//! [`systems`] finds the retry systems of an account and a region.
//!
//! Nothing here reads a clock, the environment or the network, and nothing knows a terminal. The command-line program
//! fetches the facts and shows the results.

pub mod attach;
pub mod dead_letters;
pub mod doctor;
mod filter;
pub mod groups;
pub mod life;
pub mod live;
pub mod permissions;
pub mod ports;
pub mod queue_policy;
pub mod simulation;
pub mod status;
pub mod systems;
pub mod told;
pub mod waiting;
