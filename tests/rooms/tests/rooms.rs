//! Tests that crates depend on each other as ARCHITECTURE.md says: a rule without a test is only a wish.
#![allow(clippy::unwrap_used, reason = "cargo's metadata has what it has always had")]

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

/// The rooms that each room may name as dependencies. Dev-dependencies are not limited.
const MAY_USE: [(&str, &[&str]); 13] = [
    ("comeback-core", &[]),
    ("comeback-flow", &["comeback-core"]),
    ("comeback-dynamodb", &["comeback-core"]),
    ("comeback", &["comeback-core", "comeback-dynamodb"]),
    ("comeback-local", &["comeback-core", "comeback-local-model"]),
    ("comeback-local-client", &["comeback-core", "comeback-local-model"]),
    ("comeback-local-model", &["comeback-core"]),
    ("retry-handler", &["comeback-core", "comeback-dynamodb", "comeback-flow"]),
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
const NEVER: [(&str, &[&str]); 8] = [
    ("comeback-core", &["tokio", "aws", "hyper", "tracing"]),
    ("comeback-dynamodb", &["comeback-flow"]),
    ("comeback", &["aws-config", "comeback-flow"]),
    ("comeback-flow", &["tokio", "aws-", "hyper"]),
    ("comeback-local", &["aws-", "aws_lambda_events", "comeback-flow"]),
    ("comeback-local-model", &["tokio", "axum", "rustix"]),
    ("simulation", &["aws-", "lambda_runtime"]),
    ("search", &["aws-", "lambda_runtime"]),
];

/// Crates for tests, which no room may depend on.
const TESTS: [&str; 10] = [
    "book",
    "end-to-end",
    "fuzz",
    "kit-bench",
    "moto",
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
