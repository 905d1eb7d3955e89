//! What must hold for any bytes that reach Comeback from outside.
//!
//! Each target is one function that takes bytes and asserts what must be true of them. A fuzzer
//! calls it with what it invents (`driver/`, by hand, on nightly); the test `replay` calls it with
//! what fuzzing has found so far (`corpus/`, on stable, with all other tests). A find becomes an input
//! of the corpus, so that it is never found twice.
#![allow(clippy::unwrap_used, reason = "a check of tests: to stop is to report")]

pub mod batch_response;
pub mod envelope;
pub mod protocol;
pub mod record;
pub mod settings;

/// A target's name, which is that of its file in `corpus/` too, and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 5] = [
    ("batch_response", batch_response::check),
    ("envelope", envelope::check),
    ("protocol", protocol::check),
    ("record", record::check),
    ("settings", settings::check),
];
