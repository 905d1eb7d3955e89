//! The verdicts on errors of real connections and real responses.
#![allow(clippy::unwrap_used, reason = "tests")]

mod aws;
mod http;
mod server;
