//! A DynamoDB for the ledger and for functions: moto's, which knows nothing of this project.

use std::{collections::HashMap, process::Stdio};

use aws_sdk_dynamodb::{
    config::{BehaviorVersion, Credentials, Region},
    types::{
        AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
        ScalarAttributeType,
    },
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
            // It ends when this is closed.
            .stdin(Stdio::piped())
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

    /// Creates the table of claims, with this for its partition key.
    pub async fn create(&self, key: &str) {
        self.create_named(TABLE, key).await;
    }

    /// Creates a table with this partition key.
    pub async fn create_named(&self, name: &str, key: &str) {
        let attribute = AttributeDefinition::builder()
            .attribute_name(key)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .unwrap();
        let element = KeySchemaElement::builder().attribute_name(key).key_type(KeyType::Hash);
        self.client
            .create_table()
            .table_name(name)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(attribute)
            .key_schema(element.build().unwrap())
            .send()
            .await
            .unwrap();
    }

    /// The key and the state of every claim.
    pub async fn claims(&self) -> Vec<(String, String)> {
        let items = self.items(TABLE).await;
        let text =
            |item: &HashMap<String, AttributeValue>, name: &str| item[name].as_s().unwrap().clone();
        items.iter().map(|item| (text(item, "id"), text(item, "state"))).collect()
    }

    /// All items of a table.
    pub async fn items(&self, name: &str) -> Vec<HashMap<String, AttributeValue>> {
        self.client.scan().table_name(name).send().await.unwrap().items.unwrap()
    }
}
