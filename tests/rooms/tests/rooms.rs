//! Tests that crates depend on each other as ARCHITECTURE.md says: a rule without a test is only a wish.
#![allow(clippy::unwrap_used, reason = "cargo's metadata has what it has always had")]

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

/// The crates that each crate may name as dependencies. Dev-dependencies are not limited.
const MAY_USE: [(&str, &[&str]); 12] = [
    ("comeback-core", &["chrono", "rand", "serde", "serde_json", "strsim", "thiserror"]),
    (
        "comeback-flow",
        &[
            "aws_lambda_events",
            "comeback-core",
            "futures-util",
            "serde_json",
            "thiserror",
            "tracing",
        ],
    ),
    (
        "comeback-aws",
        &[
            "aws-config",
            "aws-sdk-cloudwatch",
            "aws-sdk-dynamodb",
            "aws-sdk-lambda",
            "aws-sdk-sqs",
            "aws-smithy-http-client",
            "aws-smithy-runtime-api",
            "comeback-core",
            "comeback-dynamodb",
            "comeback-flow",
            "tokio",
        ],
    ),
    ("comeback-dynamodb", &["aws-sdk-dynamodb", "comeback-core"]),
    (
        "comeback-operate",
        &["chrono", "comeback-core", "futures-util", "serde", "serde_json", "thiserror"],
    ),
    (
        "comeback",
        &[
            "aws-sdk-dynamodb",
            "aws-smithy-runtime-api",
            "aws-smithy-types",
            "comeback-core",
            "comeback-dynamodb",
            "fastrand",
            "futures-util",
            "http",
            "httpdate",
            "hyper",
            "hyper-util",
            "lambda_runtime",
            "reqwest",
            "serde",
            "serde_json",
            "serde_path_to_error",
            "sha2",
            "thiserror",
            "tokio",
            "tower",
            "tracing",
        ],
    ),
    (
        "comeback-local",
        &[
            "axum",
            "base64",
            "chrono",
            "comeback-core",
            "form_urlencoded",
            "futures-util",
            "md-5",
            "minicbor",
            "rand",
            "rustix",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "tokio",
            "uuid",
            "zip",
        ],
    ),
    (
        "retry-handler",
        &[
            "aws-sdk-sqs",
            "aws_lambda_events",
            "chrono",
            "comeback-aws",
            "comeback-core",
            "comeback-flow",
            "lambda_runtime",
            "tokio",
            "tracing",
            "tracing-subscriber",
        ],
    ),
    (
        "envelope-proxy",
        &["comeback-core", "httparse", "rustix", "serde_json", "thiserror", "tokio"],
    ),
    ("example-target", &["chrono", "comeback", "lambda_runtime", "serde", "serde_json", "tokio"]),
    (
        "comeback-cli",
        &[
            "aws-config",
            "aws-sdk-cloudwatch",
            "aws-sdk-cloudwatchlogs",
            "aws-sdk-dynamodb",
            "aws-sdk-iam",
            "aws-sdk-lambda",
            "aws-sdk-sqs",
            "aws-smithy-http-client",
            "aws-types",
            "axum",
            "chrono",
            "clap",
            "clap_complete",
            "clap_mangen",
            "comeback-core",
            "comeback-dynamodb",
            "comeback-local",
            "comeback-operate",
            "comfy-table",
            "dialoguer",
            "form_urlencoded",
            "futures-util",
            "indicatif",
            "maud",
            "percent-encoding",
            "plotters",
            "rand",
            "rustix",
            "serde",
            "serde_json",
            "tempfile",
            "thiserror",
            "tokio",
        ],
    ),
    (
        "simulation",
        &[
            "aws_lambda_events",
            "clap",
            "comeback-core",
            "comeback-flow",
            "comeback-local",
            "mimalloc",
            "rand",
            "serde_json",
        ],
    ),
];

/// The crates that each crate must not have even as transitive dependencies: a name, or a prefix.
const NEVER: [(&str, &[&str]); 8] = [
    ("comeback-core", &["tokio", "aws", "hyper", "tracing"]),
    ("comeback-dynamodb", &["comeback-aws", "comeback-flow"]),
    ("comeback", &["aws-config", "comeback-aws", "comeback-flow"]),
    ("comeback-flow", &["tokio", "aws-", "hyper", "comeback-aws"]),
    ("comeback-operate", &["tokio", "aws", "hyper", "comeback-aws", "comeback-flow"]),
    ("envelope-proxy", &["aws", "comeback-aws", "comeback-flow", "lambda_runtime"]),
    ("comeback-local", &["aws-", "aws_lambda_events", "comeback-aws", "comeback-flow"]),
    ("simulation", &["aws-", "comeback-aws", "lambda_runtime"]),
];

/// Crates for tests, which no room may depend on.
const TESTS: [&str; 9] = [
    "book",
    "end-to-end",
    "fuzz",
    "kit-bench",
    "moto",
    "proxy-bench",
    "rooms",
    "simulation",
    "soak",
];

#[test]
fn each_room_uses_only_the_crates_it_may_and_no_room_is_forgotten() {
    let graph = Graph::read();
    let mut known: BTreeSet<&str> = TESTS.into();
    for (room, allowed) in MAY_USE {
        known.insert(room);
        for used in &graph.named[room] {
            assert!(allowed.contains(&used.as_str()), "{room} may not use {used}");
            assert!(!TESTS.contains(&used.as_str()), "{room} uses a crate of tests");
        }
    }
    let members: BTreeSet<&str> = graph.members.iter().map(String::as_str).collect();
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

/// Newcomers wait for this build, and TLS alone was a quarter of it.
#[test]
fn the_demo_builds_no_tls_and_nothing_that_only_operators_use() {
    let script: Vec<_> = include_str!("../../../scripts/run").split_whitespace().collect();
    let built_by = |pair: &[&'static str]| (pair[0] == "--package").then(|| pair.to_vec());
    let packages: Vec<_> = script.windows(2).filter_map(built_by).flatten().collect();
    assert!(packages.len() == 6 && script.contains(&"--no-default-features"), "{script:?}");
    let tls = ["aws-lc-sys", "ring", "rustls"];
    let of_operators = ["comeback-operate", "aws-sdk-iam", "plotters"];
    // The second build is the one of `scripts/local`, which includes the live page.
    for (features, never) in
        [("", [tls, of_operators].concat()), ("comeback-cli/operate", tls.to_vec())]
    {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--no-default-features", "--features", features])
            .args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
            .args(&packages)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let tree = String::from_utf8(tree.stdout).unwrap();
        let built: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(built.contains("retry-handler") && built.contains("comeback-cli"), "{built:?}");
        let built = never.into_iter().filter(|never| built.contains(never));
        assert_eq!(built.collect::<Vec<_>>(), [""; 0], "with {features:?}");
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
