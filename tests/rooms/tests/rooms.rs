//! Tests that crates depend on each other as ARCHITECTURE.md says: a rule without a test is only a wish.
#![allow(clippy::unwrap_used, reason = "cargo's metadata has what it has always had")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

/// The rooms that each room may name as dependencies. Dev-dependencies are not limited.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("comeback-core", &[]),
    ("comeback-flow", &["comeback-core"]),
    ("comeback-dynamodb", &["comeback-core"]),
    ("comeback", &["comeback-core", "comeback-dynamodb"]),
    ("comeback-local", &["comeback-core", "comeback-local-model"]),
    ("comeback-local-client", &["comeback-core", "comeback-local-model"]),
    ("comeback-local-model", &["comeback-core"]),
    ("retry-handler", &["comeback-core", "comeback-dynamodb", "comeback-flow"]),
    ("envelope-proxy", &["comeback-core"]),
    ("example-target", &["comeback"]),
    (
        "comeback-cli",
        &[
            "comeback-core",
            "comeback-dynamodb",
            "comeback-local",
            "comeback-local-client",
            "example-target",
            "retry-handler",
        ],
    ),
    ("wire", &["comeback-core", "comeback-flow", "comeback-local-model"]),
    ("simulation", &["comeback-core", "comeback-flow", "comeback-local-model", "wire"]),
    ("search", &["comeback-core", "comeback-flow", "comeback-local-model", "wire"]),
];

/// The crates that each crate must not have even as transitive dependencies: a name, or a prefix.
const NEVER: [(&str, &[&str]); 9] = [
    ("comeback-core", &["tokio", "aws", "hyper", "tracing"]),
    ("comeback-dynamodb", &["comeback-flow"]),
    ("comeback", &["aws-config", "comeback-flow"]),
    ("comeback-flow", &["tokio", "aws-", "hyper"]),
    ("envelope-proxy", &["aws", "comeback-flow", "lambda_runtime"]),
    ("comeback-local", &["aws-", "aws_lambda_events", "comeback-flow"]),
    ("comeback-local-model", &["tokio", "axum", "rustix"]),
    ("simulation", &["aws-", "lambda_runtime"]),
    ("search", &["aws-", "lambda_runtime"]),
];

/// Crates for tests, which no room may depend on.
const TESTS: [&str; 11] = [
    "book",
    "end-to-end",
    "fuzz",
    "kit-bench",
    "moto",
    "proxy-bench",
    "rooms",
    "search",
    "simulation",
    "soak",
    "wire",
];

#[test]
fn each_room_uses_only_the_crates_it_may_and_no_room_is_forgotten() {
    let graph = Graph::read();
    let members: BTreeSet<&str> = graph.members.iter().map(String::as_str).collect();
    let mut known: BTreeSet<&str> = TESTS.into();
    for (room, allowed) in MAY_USE {
        known.insert(room);
        for used in graph.named[room].iter().filter(|used| members.contains(used.as_str())) {
            assert!(allowed.contains(&used.as_str()), "{room} may not use {used}");
        }
    }
    assert_eq!(members, known);
}

#[test]
fn no_forbidden_crate_is_a_transitive_dependency() {
    let graph = Graph::read();
    let optional = "aws-smithy-runtime-api";
    assert!(graph.dependencies("comeback").contains(optional), "optional ones are included");
    for (room, never) in NEVER {
        for dependency in graph.dependencies(room) {
            let forbidden = never.iter().find(|start| dependency.starts_with(*start));
            assert_eq!(forbidden, None, "{room} depends on {dependency}");
        }
    }
}

/// Modules of the program below its commands that are as pure as the rules, which may use them.
const PURE: [&str; 3] = ["activity::runs", "operate::attempts", "quantiles"];

/// The rules of the operator's commands are tested with facts alone, because they can reach nothing else.
#[test]
fn no_rule_of_a_command_uses_tokio_an_sdk_a_clock_or_a_module_that_is_no_rule() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/comeback/src");
    let mut rules = Vec::new();
    sources(&program, &mut |path, source| {
        let path = path.strip_prefix(&program).unwrap().to_str().unwrap().to_owned();
        let is_pure = PURE.iter().any(|pure| path == format!("{}.rs", pure.replace("::", "/")));
        if is_pure || path.contains("/rules") {
            rules.push((path, source));
        }
    });
    assert!(rules.len() > 10, "{rules:?}");
    let never = [
        "tokio::", "aws_", "axum", "maud::", "std::env", "std::fs", "std::io", "std::net", "::now(",
    ];
    for (path, source) in rules {
        for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let forbidden = never.iter().find(|never| line.contains(*never));
            assert_eq!(forbidden, None, "{path}: {line}");
        }
        let is_inside = |used: &&String| {
            used.contains("rules") || PURE.iter().any(|pure| used.starts_with(pure))
        };
        let used = used_of_crate(&source);
        let outside = used.iter().find(|used| !is_inside(used));
        assert_eq!(outside, None, "{path}");
    }
}

/// The paths below `crate::` that a source names, each in full.
fn used_of_crate(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = code.flat_map(|line| [line.trim(), " "]).collect();
    let mut found = Vec::new();
    for rest in code.split("crate::").skip(1) {
        // The path that is read, and the beginnings that its braces share.
        let (mut path, mut shared) = (String::new(), Vec::<String>::new());
        for c in rest.chars() {
            match c {
                '{' if path.is_empty() || path.ends_with("::") => shared.push(path.clone()),
                ' ' if !shared.is_empty() => {}
                ',' | '}' if !shared.is_empty() => {
                    found.push(path);
                    if c == '}' {
                        shared.pop();
                    }
                    path = shared.last().cloned().unwrap_or_default();
                    if shared.is_empty() {
                        break;
                    }
                }
                c if c.is_alphanumeric() || "_:*".contains(c) => path.push(c),
                _ => break,
            }
        }
        found.push(path);
    }
    found.retain(|path| !path.is_empty() && !path.ends_with("::"));
    found
}

fn sources(folder: &Path, take: &mut impl FnMut(&Path, String)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, take);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            take(&path, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The packages that would be linked, and the dependencies of each.
struct Graph {
    members: Vec<String>,
    named: BTreeMap<String, Vec<String>>,
    linked: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn read() -> Self {
        let metadata = Command::new(env!("CARGO"))
            // Optional dependencies are included, because some build links them.
            .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
        let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let name_of: BTreeMap<&str, String> = packages
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"]).to_owned()))
            .collect();
        let members = metadata["workspace_members"].as_array().unwrap();
        let is_normal = |dependency: &&Value| dependency["kind"].is_null();
        let named = packages.iter().map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter().filter(is_normal);
            let names = dependencies.map(|dependency| text(&dependency["name"]).to_owned());
            (text(&package["name"]).to_owned(), names.collect())
        });
        let linked = metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| {
            let linked = node["deps"].as_array().unwrap().iter().filter(|dependency| {
                dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| is_normal(&kind))
            });
            let names = linked.map(|dependency| name_of[text(&dependency["pkg"])].clone());
            (name_of[text(&node["id"])].clone(), names.collect())
        });
        Self {
            members: members.iter().map(|id| name_of[text(id)].clone()).collect(),
            named: named.collect(),
            linked: linked.collect(),
        }
    }

    fn dependencies(&self, package: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![package.to_owned()];
        while let Some(next) = open.pop() {
            for dependency in &self.linked[&next] {
                if found.insert(dependency.clone()) {
                    open.push(dependency.clone());
                }
            }
        }
        found
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
