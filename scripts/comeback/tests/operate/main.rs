//! The commands, run from outside on the local cloud and on moto. Here are those that need no cloud: `comeback
//! simulate`, the completions and the man pages.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod attach;
mod dead;
mod deliveries;
mod demo;
mod doctor;
mod history;
mod local;
mod page;
mod permissions;
mod records;
mod sessions;
mod status;
mod streams;
mod support;
mod waiting;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use support::text;

fn comeback(arguments: &[&str]) -> Output {
    support::comeback().args(arguments).output().unwrap()
}

#[test]
fn every_shell_has_completions_for_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = comeback(&["completions", shell]);
        let script = String::from_utf8(script.stdout).unwrap();
        for word in ["simulate", "local", "--max-processes"] {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let bash = comeback(&["completions", "bash"]).stdout;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("completions.bash");
    fs::write(&file, bash).unwrap();
    assert!(Command::new("bash").arg("-n").arg(file).status().unwrap().success());
    assert_eq!(comeback(&["completions", "dos"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_man_page() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man/man1");
    let made = comeback(&["man", folder.to_str().unwrap()]);
    assert!(made.status.success(), "{made:?}");
    for command in ["comeback", "comeback-simulate", "comeback-local"] {
        let page = fs::read_to_string(folder.join(command).with_extension("1")).unwrap();
        assert!(page.contains(&format!(".TH {command} 1")), "{page}");
    }
    let refused = comeback(&["man", "/dev/null/man1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("can't write /dev/null/man1"));
}

fn simulate(arguments: &[&str]) -> Output {
    comeback(&[&["simulate"], arguments].concat())
}

/// Adds the names of all members, at any depth, to `found`.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                found.insert(name.clone());
                names(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn two_policies_are_compared_in_tables_charts_and_a_page() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [svg, html] = ["simulation.svg", "simulation.html"].map(|name| folder.join(name));
    let [svg_path, html_path] = [&svg, &html].map(|path| path.to_str().unwrap());
    let policies = ["--policy", "calm: BASE_BACKOFF=10s", "--policy", "eager: MAX_BACKOFF=1m"];
    let files = ["--outage", "10m", "--rate", "1/s", "--svg", svg_path, "--html", html_path];
    let simulated = simulate(&[policies.as_slice(), files.as_slice()].concat());
    let stdout = text(&simulated.stdout);
    assert!(simulated.status.success(), "{}", text(&simulated.stderr));
    assert!(stdout.starts_with("An outage of 10 m, with 1 event a second\n"), "{stdout}");
    assert!(!stdout.contains('\x1b'), "a pipe is not a terminal: {stdout}");
    let charts = fs::read_to_string(svg).unwrap();
    assert!(charts.starts_with("<svg ") && charts.contains("eager"));
    assert!(fs::read_to_string(html).unwrap().contains(&charts));
}

#[test]
fn the_guide_names_every_member_of_the_json() {
    let simulated = simulate(&["--json", "--outage", "2h", "--rate", "1/s", "--set", "MAX_AGE=1h"]);
    let document: Value = serde_json::from_slice(&simulated.stdout).unwrap();
    let outage = &document["policies"][0]["outage"];
    let lost = outage["given_up"]["max_age_exceeded"].as_u64().unwrap();
    assert_eq!(outage["succeeded"].as_u64().unwrap() + lost, 7200);
    let mut found = BTreeSet::new();
    names(&document, &mut found);
    let guide = include_str!("../../../../docs/operate/simulate.md");
    found.remove("max_age_exceeded");
    let missing: Vec<_> = found
        .iter()
        .filter(|name| {
            !guide.contains(&format!("`{name}`")) && !guide.contains(&format!(".{name}`"))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_error_for_bad_input_says_what_is_expected() {
    for (arguments, code, part) in [
        (["--set", "MAX_AGE=soon"], 2, "comeback: MAX_AGE must be a duration"),
        (["--policy", "calm: MAX_BACKOFF=1s BASE_BACKOFF=2s"], 2, "comeback: MAX_BACKOFF must be"),
        (["--policy", "calm"], 2, "expected a name and settings"),
        (["--outage", "0s"], 2, "expected a duration from 1s to 31d"),
        (["--rate", "many"], 2, "expected a number of events"),
        (["--svg", "/no/such/folder/x.svg"], 1, "comeback: can't write /no/such/folder/x.svg"),
    ] {
        let refused = simulate(&arguments);
        let stderr = text(&refused.stderr);
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
        assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(code), String::new()));
    }
}
