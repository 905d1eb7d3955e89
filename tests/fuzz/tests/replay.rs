//! What fuzzing has found so far, once more.

use std::fs;
use std::path::Path;

use fuzz::TARGETS;

#[test]
fn what_was_found_for_a_target_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, check) in TARGETS {
        let mut inputs = 0;
        for entry in fs::read_dir(corpus.join(target)).unwrap() {
            let path = entry.unwrap().path();
            // Told where a check fails.
            println!("{}", path.display());
            check(&fs::read(path).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "{target} has no corpus");
    }
}

#[test]
fn every_corpus_belongs_to_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in fs::read_dir(corpus).unwrap() {
        let folder = entry.unwrap().file_name();
        assert!(TARGETS.iter().any(|(target, _)| folder == *target), "{folder:?}");
    }
}
