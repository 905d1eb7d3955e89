//! The operator's commands, run from outside on the local cloud and on moto. Here are the completions and the man pages.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod attach;
mod dead;
mod doctor;
mod permissions;
mod sessions;
mod simulate;
mod status;
mod support;
mod waiting;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

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
