//! The adapters on moto's SQS and DynamoDB: an implementation that nobody here wrote.
#![allow(clippy::unwrap_used, reason = "tests")]

mod ledger;
mod queues;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};

/// moto's server, which ends with the tests: they hold its standard input.
struct Moto {
    endpoint: String,
    _process: Child,
}

impl Moto {
    fn start() -> Self {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let made = Command::new(root.join("scripts/python"))
            .arg("tests/conformance/requirements.txt")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let python = String::from_utf8(made.stdout).unwrap();
        let mut process = Command::new(python.trim())
            .arg(root.join("tests/conformance/moto_server.py"))
            .env_remove("PYTHONPATH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut endpoint = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut endpoint).unwrap();
        assert!(endpoint.starts_with("http://127.0.0.1:"), "moto said {endpoint:?}");
        Self { endpoint: endpoint.trim().to_owned(), _process: process }
    }
}

/// What a client of the one server of all tests needs. Each test has queues and tables of its own.
fn config() -> SdkConfig {
    static MOTO: OnceLock<Moto> = OnceLock::new();
    let credentials = Credentials::new("key", "secret", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(&MOTO.get_or_init(Moto::start).endpoint)
        .build()
}
