//! Properties that must hold for any bytes that reach Comeback from outside.
//!
//! Each target is a function that takes bytes and asserts what must hold for them. A fuzzer calls it with bytes that it
//! generates (`driver/`, run by hand on nightly). The test `replay` calls it with the inputs that fuzzing has found so
//! far (`corpus/`, on stable, with all other tests). Every find becomes an input of the corpus, so a bug is not found
//! twice.
#![allow(clippy::unwrap_used, reason = "a check reports a failure by a panic")]

mod envelope;
mod protocol;
mod record;
mod settings;

/// The name of a target, which is also the name of its file in `corpus/`, and its check.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 4] = [
    ("envelope", envelope::check),
    ("protocol", protocol::check),
    ("record", record::check),
    ("settings", settings::check),
];

/// Calls the check of a target.
pub fn check(target: &str, data: &[u8]) {
    let (_, check) = TARGETS.into_iter().find(|(name, _)| *name == target).unwrap();
    check(data);
}
