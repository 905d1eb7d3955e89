//! A file stands above what it uses, so no files use each other in a circle. The modules of the program stand on the
//! floors that ARCHITECTURE.md lists, and no arrow runs up or between two modules of one floor.
#![allow(clippy::unwrap_used, reason = "a tracked file can be read")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use rooms::{Arrows, Modules, arrows, circles, is_in, is_root, without_tests};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A module of the program: its floor, counted from the top, and whether it is pure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place {
    floor: usize,
    is_pure: bool,
}

/// The floors in ARCHITECTURE.md: a table whose columns are modules, and those that are pure.
fn floors() -> BTreeMap<String, Place> {
    let page = fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let section = page.split("## The floors of the program").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2).enumerate();
    let mut floors = BTreeMap::new();
    for (floor, row) in rows {
        for (column, cell) in row.trim_matches('|').split('|').enumerate() {
            // Every second part is between backticks.
            for module in cell.split('`').skip(1).step_by(2) {
                let place = Place { floor, is_pure: column == 1 };
                assert_eq!(floors.insert(module.to_owned(), place), None, "{module} stands twice");
            }
        }
    }
    floors
}

/// The entry of a module: its own, or that of the nearest module above it.
fn entry<'a>(floors: &'a BTreeMap<String, Place>, module: &str) -> Option<(&'a String, Place)> {
    let above = floors.iter().filter(|(above, _)| is_in(module, above));
    above.max_by_key(|(above, _)| above.len()).map(|(above, place)| (above, *place))
}

/// What is wrong about where modules stand.
fn faults(floors: &BTreeMap<String, Place>, arrows: &Arrows) -> Vec<String> {
    let mut faults = Vec::new();
    let mut stood_on = BTreeSet::new();
    for (module, used) in arrows {
        let Some((own, place)) = entry(floors, module) else {
            faults.push(format!("{module} is in no row of the floors"));
            continue;
        };
        stood_on.insert(own);
        for used in used {
            let below = entry(floors, used);
            if below.is_some_and(|(it, below)| it != own && below.floor <= place.floor) {
                faults.push(format!("{module} uses {used}, which doesn't stand below it"));
            }
        }
    }
    let empty = floors.keys().filter(|module| !stood_on.contains(module));
    faults.extend(empty.map(|module| format!("there is no module {module}")));
    faults
}

/// Whether a module decides and does nothing else: one that its floor says is pure, or one named `rules`.
fn is_pure(floors: &BTreeMap<String, Place>, module: &str) -> bool {
    let is_rule = module.split('/').any(|part| part == "rules");
    is_rule || entry(floors, module).is_some_and(|(_, place)| place.is_pure)
}

fn program() -> Modules {
    rooms::read(&Path::new(ROOT).join("scripts/comeback/src"))
}

#[test]
fn no_arrow_of_the_program_runs_up_and_every_module_has_its_floor() {
    assert_eq!(faults(&floors(), &arrows(&program())), [""; 0]);
}

/// What is pure is tested with facts alone, because it can reach nothing else.
#[test]
fn a_pure_module_uses_no_tokio_sdk_or_clock_and_no_module_that_is_not_pure() {
    let (floors, modules) = (floors(), program());
    let arrows = arrows(&modules);
    let pure: Vec<_> = modules.keys().filter(|module| is_pure(&floors, module)).collect();
    assert!(pure.len() > 40, "{pure:?}");
    let never = ["tokio::", "aws_", "axum", "maud::", "::now("];
    let never_of_std = ["env", "fs", "io", "net", "process", "thread"];
    for module in pure {
        let code = &modules[module];
        let forbidden = never.iter().find(|never| code.contains(**never));
        assert_eq!(forbidden, None, "{module}");
        let std = rooms::beginning_with("std", code);
        let of_std = std
            .iter()
            .find(|path| path.split("::").nth(1).is_some_and(|part| never_of_std.contains(&part)));
        assert_eq!(of_std, None, "{module}");
        let outside = arrows[module].iter().find(|used| !is_pure(&floors, used));
        assert_eq!(outside, None, "{module} is pure, and uses it");
    }
}

#[test]
fn no_files_of_the_program_use_each_other_in_a_circle() {
    assert_eq!(circles(&arrows(&program())), BTreeSet::new());
}

