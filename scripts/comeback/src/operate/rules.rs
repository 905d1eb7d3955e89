//! The rules that several commands share: facts in, findings and texts out.
//!
//! A module named `rules` reads no clock, environment or network, and writes to no terminal: a command fetches the
//! facts and shows the results. `tests/rooms` checks that no such module uses tokio, an SDK or a module that isn't a
//! rule.

pub mod filter;
pub mod groups;
pub mod life;
pub mod notice;
pub mod permissions;
pub mod ports;
pub mod queue_policy;
pub mod systems;
