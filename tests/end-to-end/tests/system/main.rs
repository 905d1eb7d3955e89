//! Tests of the whole system from outside: the real binaries in the local cloud, observed through queues, runs of
//! functions and their logs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use end_to_end::{cloud, journal, processes, retry_loop};

mod bad_input;
mod giving_up;
mod handler_faults;
mod kit;
mod ledger;
mod once_per_failure;
mod other_clients;
mod other_languages;
mod overflow;
mod probes;
mod proxy;
mod queues;
mod recovery;
mod register;
mod transparent;
mod upstream;
