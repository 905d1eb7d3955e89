//! A DynamoDB for the ledger: moto's, which knows nothing of this project.

use std::process::Stdio;

use aws_sdk_dynamodb::{
    config::{BehaviorVersion, Credentials, Region},
    types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::other_clients::{ROOT, python};

pub const TABLE: &str = "ledger";

/// moto's server on a port of its own, gone when this is dropped.
pub struct Tables {
    _process: Child,
    pub endpoint: String,
    client: aws_sdk_dynamodb::Client,
}

impl Tables {
    pub async fn start() -> Self {
        let mut process = Command::new(python("tests/conformance/requirements.txt"))
            .arg(format!("{ROOT}/tests/conformance/moto_server.py"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let endpoint = lines.next_line().await.unwrap().expect("an endpoint");
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .endpoint_url(&endpoint)
            .build();
        let client = aws_sdk_dynamodb::Client::from_conf(config);
        Self { _process: process, endpoint, client }
    }

    /// Creates the ledger's table, with this for its partition key.
    pub async fn create(&self, key: &str) {
        let attribute = AttributeDefinition::builder()
            .attribute_name(key)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .unwrap();
        let element = KeySchemaElement::builder().attribute_name(key).key_type(KeyType::Hash);
        self.client
            .create_table()
            .table_name(TABLE)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(attribute)
            .key_schema(element.build().unwrap())
            .send()
            .await
            .unwrap();
    }

    /// The key and the state of every claim.
    pub async fn claims(&self) -> Vec<(String, String)> {
        let items = self.client.scan().table_name(TABLE).send().await.unwrap().items.unwrap();
        let text = |item: &std::collections::HashMap<String, _>, name: &str| {
            let value: &aws_sdk_dynamodb::types::AttributeValue = &item[name];
            value.as_s().unwrap().clone()
        };
        items.iter().map(|item| (text(item, "id"), text(item, "state"))).collect()
    }
}