/// In the crates outside of `tests/`, a module may use those that it is in, and they may use it. Apart from that,
/// nothing goes round.
#[test]
fn no_modules_of_a_crate_beside_each_other_use_each_other_in_a_circle() {
    let listed = Command::new("git").args(["ls-files", "*Cargo.toml"]).current_dir(ROOT).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let crates = listed.lines().filter_map(|manifest| manifest.strip_suffix("Cargo.toml"));
    let is_read = |it: &&str| !it.starts_with("tests/");
    let mut read = 0;
    for folder in crates.filter(is_read) {
        let path = Path::new(ROOT).join(folder).join("src");
        if path.is_dir() {
            let mut arrows = arrows(&rooms::read(&path));
            let is_above = |above: &str, it: &str| is_root(above) || is_in(it, above);
            for (module, used) in &mut arrows {
                used.retain(|it| !is_above(module, it) && !is_above(it, module));
            }
            assert_eq!(circles(&arrows), BTreeSet::new(), "{folder}");
            read += 1;
        }
    }
    assert!(read > 8, "{read}");
}

/// A small program, as its files would be.
fn planted(files: &[(&str, &str)]) -> Modules {
    let files = files.iter().map(|(module, source)| ((*module).to_owned(), (*source).to_owned()));
    without_tests(files.collect())
}

const PLANTED: [(&str, &str); 5] = [
    ("main", "mod command;\nmod facts;\nfn main() { command::run(); }"),
    (
        "command",
        "mod rules;\nuse crate::{\n    command::rules::{Plan, plan},\n    facts::{self as all, Fact},\n};",
    ),
    ("command/rules", "//! use crate::main\n#[cfg(test)]\nmod tests;\nuse crate::facts::Fact;"),
    ("command/rules/tests", "use crate::command::run;"),
    (
        "facts",
        "const TEXT: &str = \"use crate::command::run; \\\" {\";\n#[cfg(test)]\nmod tests {\n    use crate::command::run;\n}",
    ),
];

fn floors_of_planted() -> BTreeMap<String, Place> {
    let rows = [("main", 0, false), ("command", 1, false), ("facts", 2, true)];
    rows.map(|(module, floor, is_pure)| (module.to_owned(), Place { floor, is_pure })).into()
}

#[test]
fn the_arrows_of_a_program_without_a_fault_are_read_and_none_is_found() {
    let arrows = arrows(&planted(&PLANTED));
    let used = |module: &str| arrows[module].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(used("main"), ["command"]);
    assert_eq!(used("command"), ["command/rules", "facts"]);
    assert_eq!(used("command/rules"), ["facts"]);
    assert_eq!(used("facts"), [""; 0]);
    assert!(!arrows.contains_key("command/rules/tests"));
    assert_eq!(circles(&arrows), BTreeSet::new());
    assert_eq!(faults(&floors_of_planted(), &arrows), [""; 0]);
}

#[test]
fn a_planted_circle_is_found() {
    for import in ["use super::run;", "fn plan() { crate::command::run() }", "use super::{run};"] {
        let mut modules = planted(&PLANTED);
        modules.get_mut("command/rules").unwrap().push_str(import);
        let expected = ["command", "command/rules"].map(str::to_owned);
        assert_eq!(circles(&arrows(&modules)), expected.into(), "{import}");
    }
}

#[test]
fn a_planted_arrow_up_is_found_and_a_module_without_a_floor() {
    let mut modules = planted(&PLANTED);
    modules.get_mut("facts").unwrap().push_str("use crate::{command::{rules::Plan}};");
    let up = "facts uses command/rules, which doesn't stand below it";
    assert_eq!(faults(&floors_of_planted(), &arrows(&modules)), [up]);
    // Two commands of one floor.
    let mut modules = planted(&PLANTED);
    modules.insert("other".to_owned(), "use crate::command::run;".to_owned());
    let mut floors = floors_of_planted();
    let none = "other is in no row of the floors";
    assert_eq!(faults(&floors, &arrows(&modules)), [none]);
    floors.insert("other".to_owned(), floors["command"]);
    let beside = "other uses command, which doesn't stand below it";
    assert_eq!(faults(&floors, &arrows(&modules)), [beside]);
    floors.insert("gone".to_owned(), floors["command"]);
    assert!(faults(&floors, &arrows(&modules)).contains(&"there is no module gone".to_owned()));
}
