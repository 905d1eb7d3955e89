//! The operator's commands, run from outside on the local cloud and on moto.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod attach;
mod dead;
mod doctor;
mod generated;
mod permissions;
mod sessions;
mod simulate;
mod status;
mod support;
mod waiting;
