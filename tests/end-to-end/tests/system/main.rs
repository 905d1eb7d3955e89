//! Tests of the whole system from outside: the real binaries in the local cloud, observed through queues, runs of
//! functions and their logs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use end_to_end::{bucket, cloud, processes, retry_loop, stream};

mod events;
mod faults;
mod frozen;
mod kit;
mod once_per_failure;
mod other_languages;
mod outages;
mod queues;
mod records;
mod servers;
mod streams;
mod tenants;
mod without_envelope;
