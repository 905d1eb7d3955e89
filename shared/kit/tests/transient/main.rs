//! Tests the verdicts on errors of real connections and responses.
#![allow(clippy::unwrap_used, reason = "tests")]

mod aws;
mod http;
mod server;
