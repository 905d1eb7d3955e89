//! The reference in docs has every setting, metric, log field and reason of the code, and no other.
#![allow(clippy::unwrap_used, reason = "tracked files can be read and have what is looked for")]

use std::{collections::BTreeSet, fs, path::Path};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

/// The code of a file, without its tests.
fn code(file: &str) -> String {
    read(file).split("#[cfg(test)]").next().unwrap().to_owned()
}

/// The text between `begin` and the next `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    text.split_once(begin).unwrap().1.split_once(end).unwrap().0
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

/// The names between backticks in the first column of a page's tables, in one section or in all.
fn documented(page: &str, section: &str) -> BTreeSet<String> {
    let page = read(page);
    let section = page.split("\n## ").find(|part| part.starts_with(section)).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.flat_map(|row| row.split('|').next().unwrap().split('`').step_by(2));
    names.map(str::to_owned).filter(|name| !name.trim_matches([' ', ',']).is_empty()).collect()
}

fn known<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_metric_is_documented() {
    let code = code("shared/flow/src/metrics.rs");
    // In the code, the units and dimensions of metrics look like their names.
    let others = ["Count", "Milliseconds", "Seconds", "Target", "Reason"];
    let is_metric = |name: &&str| name.starts_with(char::is_uppercase) && !others.contains(name);
    assert_eq!(documented("docs/metrics.md", "Metrics"), known(quoted(&code).filter(is_metric)));
}

#[test]
fn every_log_field_is_documented() {
    let code = code("shared/flow/src/log.rs");
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    // The arguments of our own macro and of tracing's: `name = value`, or the name of a variable.
    let lines = code.split("line!(").skip(1).map(|call| call.split(");").next().unwrap());
    let events = code.split("tracing::").skip(1).filter_map(|call| call.split_once('('));
    let events = events.map(|(_, call)| call.split(");").next().unwrap());
    let fields = lines.chain(events).flat_map(|call| call.split(['(', ',', '\n']));
    let fields = fields.filter_map(|field| {
        let name = field.split(" = ").next().unwrap().trim();
        (field.contains(" = ") || ["circuit", "was", "down_since", "queue_url"].contains(&name))
            .then_some(name)
    });
    let fields = known(fields.filter(|name| !name.is_empty()).filter(is_name));
    assert_eq!(documented("docs/metrics.md", "Log fields"), fields);
}

#[test]
fn every_reason_is_documented() {
    let code = code("shared/core/src/reason.rs");
    let names = quoted(between(&code, "fn as_str", "\n    }")).map(str::to_owned);
    let page = read("docs/reasons.md");
    let sections = page.lines().filter_map(|line| line.strip_prefix("## "));
    let sections: BTreeSet<_> =
        sections.filter(|name| *name != "no reason").map(str::to_owned).collect();
    assert_eq!(sections, names.collect());
}
