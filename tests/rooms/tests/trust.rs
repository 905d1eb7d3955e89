//! ARCHITECTURE.md says what to read to trust the handler: all of our code that is deployed, and how much that is.
#![allow(
    clippy::unwrap_used,
    reason = "tracked files and cargo's metadata have what they have always had"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The rooms that the section lists, with the lines of code that it says each has.
fn listed() -> BTreeMap<String, usize> {
    let page = fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let section = page.split("## What to read to trust the handler").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].trim_matches('`').to_owned(), cells[1].replace(',', "").parse().unwrap())
    })
    .collect()
}

/// The lines of a room's code, without tests, comments and empty lines.
fn lines_of_code(room: &str) -> usize {
    let modules = rooms::read(&Path::new(ROOT).join(room).join("src"));
    let lines = modules.values().flat_map(|code| code.lines());
    lines.filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn the_rooms_to_read_have_as_many_lines_as_it_says_give_or_take_a_tenth() {
    for (room, said) in listed() {
        let is = lines_of_code(&room);
        assert!(is.abs_diff(said) * 10 <= is, "{room} has {is}, not {said}");
    }
}

#[test]
fn they_are_all_of_our_code_in_the_handler_and_what_plain_cargo_test_tests() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--no-deps"])
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let root = metadata["workspace_root"].as_str().unwrap();
    let room =
        |path: &str| Path::new(path).strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    let mut linked = BTreeSet::new();
    let mut open = vec!["functions/retry-handler".to_owned()];
    while let Some(next) = open.pop() {
        let manifest = format!("{next}/Cargo.toml");
        let package =
            packages.iter().find(|it| room(it["manifest_path"].as_str().unwrap()) == manifest);
        let dependencies = package.unwrap()["dependencies"].as_array().unwrap();
        let normal = dependencies.iter().filter(|it| it["kind"].is_null());
        open.extend(normal.filter_map(|it| it["path"].as_str()).map(room));
        linked.insert(next);
    }
    assert_eq!(listed().into_keys().collect::<BTreeSet<_>>(), linked);

    let default = metadata["workspace_default_members"].as_array().unwrap();
    let default = default.iter().map(|id| {
        let package = packages.iter().find(|it| it["id"] == *id).unwrap();
        let manifest = room(package["manifest_path"].as_str().unwrap());
        manifest.strip_suffix("/Cargo.toml").unwrap().to_owned()
    });
    assert_eq!(default.collect::<BTreeSet<_>>(), linked);
}
