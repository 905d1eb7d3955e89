//! The logic of the operator's commands: facts in, findings and plans out.
//!
//! [`attach`] attaches a function, so that its failures are retried, or detaches it.
//!
//! [`dead_letters`] finds letters in the dead-letter queue, and redrives or deletes them.
//!
//! [`doctor`] finds problems in a retry system, and how to fix them. [`permissions`] has the IAM policy for each
//! command.
//!
//! [`simulation`] shows the effects of a policy before it is deployed: when the attempts of an event are made, and what
//! an outage of the target costs.
//!
//! [`life`] reconstructs the history of one event from the handler's log, and says what happens next.
//!
//! [`live`] keeps the latest events for the live page.
//!
//! [`status`] shows the state of each function.
//!
//! [`notice`] has the lines that describe a plan or its results, on a terminal and on the live page.
//!
//! [`waiting`] lists the waiting events, and orders the handler to retry or cancel them.
//!
//! [`systems`] finds the retry systems of an account and a region.
//!
//! Nothing here reads a clock, the environment or the network, or writes to a terminal. The command-line program
//! fetches the facts and shows the results.

pub mod attach;
pub mod dead_letters;
pub mod doctor;
mod filter;
pub mod groups;
pub mod life;
pub mod live;
pub mod notice;
pub mod permissions;
pub mod ports;
pub mod queue_policy;
pub mod simulation;
pub mod status;
pub mod systems;
pub mod waiting;
