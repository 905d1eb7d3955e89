//! moto's server, an independent implementation of AWS's services.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider, retry::RetryConfig},
    types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};
use aws_types::SdkConfig;

/// A server on a port of its own. It ends when its standard input is closed, by a drop or by the test's end.
#[derive(Debug)]
pub struct Moto {
    pub endpoint: String,
    _process: Child,
}

impl Moto {
    /// Starts a server. Installs it below `target/` if necessary.
    pub fn start() -> Self {
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

/// The configuration for clients of a server on this machine. They make no retries.
pub fn config(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("key", "secret", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(endpoint)
        .build()
}

/// Creates a ledger's table with the index of the register.
pub async fn create_register(client: &Client, name: &str) {
    comeback_dynamodb::register::create_table(client, name).unwrap().send().await.unwrap();
}

/// Creates a table with a partition key of this name, of type string.
pub async fn create_table(client: &Client, name: &str, key: &str) {
    let attribute =
        AttributeDefinition::builder().attribute_name(key).attribute_type(ScalarAttributeType::S);
    let schema = KeySchemaElement::builder().attribute_name(key).key_type(KeyType::Hash);
    client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute.build().unwrap())
        .key_schema(schema.build().unwrap())
        .send()
        .await
        .unwrap();
}
