//! Errors as they are where they happen: real connections that fail, real answers, and the verdict on each.
#![allow(clippy::unwrap_used, reason = "tests")]

mod aws;
mod http;
mod server;
