//! Starts the whole system for a test or a soak: the real binaries in a local cloud of their own, observed
//! from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

pub mod bucket;
pub mod cloud;
pub mod code;
pub mod consumer;
pub mod journal;
pub mod processes;
pub mod retry_loop;
pub mod stream;
