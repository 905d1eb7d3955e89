//! Replays the inputs that fuzzing has found so far.
#![allow(clippy::unwrap_used, reason = "a check reports a failure by a panic")]

use std::{collections::BTreeMap, fs};

use fuzz::TARGETS;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

/// The inputs of a target, by name. In the file, each character stands for a byte (see `corpus.py`).
fn inputs(target: &str) -> BTreeMap<String, Vec<u8>> {
    let file = fs::read_to_string(format!("{CORPUS}/{target}.json")).unwrap();
    let texts: BTreeMap<String, String> = serde_json::from_str(&file).unwrap();
    let bytes = |text: String| text.chars().map(|byte| u8::try_from(byte).unwrap()).collect();
    texts.into_iter().map(|(name, text)| (name, bytes(text))).collect()
}

#[test]
fn every_check_passes_for_its_corpus() {
    for (target, check) in TARGETS {
        let inputs = inputs(target);
        assert!(!inputs.is_empty(), "{target} has no corpus");
        for (name, input) in inputs {
            // The test harness prints this only if the check fails.
            println!("{target}/{name}");
            check(&input);
        }
    }
}

#[test]
fn every_corpus_belongs_to_a_target() {
    for entry in fs::read_dir(CORPUS).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap();
        assert!(TARGETS.iter().any(|(target, _)| name == *target), "{}", file.display());
    }
}
