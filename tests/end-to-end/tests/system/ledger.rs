//! DynamoDB for the ledger and for functions: moto, which is independent of this project.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    config::{BehaviorVersion, Credentials, Region},
    types::AttributeValue,
};
use moto::{Moto, create_table};

pub const TABLE: &str = "ledger";

/// moto's server on a free port. Dropping it stops the server.
pub struct Tables {
    pub endpoint: String,
    client: aws_sdk_dynamodb::Client,
    _moto: Moto,
}

impl Tables {
    pub fn start() -> Self {
        let moto = Moto::start();
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .endpoint_url(&moto.endpoint)
            .build();
        let client = aws_sdk_dynamodb::Client::from_conf(config);
        Self { endpoint: moto.endpoint.clone(), client, _moto: moto }
    }

    /// Creates the table of claims with this partition key.
    pub async fn create(&self, key: &str) {
        self.create_named(TABLE, key).await;
    }

    /// Creates a table with this partition key.
    pub async fn create_named(&self, name: &str, key: &str) {
        create_table(&self.client, name, key).await;
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
