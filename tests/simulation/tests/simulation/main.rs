//! The simulation's own tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod ids;
mod outages;
mod scripts;
mod shorten;
mod worlds;
