//! `comeback demo`: its output and its exit code.

use std::{fs, path::Path, process::Command};

use crate::{comeback, support::text};

#[test]
fn a_demo_prints_the_outcome_of_its_events_and_succeeds() {
    let demo = comeback(&["demo", "--events", "6", "--outage", "2"]);
    let (stdout, stderr) = (text(&demo.stdout), text(&demo.stderr));
    assert!(demo.status.success(), "{stdout}\n{stderr}");
    for part in [
        "6 events, upstream down for 2 s, seed 1\n",
        "A line is one step in an event's life; the event's name says how it fails.\n",
        "  order-1        is sent\n",
        "  order-1        waits ",
        "  order-1        attempt ",
        "invalid-1      the first run fails: PermanentFailure: no such item\n",
        "  invalid-1      is dead-lettered: not_retryable\n",
        "  always-fails-1 attempt 3 fails: Misconfigured: no database\n",
        "  always-fails-1 is dead-lettered: max_attempts_exceeded\n",
        "  the upstream is back\n",
        "succeeded    4 of 6 events",
        "lateness     median ",
        "dead letters 1 max_attempts_exceeded, 1 not_retryable\n",
        "Lambda alone retries after a minute at the earliest,\n",
        "Every event ended as it should.\n",
        "One dead letter in full:\n",
        "  Reason          max_attempts_exceeded\n",
        // No shell would find `comeback` here.
        concat!("  ", env!("CARGO_BIN_EXE_comeback"), " attach FUNCTION\n"),
    ] {
        assert!(stdout.contains(part), "{part:?} is not in\n{stdout}");
    }
    let [letter, counts] = ["One dead letter", "succeeded    4"].map(|part| stdout.find(part));
    assert!(letter < counts, "the counts are above the letter:\n{stdout}");
    assert_eq!(stdout.matches("  order-1        is sent\n").count(), 1, "{stdout}");
    assert!(!stdout.contains('\x1b'), "a pipe is not a terminal: {stdout}");
    assert_eq!(stderr, "");
}

#[test]
fn the_program_needs_no_other_file_and_no_environment() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alone");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("comeback");
    fs::copy(env!("CARGO_BIN_EXE_comeback"), &program).unwrap();
    let mut demo = Command::new(&program);
    demo.args(["demo", "--events", "4", "--outage", "1"]).env_clear().current_dir("/");
    let demo = demo.output().unwrap();
    assert!(demo.status.success(), "{demo:?}");
}

#[test]
fn no_help_names_the_functions_in_the_program() {
    for command in [&["--help"][..], &["local", "--help"], &["demo", "--help"]] {
        assert!(!text(&comeback(command).stdout).contains("__"), "{command:?}");
    }
}

#[test]
fn a_command_with_a_missing_binary_fails_before_it_prints_anything() {
    let folder = env!("CARGO_MANIFEST_DIR");
    for command in ["demo", "local"] {
        let refused = comeback(&[command, "--binaries", folder]);
        let stderr = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1));
        let start = format!("comeback: retry-handler must be in {folder}, but is not; build it");
        assert!(stderr.starts_with(&start) && stderr.contains("cargo build --bins"), "{stderr}");
        assert_eq!(text(&refused.stdout), "");
    }
}
