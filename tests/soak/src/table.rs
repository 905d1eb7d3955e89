//! The ledger in the local cloud's DynamoDB, and the notes in it.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use comeback_local_client::deploy::config;
use serde_json::Value;

pub const NAME: &str = "ledger";

/// Creates the ledger in the DynamoDB at this endpoint, and returns a client of it.
pub async fn create(endpoint: &str) -> Client {
    let client = Client::new(&config(endpoint));
    moto::create_register(&client, NAME).await;
    client
}

/// What the notes say, by the request id of the run that each is about.
pub async fn notes(tables: &Client) -> HashMap<String, Value> {
    let mut pages = tables.scan().table_name(NAME).into_paginator().items().send();
    let mut notes = HashMap::new();
    while let Some(item) = pages.next().await {
        let mut item = item.unwrap();
        let mut text = |name: &str| item.remove(name)?.as_s().cloned().ok();
        if let (Some(run), Some(metadata)) = (text("run"), text("metadata")) {
            notes.insert(run, serde_json::from_str(&metadata).unwrap());
        }
    }
    notes
}
